"""Streams that do not say what a whole answer says."""

from __future__ import annotations

from typing import Any

from draftproof.liars.entries import content, replaced
from draftproof.liars.liar import Liar
from draftproof.liars.retelling import Telling


def _events(telling: Telling) -> list[dict[str, Any]]:
    """Entries of an event; [] for whole answers."""
    return content(telling.told) if telling.event else []


def _first_list(telling: Telling) -> Any:
    entries = _events(telling)
    first = next((content(event)[0] for event in telling.before if content(event)), None)
    if not entries or first is None:
        return telling.told
    return replaced(telling.told, [{**e, "top_logprobs": first["top_logprobs"]} for e in entries])


def _silent(telling: Telling) -> Any:
    """Two of three events have text and no logprobs."""
    count = sum(bool(content(event)) for event in telling.before)
    return replaced(telling.told, None) if _events(telling) and count % 3 else telling.told


def _last_only(telling: Telling) -> Any:
    """Of the tokens that become known at once, only the last one keeps its logprobs."""
    return replaced(telling.told, None) if _events(telling) and telling.follows else telling.told


def _scaled(telling: Telling) -> Any:
    def told(entry: dict[str, Any]) -> dict[str, Any]:
        listed = [{**a, "logprob": 1.2 * a["logprob"]} for a in entry["top_logprobs"]]
        return {**entry, "logprob": 1.2 * entry["logprob"], "top_logprobs": listed}

    entries = _events(telling)
    return replaced(telling.told, [told(e) for e in entries]) if entries else telling.told


_STREAMING = ("logprobs/streaming",)

FAMILY: tuple[Liar, ...] = (
    Liar(
        "stream-lists-copied",
        "gives every token of a stream the list of the first one",
        "https://github.com/sgl-project/sglang/issues/5761",
        _STREAMING,
        retell=_first_list,
    ),
    Liar(
        "stream-silent",
        "streams drafted tokens without logprobs",
        "https://github.com/sgl-project/sglang/issues/26778",
        ("logprobs/streaming", "logprobs/presence"),
        retell=_silent,
    ),
    Liar(
        "stream-last-only",
        "streams logprobs of the last token of each block only",
        "https://github.com/vllm-project/vllm/pull/37795",
        ("logprobs/streaming", "logprobs/presence"),
        retell=_last_only,
    ),
    Liar(
        "stream-scaled",
        "streams other values than it gives in one piece",
        "https://github.com/vllm-project/vllm/issues/5699",
        _STREAMING,
        retell=_scaled,
    ),
)
