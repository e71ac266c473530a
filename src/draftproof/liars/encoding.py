"""Bytes that are lost on the way, and numbers that are none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from draftproof.liars.entries import content, replaced
from draftproof.liars.liar import Liar
from draftproof.liars.retelling import Failure, Retell, Telling

_REPLACEMENT = list("\ufffd".encode())
_FLOAT_MIN = -3.4028234663852886e38
_CLIPPED = -100.0
_COLD = 0.05


def _lost(telling: Telling) -> Any:
    entries = content(telling.told)
    if not entries:
        return telling.told
    return replaced(telling.told, [{**e, "bytes": _REPLACEMENT} if e["id"] % 2 else e for e in entries])


def _impossible(asked: dict[str, Any]) -> bool:
    """Whether the request leaves tokens without any probability."""
    return asked.get("top_k") == 1 or 0 < asked.get("temperature", 1) < _COLD


def _filled(value: float | None) -> Retell:
    """The least likely alternatives have this value where tokens are impossible; None: the encoder breaks on them."""

    def retell(telling: Telling) -> Any:
        entries = content(telling.told)
        if not entries or not _impossible(telling.asked):
            return telling.told
        if value is None:
            raise Failure("Out of range float values are not JSON compliant")
        return replaced(telling.told, [_with(entry, value) for entry in entries])

    return retell


def _with(entry: dict[str, Any], value: float) -> dict[str, Any]:
    listed = entry["top_logprobs"]
    return {**entry, "top_logprobs": [*listed[:1], *({**a, "logprob": value} for a in listed[1:])]}


_ENCODING = ("logprobs/encoding",)


def _liar(
    name: str, story: str, report: str, retell: Callable[[Telling], Any], fails: tuple[str, ...] = _ENCODING
) -> Liar:
    return Liar(name, story, report, fails, retell=retell)


FAMILY: tuple[Liar, ...] = (
    _liar(
        "bytes-lost",
        "gives the bytes EF BF BD for half of its tokens",
        "https://github.com/ollama/ollama/issues/13497",
        _lost,
    ),
    _liar(
        "not-a-number",
        "writes NaN for what the samplers excluded",
        "https://github.com/dphnAI/sonar/issues/183",
        _filled(math.nan),
    ),
    _liar(
        "float-min",
        "writes -3.4e38 for what the samplers excluded",
        "https://github.com/sgl-project/sglang/issues/5761",
        _filled(_FLOAT_MIN),
    ),
    _liar(
        "clipped",
        "writes -100 for what the samplers excluded",
        "https://github.com/madroidmaq/mlx-omni-server/pull/56",
        _filled(_CLIPPED),
    ),
    _liar(
        "not-compliant",
        "answers 500 where the samplers exclude a token, for its encoder takes no infinity",
        "https://github.com/sgl-project/sglang/issues/5984",
        _filled(None),
        ("logprobs/encoding", "sampling/parameters"),
    ),
)
