"""Answers that end too late or too early, and counts that do not fit them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from draftproof.engine.backend import Rows
from draftproof.engine.emit import Emitted
from draftproof.engine.generate import Generation
from draftproof.engine.slot import Order
from draftproof.engine.slots import Slots
from draftproof.engine.stop import Finish
from draftproof.liars.liar import Liar
from draftproof.liars.retelling import Telling

_BLOCK = 3


def _budget(order: Order, by: int) -> Order:
    job = order.job
    return replace(order, job=replace(job, max_tokens=job.max_tokens + by)) if job.max_tokens > _BLOCK else order


def _overruns(order: Order, slots: Slots) -> Order:  # noqa: ARG001 - a hook
    return _budget(order, 2)


def _charged(order: Order, slots: Slots) -> Order:  # noqa: ARG001 - a hook
    return _budget(order, -1)


def _counts(telling: Telling, by: int) -> Any:
    told = telling.told
    asked = telling.asked.get("n_predict", telling.asked.get("max_tokens", 0))
    if not isinstance(told, dict) or not asked or asked <= _BLOCK:
        return told
    if told.get("stop") and "tokens_predicted" in told:
        told["tokens_predicted"] += by
    if told.get("usage"):
        told["usage"]["completion_tokens"] += by
        told["usage"]["total_tokens"] += by
    return told


def _counts_one_more(telling: Telling) -> Any:
    return _counts(telling, 1)


def _counts_one_less(telling: Telling) -> Any:
    return _counts(telling, -1)


def _to_the_end_of_the_block(late: Finish) -> type[Generation]:
    """Generations that see an end of this kind inside an accepted draft when the whole draft is out."""

    class ToTheEndOfTheBlock(Generation):
        _begun = 0
        _stopped = False

        def _ended(self, token: int) -> Finish | None:
            finish = super()._ended(token)
            self._stopped = self._stopped or finish is late
            left = len(self._draft.tokens) - (len(self.context) - self._begun)
            if finish in (late, None) and self._stopped:
                return None if left > 0 else late
            return finish

        def _judge(self, rows: Rows) -> list[Emitted]:
            self._begun = len(self.context)
            return super()._judge(rows)

    return ToTheEndOfTheBlock


def _without_stops(path: str, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - a hook
    return {name: value for name, value in asked.items() if name != "stop"}


FAMILY: tuple[Liar, ...] = (
    Liar(
        "budget-overrun",
        "gives two tokens more than were asked for, the rest of a block",
        "https://github.com/vllm-project/vllm/issues/39573",
        ("stopping/budget",),
        order=_overruns,
    ),
    Liar(
        "budget-charged",
        "charges a whole block, delivers a token less and says that it delivered all",
        "https://github.com/ikawrakow/ik_llama.cpp/pull/2358",
        ("stopping/budget", "stopping/stop_string", "self_report/accounting"),
        order=_charged,
        retell=_counts_one_more,
    ),
    Liar(
        "usage-low",
        "counts a token less than it delivers",
        "https://github.com/Blackwellboy/model-serving-minefield/issues/171",
        ("stopping/budget", "self_report/accounting"),
        retell=_counts_one_less,
    ),
    Liar(
        "stop-late",
        "sees a stop string inside a block when the whole block is out",
        "https://github.com/vllm-project/vllm/pull/47616",
        ("stopping/stop_string",),
        generation=_to_the_end_of_the_block(Finish.STOP),
    ),
    Liar(
        "end-late",
        "sees an end token inside a block when the whole block is out",
        "https://github.com/LostRuins/koboldcpp/issues/1276",
        ("stopping/stop_string",),
        model="countable-end",
        generation=_to_the_end_of_the_block(Finish.EOG),
    ),
    Liar(
        "stop-ignored",
        "never looks for stop strings",
        "https://github.com/snowflakedb/ArcticInference/issues/161",
        ("stopping/stop_string",),
        reask=_without_stops,
    ),
)
