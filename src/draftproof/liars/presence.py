"""Logprobs that do not come."""

from __future__ import annotations

from typing import Any

from draftproof.liars.entries import content, replaced
from draftproof.liars.liar import Liar
from draftproof.liars.retelling import Failure, Telling


def _drafted(told: dict[str, Any]) -> int:
    timings = told.get("timings")
    return timings.get("draft_n", 0) if isinstance(timings, dict) else 0


def _dropped(telling: Telling) -> Any:
    """Of a drafted answer, or of what a stream has after its first token."""
    told = telling.told
    if not isinstance(told, dict) or not content(told):
        return told
    later = any(content(event) for event in telling.before)
    return replaced(told, None) if _drafted(told) or later else told


def _none_on_completions(telling: Telling) -> Any:
    asked, told = telling.asked, telling.told
    one = asked.get("max_tokens") == 1 or asked.get("echo")
    return replaced(told, None) if telling.path == "/v1/completions" and content(told) and not one else told


def _first_only(telling: Telling) -> Any:
    told = telling.told
    if not content(told) or telling.event or not _drafted(told):
        return told
    return replaced(told, content(told)[:1])


def _breaks(telling: Telling) -> Any:
    if isinstance(telling.told, dict) and not telling.event and content(telling.told) and _drafted(telling.told):
        raise Failure("logits processor: shape mismatch")
    return telling.told


def _last_missing(telling: Telling) -> Any:
    """Two tokens that come in one piece have one entry."""
    told = telling.told
    if not isinstance(told, dict) or telling.event or telling.asked.get("echo"):
        return told
    entries = content(told)
    return replaced(told, [*entries[:3], *entries[5:]]) if len(entries) > 6 and _drafted(told) else told


FAMILY: tuple[Liar, ...] = (
    Liar(
        "no-logprobs-under-drafts",
        "leaves logprobs out of every answer for which it drafted",
        "https://github.com/sgl-project/sglang/issues/10660",
        ("logprobs/presence", "logprobs/streaming"),
        retell=_dropped,
    ),
    Liar(
        "no-logprobs-one-route",
        "leaves logprobs out on one of its routes, unless one token is asked for",
        "https://github.com/sgl-project/sglang/issues/10660",
        ("logprobs/presence",),
        retell=_none_on_completions,
    ),
    Liar(
        "first-entry-only",
        "returns one entry, that of the first token, for an answer of many",
        "https://github.com/sgl-project/sglang/pull/14046",
        ("logprobs/presence", "logprobs/streaming", "logprobs/encoding", "stopping/budget"),
        retell=_first_only,
    ),
    Liar(
        "breaks-with-logprobs",
        "answers 500 when it drafts and logprobs are asked for",
        "https://github.com/vllm-project/vllm/pull/30059",
        ("logprobs/presence", "logprobs/encoding"),
        {"sampling/parameters": "it is told of the 500s, where it asks before it gives up"},
        retell=_breaks,
    ),
    Liar(
        "entries-lost",
        "loses the entries of two tokens inside a drafted answer",
        "https://github.com/theroyallab/tabbyAPI/pull/141",
        ("logprobs/presence", "logprobs/streaming", "logprobs/encoding", "stopping/budget"),
        retell=_last_missing,
    ),
)
