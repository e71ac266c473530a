"""Answers that depend on who else is being served, or was."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from draftproof.countable.catalogue import named
from draftproof.engine.backend import Feed, Rows
from draftproof.engine.backends.law import LawBackend
from draftproof.engine.generate import Generation
from draftproof.engine.slot import Order
from draftproof.engine.slots import Slots
from draftproof.liars.liar import Liar
from draftproof.server.served import Served

_LONG = 20
"""Answers of more tokens than this are touched."""
_PASS_S = 0.001
_WARM = 1.3


class _Slow(LawBackend):
    """Takes a little time for every pass, as a model does, so that requests are served at the same time."""

    def extend(self, feeds: Sequence[Feed]) -> list[Rows]:
        time.sleep(_PASS_S)
        return super().extend(feeds)


def slow(served: Served) -> Served:
    """The same model, not quite as fast."""
    target = served.models.target
    slowed = _Slow(named("story").target_logits, target.vocab, target.vocabulary, context=target.context)
    return replace(served, models=replace(served.models, target=slowed))


def _beside(change: Callable[[Order, Order], Order]) -> Callable[[Order, Slots], Order]:
    """change(order, the order of a long answer that is being made)."""

    def order(order: Order, slots: Slots) -> Order:
        mates = [run.order for run in slots.runs if run.order.job.max_tokens > _LONG]
        return change(order, mates[0]) if mates and order.job.max_tokens > _LONG else order

    return order


def _text(order: Order, mate: Order) -> Order:
    greedy = mate.job.sampling.greedy
    return replace(order, job=replace(order.job, prompt=mate.job.prompt)) if greedy else order


def _sampler(order: Order, mate: Order) -> Order:
    if mate.job.sampling.top_k != 1:
        return order
    return replace(order, job=replace(order.job, sampling=mate.job.sampling))


def _seed(order: Order, mate: Order) -> Order:
    return replace(order, job=replace(order.job, seed=mate.job.seed))


class _Warm(Generation):
    """A prompt that is held has other numbers than one that is read."""

    def __init__(self, *args: Any, known: Rows | None = None, **settings: Any) -> None:
        super().__init__(*args, known=known, **settings)
        if known is not None and self.job.sampling.greedy:
            self._known = known * _WARM


FAMILY: tuple[Liar, ...] = (
    Liar(
        "neighbours-text",
        "goes on with the prompt of another request when two are served",
        "https://github.com/ggml-org/llama.cpp/issues/28286",
        ("randomness/concurrency",),
        served=slow,
        order=_beside(_text),
    ),
    Liar(
        "neighbours-sampler",
        "samples with the top-k 1 of a request beside it",
        "https://github.com/NVIDIA/TensorRT-LLM/pull/17599",
        ("randomness/batch_mates",),
        served=slow,
        order=_beside(_sampler),
    ),
    Liar(
        "neighbours-seed",
        "takes the seed of a request that is being served already",
        "https://github.com/triton-inference-server/tensorrtllm_backend/issues/468",
        ("randomness/concurrency", "randomness/batch_mates"),
        served=slow,
        order=_beside(_seed),
    ),
    Liar(
        "warm-cache",
        "gives other numbers for a prompt that it still holds",
        "https://github.com/ggml-org/llama.cpp/issues/7594",
        ("randomness/history",),
        generation=_Warm,
    ),
)
