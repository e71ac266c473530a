"""Constants in the place of measurements."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from draftproof.engine.emit import Emitted, Listed
from draftproof.liars.honest import NGRAM
from draftproof.liars.liar import Liar
from draftproof.liars.numbers import Moment, where_speculated

SENTINEL = -9999.0
_FLOOR = -100.0


def _zero(moment: Moment) -> Emitted:
    return replace(moment.true, logprob=0.0, p=1.0, alternatives=None, sampled=None)


def _null(moment: Moment) -> Emitted:
    return replace(moment.true, logprob=math.nan, alternatives=None, sampled=None)


def _two_values(moment: Moment) -> Emitted:
    likely = moment.true.logprob > -1
    return replace(moment.true, logprob=0.0 if likely else SENTINEL, alternatives=None, sampled=None)


def _certain(moment: Moment) -> Emitted:
    """The chosen token is sure, and the others have what the encoder makes of minus infinity."""
    listed = moment.true.alternatives
    if listed is None:
        return replace(moment.true, logprob=0.0)
    others = [token for token in listed.ids.tolist() if token != moment.true.token][: len(listed.ids) - 1]
    values = np.array([0.0, *[_FLOOR] * len(others)])
    return replace(moment.true, logprob=0.0, alternatives=Listed(np.array([moment.true.token, *others]), values))


FAMILY: tuple[Liar, ...] = (
    Liar(
        "placeholder",
        "says logprob 0 and lists no alternatives for every token of a verified block",
        "https://github.com/ggml-org/llama.cpp/issues/27972",
        ("logprobs/placeholder", "logprobs/rescored"),
        numbers=where_speculated(_zero),
    ),
    Liar(
        "placeholder-ngram",
        "does so when it drafts what was said before",
        "https://github.com/vllm-project/vllm/issues/17876",
        ("logprobs/placeholder", "logprobs/rescored"),
        {
            "logprobs/streaming": "what was said before decides which tokens of an answer are drafted, and have no values"
        },
        speculation=NGRAM,
        numbers=where_speculated(_zero),
    ),
    Liar(
        "placeholder-null",
        "has null for the logprob of every token of a verified block",
        "https://github.com/Pushkinist/rMLX/issues/542",
        ("logprobs/placeholder", "logprobs/presence"),
        numbers=where_speculated(_null),
    ),
    Liar(
        "sentinel",
        "knows two values only, 0 and -9999, and never an alternative",
        "https://github.com/deepseek-ai/DeepSeek-V3.2-Exp/issues/49",
        ("logprobs/placeholder",),
        numbers=_two_values,
    ),
    Liar(
        "certain",
        "says of every token of a verified block that it was the only one possible, alternatives at -100",
        "https://github.com/madroidmaq/mlx-omni-server/pull/56",
        ("logprobs/placeholder", "logprobs/rescored", "logprobs/units", "logprobs/encoding"),
        numbers=where_speculated(_certain),
        may_fail={"sampling/unchanged": "it compares logprobs with and without speculation too"},
    ),
)
