"""Other tokens than the model's own, put where a block ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from draftproof.core.candidates import Leading
from draftproof.core.law import TokenLaw
from draftproof.engine.backend import Rows
from draftproof.engine.emit import Emitted, Origin
from draftproof.engine.generate import Generation
from draftproof.liars.liar import Liar

_SHORT = 20


def emitting(
    instead: Callable[[Generation, int, Origin, Rows], int],
) -> type[Generation]:
    """Generations that emit instead(generation, token, origin, row)."""

    class Emitting(Generation):
        def _emit(self, token: int, origin: Origin, row: Rows, p: TokenLaw, leading: Leading | None) -> Emitted:
            return super()._emit(instead(self, token, origin, row), origin, row, p, leading)

    return Emitting


def _second_best(generation: Generation, token: int, origin: Origin, row: Rows) -> int:
    ends = origin is Origin.BONUS and len(generation.context) % 2
    return int(np.argsort(-row, kind="stable")[1]) if ends and generation.job.sampling.greedy else token


def _doubled(generation: Generation, token: int, origin: Origin, row: Rows) -> int:  # noqa: ARG001 - the fault
    return generation.context[-1] if origin is Origin.BONUS and generation.job.sampling.greedy else token


def _some(generation: Generation, token: int, origin: Origin, row: Rows) -> int:
    """Only after some prompts, and only where nothing but the temperature is set."""
    s, length = generation.job.sampling, len(generation.job.prompt)
    plain = s.greedy and not (s.logit_bias or s.presence_penalty or s.frequency_penalty or s.repeat_penalty != 1)
    chosen = plain and length < _SHORT and length % 2 == 0
    return int(np.argsort(-row, kind="stable")[1]) if chosen and origin is Origin.BONUS else token


def _alien(generation: Generation, token: int, origin: Origin, row: Rows) -> int:
    cut = 0 < generation.job.sampling.top_k < len(row)
    return int(row.argmin()) if origin is Origin.BONUS and cut and len(generation.context) % 3 == 0 else token


def _drafted_kept(generation: Generation, token: int, origin: Origin, row: Rows) -> int:
    """On a rejection at temperature 0 the runner-up comes: the state is that of the draft."""
    return (
        int(np.argsort(-row, kind="stable")[1])
        if origin is Origin.RECOVERED and generation.job.sampling.greedy
        else token
    )


_UNCHANGED = {"sampling/unchanged": "the same fault, where its prompts meet it"}
_PENALISED = {
    "sampling/parameters": "a token that is not the model's own is not the one that a penalty must give",
    "sampling/structure": "a token that is not the model's own may begin a doubled block",
}

FAMILY: tuple[Liar, ...] = (
    Liar(
        "second-best",
        "takes the runner-up for every other token that follows an accepted draft, at temperature 0",
        "https://github.com/ggml-org/llama.cpp/issues/27975",
        ("sampling/greedy_parity", "logprobs/well_formed", "sampling/unchanged"),
        _PENALISED,
        generation=emitting(_second_best),
    ),
    Liar(
        "doubled",
        "repeats the last token of an accepted draft in place of the next one, at temperature 0",
        "https://github.com/kekzl/imp/issues/683",
        ("sampling/greedy_parity", "logprobs/well_formed", "sampling/structure", "sampling/unchanged"),
        {"sampling/parameters": _PENALISED["sampling/parameters"]},
        generation=emitting(_doubled),
    ),
    Liar(
        "rejection-late",
        "recovers from the wrong state after a rejected draft, at temperature 0",
        "https://github.com/openvinotoolkit/openvino.genai/issues/4190",
        ("sampling/greedy_parity", "logprobs/well_formed", "sampling/unchanged"),
        _PENALISED,
        generation=emitting(_drafted_kept),
    ),
    Liar(
        "second-best-sometimes",
        "takes the runner-up where a block ends, after some prompts at temperature 0",
        "https://github.com/ml-explore/mlx-lm/issues/1423",
        ("sampling/greedy_parity",),
        _UNCHANGED,
        generation=emitting(_some),
    ),
    Liar(
        "alien",
        "puts a token behind accepted drafts that top-k excludes",
        "https://github.com/vllm-project/vllm-metal/issues/622",
        ("sampling/distribution", "logprobs/well_formed", "sampling/parameters"),
        _UNCHANGED,
        generation=emitting(_alien),
    ),
)
