"""Seeds that are no seeds."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any, Self

from draftproof.core.coin import SAMPLE, Coin, RngCoin
from draftproof.core.law import Law
from draftproof.engine.generate import Generation
from draftproof.engine.slot import Order
from draftproof.engine.slots import Slots
from draftproof.liars.liar import Liar

_SEEDS = ("randomness/seeds",)


def _seeded(order: Order, seed: int) -> Order:
    return replace(order, job=replace(order.job, seed=seed))


def _fresh(order: Order, slots: Slots) -> Order:  # noqa: ARG001 - a hook
    return _seeded(order, secrets.randbits(31))


def _fixed(order: Order, slots: Slots) -> Order:  # noqa: ARG001 - a hook
    return _seeded(order, 42)


def _default_seed(path: str, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - a hook
    return {**asked, "seed": 42} if asked.get("seed") in (None, -1) else asked


class _EngineWide(RngCoin):
    """What is not drafted is drawn by the request's seed, verification by the engine's own stream."""

    def at(self, purpose: str, *place: int) -> Self:
        if purpose in ("accept", "residual", "draft"):
            return type(self)(secrets.randbits(63))
        return super().at(purpose, *place)


class _Parity(RngCoin):
    """The first draw depends on the last bit of the seed only."""

    def at(self, purpose: str, *place: int) -> Coin:  # type: ignore[override]
        if purpose == SAMPLE and place == (self.first,):
            return _Half(self.seed)
        return RngCoin(self.seed, first=self.first).at(purpose, *place)


class _Half(RngCoin):
    def pick(self, weights: Law) -> int:
        possible = weights.nonzero()[0]
        return int(possible[0] if self.seed % 2 else possible[-1])


class _DrawnByEngine(Generation):
    def __init__(self, backend: Any, sequence: Any, job: Any, **settings: Any) -> None:
        super().__init__(backend, sequence, job, **settings, coin=_EngineWide(job.seed, first=len(job.prompt)))


class _DrawnByParity(Generation):
    def __init__(self, backend: Any, sequence: Any, job: Any, **settings: Any) -> None:
        super().__init__(backend, sequence, job, **settings, coin=_Parity(job.seed, first=len(job.prompt)))


def _not_on_completions(path: str, asked: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in asked.items() if k != "seed"} if path == "/v1/completions" else asked


_ONE_ANSWER = dict.fromkeys(
    ("sampling/distribution", "sampling/temperature", "sampling/unchanged"),
    "samples without a seed are one and the same answer, which follows no law",
)

FAMILY: tuple[Liar, ...] = (
    Liar(
        "seed-ignored",
        "draws a fresh seed for every request",
        "https://github.com/vllm-project/vllm/issues/6038",
        _SEEDS,
        order=_fresh,
    ),
    Liar(
        "seed-fixed",
        "uses one seed for everybody",
        "https://github.com/ml-explore/mlx-lm/issues/1245",
        _SEEDS,
        order=_fixed,
        may_fail=_ONE_ANSWER,
    ),
    Liar(
        "seed-default",
        "gives every request without a seed the same one",
        "https://github.com/areal-project/AReaL/pull/1524",
        _SEEDS,
        reask=_default_seed,
        may_fail=_ONE_ANSWER,
    ),
    Liar(
        "seed-first-token",
        "draws what is not drafted by the request's seed, and verifies by a stream of its own",
        "https://github.com/radixark/miles/pull/2002",
        _SEEDS,
        {"randomness/concurrency": "a stream that all requests share gives one of them what another one drew alone"},
        generation=_DrawnByEngine,
    ),
    Liar(
        "seed-parity",
        "draws the first token by the last bit of the seed",
        "https://github.com/ml-explore/mlx-lm/issues/1439",
        ("randomness/seeds", "sampling/distribution"),
        generation=_DrawnByParity,
    ),
    Liar(
        "seed-one-route",
        "honours the seed on its own route, and not on OpenAI's",
        "https://github.com/sgl-project/sglang/issues/15481",
        _SEEDS,
        reask=_not_on_completions,
    ),
)
