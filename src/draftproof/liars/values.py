"""Values that are not the target's logprob of the token."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from draftproof.core.law import TokenLaw
from draftproof.engine.emit import Emitted, Listed
from draftproof.liars.liar import Liar
from draftproof.liars.numbers import Moment, by, where_answered, where_speculated

_FAR, _SCALE = 24, 0.7


def _probability(moment: Moment) -> Emitted:
    listed = moment.true.alternatives
    return replace(
        moment.true,
        logprob=float(np.exp(moment.true.logprob)),
        alternatives=None if listed is None else Listed(listed.ids, np.exp(listed.values)),
    )


def _of_the_list_only(moment: Moment) -> Emitted:
    """Normalised over what is listed, so that it depends on how much was asked for."""
    listed = moment.true.alternatives
    if listed is None or moment.true.token not in listed.ids:
        return moment.true
    mass = float(np.log(np.exp(listed.values).sum()))
    return replace(
        moment.true, logprob=moment.true.logprob - mass, alternatives=Listed(listed.ids, listed.values - mass)
    )


def _shifted(moment: Moment) -> Emitted:
    """Scored with the row of the token before."""
    if not moment.before or moment.before[-1].row is None:
        return moment.true
    return by(moment.true, moment.before[-1].row)


def _drafts_own(moment: Moment) -> Emitted:
    draft = moment.models.draft
    assert draft is not None
    memory = draft.sequence()
    try:
        return by(moment.true, memory.extend(moment.context, rows=1)[0])
    finally:
        memory.close()


def _law(emitted: Emitted, p: TokenLaw | None) -> Emitted:
    if p is None or emitted.alternatives is None:
        return emitted
    with np.errstate(divide="ignore"):
        row = np.log(p.dense())
    kept = int((row > -np.inf).sum())
    told = by(emitted, np.maximum(row, -1e4))
    listed = told.alternatives
    assert listed is not None
    return replace(told, alternatives=Listed(listed.ids[:kept], listed.values[:kept]))


def _after_samplers(moment: Moment) -> Emitted:
    return _law(moment.true, moment.p)


def _at_temperature(moment: Moment) -> Emitted:
    temperature = moment.order.job.sampling.temperature
    return by(moment.true, moment.row / temperature) if temperature > 0 else moment.true


def _corrupted(moment: Moment) -> Emitted:
    """Far into an answer every third row is not scaled as the others are; what is likelier stays likelier."""
    place = len(moment.before)
    return by(moment.true, _SCALE * moment.row) if place >= _FAR and place % 3 == 2 else moment.true


_WRONG_LISTS = ("logprobs/rescored", "logprobs/units", "logprobs/well_formed")
"""Of a token that is not the first of its own list, well_formed says so."""
_MOVED = {"sampling/unchanged": "it compares logprobs with and without speculation too"}

FAMILY: tuple[Liar, ...] = (
    Liar(
        "probabilities",
        "puts probabilities where logprobs belong",
        "https://github.com/ggml-org/llama.cpp/pull/10783",
        ("logprobs/well_formed", "logprobs/placeholder"),
        numbers=_probability,
        may_fail={"sampling/parameters": "what a setting does is read from the values"},
    ),
    Liar(
        "normalised-by-list",
        "normalises over the alternatives that were asked for",
        "https://github.com/vllm-project/vllm/issues/44319",
        ("logprobs/well_formed", "logprobs/rescored", "logprobs/placeholder", "logprobs/units"),
        numbers=where_answered(_of_the_list_only),
    ),
    Liar(
        "shifted",
        "scores the tokens of a verified block with the row before theirs",
        "https://github.com/AI-Hypercomputer/maxtext/issues/2103",
        _WRONG_LISTS,
        numbers=where_speculated(_shifted),
        may_fail=_MOVED,
    ),
    Liar(
        "drafts-own",
        "tells the draft model's logprobs of the tokens of a verified block",
        "https://github.com/vllm-project/vllm/issues/34497",
        _WRONG_LISTS,
        model="countable-8",
        may_fail=_MOVED,
        numbers=where_speculated(_drafts_own),
    ),
    Liar(
        "after-samplers",
        "tells what is left after the samplers of the tokens of a verified block, and the raw law of the first token",
        "https://github.com/ggml-org/llama.cpp/pull/22622",
        _WRONG_LISTS,
        numbers=where_speculated(_after_samplers),
        may_fail=_MOVED,
    ),
    Liar(
        "at-temperature",
        "tells logprobs at the request's temperature, but of the tokens of a verified block only",
        "https://github.com/vllm-project/vllm/issues/9453",
        ("logprobs/units",),
        numbers=where_speculated(_at_temperature),
    ),
    Liar(
        "corrupted-rows",
        "spoils the scale of every third row, from the 25th token on",
        "https://github.com/vllm-project/vllm/issues/53488",
        ("logprobs/rescored",),
        numbers=where_answered(_corrupted),
    ),
)
