"""From logits to the law that is sampled from, in float64.

Symbols as in Leviathan, Kalman, Matias 2023 (arXiv 2211.17192): p is the target's law after the samplers, raw the
log-softmax of its unmodified logits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from draftproof.core.sampling import Sampling

Law = NDArray[np.float64]


def log_softmax(logits: NDArray[np.floating]) -> Law:
    """float64[..., vocab]: log-probabilities of the unmodified logits. -inf logits stay -inf."""
    x = np.asarray(logits, dtype=np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    normalised: Law = x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
    return normalised


def total_variation(p: Law, r: Law) -> float:
    """Half the L1 distance of two laws on the same tokens, in [0, 1]."""
    return float(0.5 * np.abs(p - r).sum())


def penalise(logits: Law, context: Sequence[int], sampling: Sampling) -> Law:
    """Repeat, frequency and presence penalties over the last `repeat_last_n` tokens of the context, as llama.cpp applies them."""
    last = len(context) if sampling.repeat_last_n < 0 else sampling.repeat_last_n
    if not last or (sampling.repeat_penalty == 1 and not sampling.presence_penalty and not sampling.frequency_penalty):
        return logits
    seen, counts = np.unique(np.asarray(context[-last:], dtype=np.int64), return_counts=True)
    out: Law = logits.copy()
    x = out[seen]
    x = np.where(x <= 0, x * sampling.repeat_penalty, x / sampling.repeat_penalty)
    out[seen] = x - counts * sampling.frequency_penalty - sampling.presence_penalty
    return out


def shape(logits: NDArray[np.floating], context: Sequence[int], sampling: Sampling) -> Law:
    """The law p that `sampling` draws from at one position.

    logits: float[vocab], not mutated. context: all tokens before the position. Returns float64[vocab], sum 1.
    Ties at a truncation edge are broken by the lower token id. At temperature 0 the law is one-hot on the first argmax.
    Raises ValueError when no token is left.
    """
    x = np.array(logits, dtype=np.float64)
    for token, bias in sampling.logit_bias:
        x[token] += bias
    x = penalise(x, context, sampling)
    if not np.isfinite(x).any():
        raise ValueError("no token is left: every logit is -inf (logit_bias bans the whole vocabulary?)")
    if sampling.temperature <= 0:
        greedy = np.zeros_like(x)
        greedy[np.argmax(x)] = 1
        return greedy
    order = np.argsort(-x, kind="stable")
    keep = order[np.isfinite(x[order])]
    if sampling.top_k > 0:
        keep = keep[: sampling.top_k]
    if sampling.top_p < 1:
        mass = np.cumsum(np.exp(log_softmax(x[keep])))
        keep = keep[: int(np.searchsorted(mass, sampling.top_p, side="left")) + 1]
    if sampling.min_p > 0:
        keep = keep[x[keep] >= x[keep[0]] + np.log(sampling.min_p)]
    p = np.zeros_like(x)
    p[keep] = np.exp(log_softmax(x[keep] / sampling.temperature))
    return p
