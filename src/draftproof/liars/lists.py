"""Lists of alternatives that are no lists of alternatives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from draftproof.engine.emit import Emitted, Listed
from draftproof.liars.liar import Liar
from draftproof.liars.numbers import Moment, where_answered, where_speculated


def _relisted(emitted: Emitted, ids: list[int], values: list[float]) -> Emitted:
    return replace(emitted, alternatives=Listed(np.array(ids, dtype=np.int64), np.array(values, dtype=np.float64)))


def _pairs(emitted: Emitted) -> list[tuple[int, float]]:
    listed = emitted.alternatives
    return [] if listed is None else list(zip(listed.ids.tolist(), listed.values.tolist(), strict=True))


def _copied(moment: Moment) -> Emitted:
    first = moment.before[0] if moment.before else moment.true
    return replace(moment.true, alternatives=first.alternatives)


def _merged(moment: Moment) -> Emitted:
    """The entry of the token before is in it too."""
    both = dict(_pairs(moment.before[-1]) if moment.before else [])
    both |= dict(_pairs(moment.true))
    ordered = sorted(both.items(), key=lambda pair: -pair[1])
    return _relisted(moment.true, [i for i, _ in ordered], [v for _, v in ordered])


def _duplicated(moment: Moment) -> Emitted:
    pairs = _pairs(moment.true)
    if len(pairs) < 2:
        return moment.true
    kept = sorted([*pairs[:-1], (moment.true.token, moment.true.logprob)], key=lambda pair: -pair[1])
    return _relisted(moment.true, [i for i, _ in kept], [v for _, v in kept])


def _one_less(moment: Moment) -> Emitted:
    pairs = _pairs(moment.true)
    return _relisted(moment.true, [i for i, _ in pairs[:-1]], [v for _, v in pairs[:-1]]) if pairs[1:] else moment.true


def _without_chosen(moment: Moment) -> Emitted:
    """The likeliest tokens but the chosen one, as many as were asked for."""
    count = len(_pairs(moment.true))
    order = [i for i in np.argsort(-moment.row, kind="stable").tolist() if i != moment.true.token][:count]
    shift = moment.true.logprob - float(moment.row[moment.true.token])
    return _relisted(moment.true, order, [float(moment.row[i]) + shift for i in order])


def _by_id(moment: Moment) -> Emitted:
    """The first entries of the vocabulary."""
    count = len(_pairs(moment.true))
    shift = moment.true.logprob - float(moment.row[moment.true.token])
    return _relisted(moment.true, list(range(count)), [float(moment.row[i]) + shift for i in range(count)])


FAMILY: tuple[Liar, ...] = (
    Liar(
        "lists-copied",
        "gives every token the list of the first one",
        "https://github.com/sgl-project/sglang/pull/2088",
        ("logprobs/well_formed",),
        numbers=where_answered(_copied),
        may_fail={"sampling/unchanged": "the law without speculation is read from the lists"},
    ),
    Liar(
        "lists-merged",
        "merges the lists of two tokens of one block into one",
        "https://github.com/theroyallab/tabbyAPI/pull/141",
        ("logprobs/well_formed",),
        numbers=where_speculated(_merged),
    ),
    Liar(
        "lists-duplicate",
        "lists the chosen token twice",
        "https://github.com/vllm-project/vllm/pull/36746",
        ("logprobs/well_formed",),
        numbers=where_speculated(_duplicated),
    ),
    Liar(
        "lists-short",
        "lists one alternative less than was asked for",
        "https://github.com/InternLM/lmdeploy/issues/1548",
        ("logprobs/well_formed",),
        numbers=where_speculated(_one_less),
    ),
    Liar(
        "lists-without-chosen",
        "lists likely tokens, but not the chosen one",
        "https://github.com/theroyallab/tabbyAPI/pull/141",
        ("logprobs/well_formed",),
        numbers=where_speculated(_without_chosen),
    ),
    Liar(
        "lists-by-id",
        "lists the first entries of the vocabulary in place of the likeliest",
        "https://github.com/ggml-org/llama.cpp/issues/7197",
        ("logprobs/well_formed",),
        numbers=where_speculated(_by_id),
    ),
)
