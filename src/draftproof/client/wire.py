"""Reading a server's JSON strictly: no NaN, no guessed types, errors that name the field."""

from __future__ import annotations

import html
import json
import math
import re
from typing import Any, NoReturn

from draftproof.core.errors import NoNumber, TargetError
from draftproof.core.exchange import Exchange

_WORDS_LENGTH = 300


class _Constant(ValueError):
    """NaN or an infinity, which Python's JSON has and JSON has not."""


def _no_constant(name: str) -> NoReturn:
    raise _Constant(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def strict_json(text: str) -> Any:
    """Raises ValueError for what is no JSON, including NaN, Infinity and nesting without end."""
    try:
        return _DECODER.decode(text)
    except RecursionError as e:
        raise ValueError("it is nested too deeply") from e


def answer_json(exchange: Exchange) -> Any:
    """The body of an answer. Raises TargetError for an empty, truncated or otherwise broken body."""
    if not exchange.answer.strip():
        raise TargetError(
            f"{exchange.path} answered {exchange.status} with an empty body.",
            "Look at the server's log; a proxy in between may have dropped it.",
            exchange.number,
        )
    return event_json(exchange.answer, exchange)


def event_json(text: str, exchange: Exchange) -> Any:
    """Like `answer_json` for one event of a stream."""
    try:
        return strict_json(text)
    except ValueError as e:
        kind = NoNumber if isinstance(e, _Constant) else TargetError
        at = f" (the answer has {len(text):,} characters and starts with {text[:60]!r})"
        raise kind(
            f"{exchange.path} answered {exchange.status} with a body that is not valid JSON: {e}{at}.",
            "Look at the server's log; a proxy in between may have changed it.",
            exchange.number,
        ) from e


def server_words(exchange: Exchange) -> str:
    """What a refusing server said, short, on one line: "HTTP 400: prompt must not be empty"."""
    try:
        message = _message(strict_json(exchange.answer))
    except ValueError:
        plain = re.sub(
            r"<(script|style)\b.*?</\1>|<[^>]*>", " ", exchange.answer[:20_000], flags=re.DOTALL | re.IGNORECASE
        )
        message = html.unescape(plain)
    message = " ".join(message.split())[:_WORDS_LENGTH]
    return f"HTTP {exchange.status}: {message}" if message else f"HTTP {exchange.status} without a word"


def _message(body: Any) -> str:
    if isinstance(body, dict):
        for key in ("error", "message", "detail"):
            if body.get(key):
                return _message(body[key])
    return body if isinstance(body, str) else json.dumps(body)


class Field:
    """Typed access to the fields of one answer. Every mismatch raises TargetError naming the field and the exchange."""

    __slots__ = ("exchange",)

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange

    def wrong(self, name: str, value: object, expected: str) -> TargetError:
        shown = repr(value)[:80]
        return TargetError(
            f"{self.exchange.path}: field {name!r} should be {expected} but is {shown}.", exchange=self.exchange.number
        )

    def obj(self, value: object, name: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        raise self.wrong(name, value, "an object")

    def obj_or_none(self, value: object, name: str) -> dict[str, Any]:
        """None becomes {}."""
        return {} if value is None else self.obj(value, name)

    def objs(self, value: object, name: str) -> list[dict[str, Any]]:
        if isinstance(value, list) and all(isinstance(v, dict) for v in value):
            return value
        raise self.wrong(name, value, "a list of objects")

    def text(self, value: object, name: str) -> str:
        if isinstance(value, str):
            return value
        raise self.wrong(name, value, "text")

    def text_or_none(self, value: object, name: str) -> str | None:
        return None if value is None else self.text(value, name)

    def ids(self, value: object, name: str) -> tuple[int, ...]:
        if isinstance(value, list) and all(type(v) is int for v in value):
            return tuple(value)
        raise self.wrong(name, value, "a list of token ids")

    def integer(self, value: object, name: str) -> int | None:
        """None stays None."""
        if value is None or type(value) is int:
            return value
        raise self.wrong(name, value, "a whole number or null")

    def number(self, value: object, name: str) -> float | None:
        """None stays None; a number too large for float64 is refused."""
        if value is None:
            return None
        if type(value) is float or type(value) is int:
            try:
                x = float(value)
            except OverflowError:
                x = math.inf
            if math.isfinite(x):
                return x
            raise NoNumber(self.wrong(name, value, "a finite number or null").message, exchange=self.exchange.number)
        raise self.wrong(name, value, "a finite number or null")
