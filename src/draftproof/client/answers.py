"""From parsed answers to Completions: what all dialects share."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from draftproof.client.sse import Event, Stream, read_lines, read_stream
from draftproof.client.tokens import missing_records
from draftproof.client.wire import event_json, server_words
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.errors import TargetError
from draftproof.core.exchange import Exchange
from draftproof.core.tokens import TokenRecord

_PAIRS: dict[tuple[str, type, Scalar], tuple[str, Scalar]] = {}
_MOST_PAIRS = 4096


def single(ask: Ask, index: int) -> Ask:
    """The Ask that answer `index` of a batch answers."""
    if ask.answers == 1:
        return ask
    if ask.also:
        return replace(ask, prompt=(ask.prompt, *ask.also)[index], also=())
    return replace(ask, count=1, seed=None if ask.seed is None else ask.seed + index)


def refusal(ask: Ask, exchange: Exchange, words: str = "") -> list[Completion]:
    """As many answers with `error` as were asked for."""
    words = words or server_words(exchange)
    status = exchange.status or 0
    return [Completion(single(ask, i), exchange.number, exchange.path, status, error=words) for i in range(ask.answers)]


def flatten(settings: Mapping[str, Any], prefix: str = "") -> tuple[tuple[str, Scalar], ...]:
    """Settings as (name, value) pairs; nested objects joined by dots, lists as JSON text. Equal pairs share their memory."""
    pairs: list[tuple[str, Scalar]] = []
    for name, value in settings.items():
        kind = type(value)
        if kind is dict:
            pairs.extend(flatten(value, f"{prefix}{name}."))
            continue
        if kind is list:
            value = json.dumps(value) if value else "[]"  # noqa: PLW2901
        elif kind is float and not math.isfinite(value):  # 1e999 is JSON
            value = str(value)  # noqa: PLW2901
        # The type belongs to the key: 1, 1.0 and True are equal and must not stand in for each other.
        key = (prefix + name if prefix else name, kind, value)
        pair = _PAIRS.get(key)
        if pair is None:
            pair = (key[0], value)
            if len(_PAIRS) < _MOST_PAIRS:
                _PAIRS[key] = pair
        pairs.append(pair)
    return tuple(pairs)


@dataclass(slots=True)
class Partial:
    """One answer of a stream while it is put together."""

    texts: list[str] = field(default_factory=list)
    tokens: list[TokenRecord] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    has_ids: bool = False
    arrivals: list[float] = field(default_factory=list)
    event_tokens: list[int] = field(default_factory=list)
    finish: str | None = None
    calls: list[str] = field(default_factory=list)
    ended: bool = False
    last: dict[str, Any] = field(default_factory=dict)

    def add(
        self,
        at_s: float,
        text: str,
        entries: tuple[TokenRecord, ...] | None,
        ids: tuple[int, ...] | None,
        *,
        wanted: bool,
    ) -> None:
        """One event. `entries` None: it held no logprobs, which counts as missing where they were `wanted`."""
        if ids is not None:
            self.has_ids = True
            self.ids.extend(ids)
        if not text and not entries:
            return
        self.texts.append(text)
        self.arrivals.append(at_s)
        self.event_tokens.append(len(entries or ()))
        if entries is not None:
            self.tokens.extend(entries)
        elif wanted:
            self.tokens.extend(missing_records(text, ids))


class StreamError(Exception):
    """The server said in its stream that it failed."""


def stream_objects(exchange: Exchange) -> Iterator[tuple[float, dict[str, Any]]]:
    """(seconds, object) of every event but [DONE]. Raises StreamError, and TargetError for a stream that breaks off."""
    return _objects(exchange, read_stream(exchange))


def line_objects(exchange: Exchange) -> Iterator[tuple[float, dict[str, Any]]]:
    """As `stream_objects` for a stream that has one object per line in place of events."""
    return _objects(exchange, read_lines(exchange))


def _objects(exchange: Exchange, stream: Stream) -> Iterator[tuple[float, dict[str, Any]]]:
    for event in stream.events:
        if event.data.strip() == "[DONE]":
            continue
        body = event_json(event.data, exchange)
        if event.name == "error" or (isinstance(body, dict) and body.get("error")):
            raise StreamError(_words(body))
        if not isinstance(body, dict):
            raise TargetError(
                f"{exchange.path}: an event of the stream is no object: {event.data[:60]!r}.", exchange=exchange.number
            )
        yield _at(event, exchange), body
    if stream.rest.strip():
        raise broken_off(exchange, f"its last event is cut off: {stream.rest[:60]!r}")


def _at(event: Event, exchange: Exchange) -> float:
    if event.at_s is not None:
        return event.at_s
    return exchange.attempts[-1].elapsed_s if exchange.attempts else 0.0


def _words(body: Any) -> str:
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message", inner) if isinstance(inner, dict) else inner
    return f"error in the stream: {message}"[:300]


def broken_off(exchange: Exchange, how: str) -> TargetError:
    return TargetError(
        f"{exchange.path}: the stream ended before the answer did ({how}).",
        "Look at the server's log; a proxy in between may have cut it.",
        exchange.number,
    )


def all_answers(ask: Ask, exchange: Exchange, found: Iterable[int]) -> None:
    """Raises TargetError unless answers 0 .. n-1 are all there."""
    indices = sorted(found)
    if indices != list(range(ask.answers)):
        raise TargetError(
            f"{exchange.path}: asked for {ask.answers} answers, got numbers {indices}.", exchange=exchange.number
        )
