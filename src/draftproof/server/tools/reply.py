"""A chat's answer as OpenAI words it: its text, and its calls of tools, whole or as they come."""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from typing import Any

from draftproof.server.tools.asked import Calling
from draftproof.server.tools.reader import Called, CallReader, News, Said

_LETTERS = string.ascii_letters + string.digits
_ID_LENGTH = 9
"""There are templates that take ids of no other length."""


class Reply:
    """One answer: `whole`, or `part` of each piece of its text and then `last`. `finish` comes after either."""

    def __init__(self, calling: Calling | None) -> None:
        self._reader = None if calling is None else CallReader(calling.form, calling.names)

    def whole(self, text: str) -> dict[str, Any]:
        """The message of a text."""
        told = {"role": "assistant", "content": text}
        if self._reader is None:
            return told
        delta = _delta([*self._reader.take(text), *self._reader.finish()])
        if "tool_calls" not in delta:
            return told
        content = delta.get("content", "")
        calls = [{name: value for name, value in call.items() if name != "index"} for call in delta["tool_calls"]]
        return {**told, "content": content if content.strip() else None, "tool_calls": calls}

    def part(self, piece: str) -> dict[str, Any]:
        """The delta of a further piece; {} where nothing is certain yet."""
        return {"content": piece} if self._reader is None else _delta(self._reader.take(piece))

    def last(self) -> dict[str, Any]:
        """The delta of what was held back, when no more text comes."""
        return {} if self._reader is None else _delta(self._reader.finish())

    def finish(self, reason: str) -> str:
        """Why the answer ended, by OpenAI's words."""
        called = self._reader is not None and self._reader.calls > 0
        return "tool_calls" if called and reason == "stop" else reason


def _delta(news: Sequence[News]) -> dict[str, Any]:
    said = "".join(one.text for one in news if isinstance(one, Said))
    calls: dict[int, dict[str, Any]] = {}
    for one in news:
        if isinstance(one, Called):
            function = {"name": one.name, "arguments": ""}
            calls[one.index] = {"index": one.index, "id": _new_id(), "type": "function", "function": function}
        elif not isinstance(one, Said):
            call = calls.setdefault(one.index, {"index": one.index, "function": {"arguments": ""}})
            call["function"]["arguments"] += one.text
    return {**({"content": said} if said else {}), **({"tool_calls": list(calls.values())} if calls else {})}


def _new_id() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_ID_LENGTH))
