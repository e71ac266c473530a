"""Answers that depend on who else is being served, or was."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar
from weakref import WeakSet

from draftproof.engine.backend import Rows
from draftproof.engine.emit import Emitted
from draftproof.engine.generate import Generation, Job
from draftproof.engine.slot import Order
from draftproof.engine.slots import Slots
from draftproof.liars.liar import Liar
from draftproof.liars.parameters import shaping

_LONG = 20
"""Answers of more tokens than this are touched."""
_VERY_LONG = 100
_PASS_S = 0.002
_WARM = 1.3


class Unhurried(Generation):
    """Takes some time for every pass of a long answer, as a model does, so that requests are served at the same time."""

    def _judge(self, rows: Rows) -> list[Emitted]:
        if self.job.max_tokens > _LONG:
            time.sleep(_PASS_S)
        return super()._judge(rows)


def _beside(
    change: Callable[[Order, Order], Order], which: Callable[[Job], bool] = lambda _: True
) -> Callable[[Order, Slots], Order]:
    """change(order, the order of a long answer that is being made)."""

    def order(order: Order, slots: Slots) -> Order:
        mates = [run.order for run in slots.runs if run.order.job.max_tokens > _LONG and which(run.order.job)]
        return change(order, mates[0]) if mates and order.job.max_tokens > _LONG else order

    return order


def _text(order: Order, mate: Order) -> Order:
    return replace(order, job=replace(order.job, prompt=mate.job.prompt))


def _seed(order: Order, mate: Order) -> Order:
    return replace(order, job=replace(order.job, seed=mate.job.seed))


class _SharedSampler(Unhurried):
    """Whoever is served beside a request with top-k 1 gets its likeliest tokens too."""

    _served: ClassVar[WeakSet[Generation]] = WeakSet()

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._served.add(self)

    def _judge(self, rows: Rows) -> list[Emitted]:
        mates = [g for g in self._served if g is not self and not g.finish and g.job.sampling.top_k == 1]
        if not mates or self.job.max_tokens <= _LONG:
            return super()._judge(rows)
        with shaping(self._shaper, replace(self.job.sampling, temperature=0.0)):
            return super()._judge(rows)


class _AfterLong(Generation):
    """The answer that comes after a very long one begins with numbers of something else."""

    _left: ClassVar[list[Generation]] = []

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._stale = any(g.finish for g in self._left)
        if self._stale:
            self._left.clear()
        if self.job.max_tokens > _VERY_LONG:
            self._left.append(self)

    def _judge(self, rows: Rows) -> list[Emitted]:
        return super()._judge(rows * _WARM if self._stale and not self.counters.emitted else rows)


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
        order=_beside(_text, lambda job: job.sampling.greedy),
        generation=Unhurried,
    ),
    Liar(
        "neighbours-sampler",
        "samples with the top-k 1 of a request beside it",
        "https://github.com/NVIDIA/TensorRT-LLM/pull/17599",
        ("randomness/batch_mates",),
        generation=_SharedSampler,
    ),
    Liar(
        "neighbours-seed",
        "takes the seed of a request that is being served already",
        "https://github.com/triton-inference-server/tensorrtllm_backend/issues/468",
        ("randomness/concurrency",),
        {"randomness/batch_mates": "on a busy machine the two requests may be served one after the other"},
        order=_beside(_seed),
        generation=Unhurried,
    ),
    Liar(
        "warm-cache",
        "gives other numbers for a prompt that it still holds",
        "https://github.com/ggml-org/llama.cpp/issues/7594",
        ("randomness/history",),
        {"randomness/concurrency": "the same fault, where the slot that a request gets holds its prompt"},
        generation=_Warm,
    ),
    Liar(
        "after-long",
        "gives other numbers after a very long answer",
        "https://github.com/ggml-org/llama.cpp/issues/2838",
        ("randomness/history",),
        generation=_AfterLong,
    ),
)
