"""Sampler settings whose tokens are certain, and how far a token is from the one that a setting must give."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from draftproof.core.distribution import Law, log_softmax, shape
from draftproof.core.sampling import GREEDY, Sampling

HOT = 2.0
"""Temperature at which a truncation to one token is tried: without it nearly every token would be another."""
BAN = -100.0
WINDOW = 8
"""Tokens that a penalty looks back on: among more, a small vocabulary has every token, and all are penalised alike."""
PENALISED = replace(GREEDY, repeat_last_n=WINDOW)


class Kind(StrEnum):
    """What a setting does to a greedy answer."""

    BAN = "forbids one token"
    MOVES = "chooses another token"
    BEST = "leaves the most likely token alone, whatever the temperature"


@dataclass(frozen=True, slots=True)
class Setting:
    """One parameter alone. `core`: asked for at every effort. The ban's token is filled in by `banning`."""

    name: str
    kind: Kind
    sampling: Sampling
    core: bool = False
    additive: bool = False
    """Logits move by an amount that does not depend on them, so that log-probabilities do for logits."""


SETTINGS = (
    Setting("logit_bias", Kind.BAN, GREEDY, core=True, additive=True),
    Setting("frequency_penalty", Kind.MOVES, replace(PENALISED, frequency_penalty=2.0), core=True, additive=True),
    Setting("presence_penalty", Kind.MOVES, replace(PENALISED, presence_penalty=2.0), core=True, additive=True),
    Setting("repeat_penalty", Kind.MOVES, replace(PENALISED, repeat_penalty=2.0), core=True),
    Setting("top_k", Kind.BEST, Sampling(temperature=HOT, top_k=1), core=True),
    Setting("min_p", Kind.BEST, Sampling(temperature=HOT, min_p=0.999), core=True),
    Setting("top_p", Kind.BEST, Sampling(temperature=HOT, top_p=1e-6)),
    Setting("top_n_sigma", Kind.BEST, Sampling(temperature=HOT, top_n_sigma=1e-6)),
    Setting("mirostat", Kind.BEST, Sampling(temperature=HOT, mirostat=2, mirostat_tau=0.01)),
    Setting("typical_p", Kind.MOVES, Sampling(typical_p=1e-6)),
    Setting(
        "dry_multiplier", Kind.MOVES, replace(GREEDY, dry_multiplier=4.0, dry_allowed_length=1, dry_penalty_last_n=32)
    ),
    Setting("xtc_probability", Kind.MOVES, replace(GREEDY, xtc_probability=1.0, xtc_threshold=0.1)),
)
BY_NAME = {s.name: s for s in SETTINGS}

OPENAI = ("top_p",)
"""What a server can be asked for that says no token ids: the one that OpenAI's API has of those that need none."""


WITHOUT_IDS = {"vllm": (*OPENAI, "min_p")}
"""More of those, by the dialect that has them. Not top-k: one under n-grams ended the engine of vLLM 0.32.0."""


def banning(token: int) -> Sampling:
    """The ban of one token."""
    return replace(GREEDY, logit_bias=((token, BAN),))


def shortfalls(logits: Law, context: tuple[int, ...], sampling: Sampling) -> Law:
    """float64[vocab]: by how many nats each token's value must be changed to be the setting's choice, 0 for the choice itself.

    logits: float[vocab] of the model; log-probabilities do for every setting but a repeat penalty. +inf where no small change
    would do.
    """
    logprobs = log_softmax(logits)
    if sampling.typical_p < 1:
        entropy = -(np.exp(logprobs) * logprobs).sum()
        return _below(-np.abs(-logprobs - entropy))
    if sampling.xtc_probability > 0:
        return _left_by_xtc(logprobs, math.log(sampling.xtc_threshold))
    if sampling.temperature > 0:
        return _below(logprobs)
    with np.errstate(divide="ignore"):
        return _below(np.log(shape(logits, context, replace(sampling, temperature=1.0))))


def _below(values: Law) -> Law:
    out: Law = values.max() - values
    return out


def _left_by_xtc(logprobs: Law, threshold: float) -> Law:
    """XTC removes all tokens above the threshold but the least of them; with less than two above, none."""
    ordered = np.sort(logprobs)[::-1]
    uncut = np.maximum(_below(logprobs), ordered[1] - threshold)
    above = logprobs[logprobs >= threshold]
    rivals = [above[above < x] for x in logprobs]
    others = [max(np.minimum(r - threshold, x - r), default=0.0) for r, x in zip(rivals, logprobs, strict=True)]
    cut = np.maximum.reduce([threshold - logprobs, np.array(others), np.full_like(logprobs, threshold - ordered[1])])
    out: Law = np.maximum(np.minimum(uncut, cut), 0.0)
    return out
