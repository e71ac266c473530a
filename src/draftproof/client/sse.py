"""Server-sent events, or lines, out of a recorded stream, with the time at which each was complete."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from draftproof.core.errors import TargetError
from draftproof.core.exchange import Exchange

_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
EVENT_CHARACTERS = 8 << 20


@dataclass(frozen=True, slots=True)
class Event:
    """`at_s`: seconds from sending the request to the read that completed the event; None when reads were not recorded."""

    data: str
    name: str
    at_s: float | None


@dataclass(frozen=True, slots=True)
class Stream:
    """`rest` is what followed the last whole event ("" in a well-ended stream)."""

    events: tuple[Event, ...]
    rest: str


def read_stream(exchange: Exchange) -> Stream:
    """Splits an answer by the rules of the HTML standard's event stream; several `data` lines are joined by newlines.

    An `error: ...` line, which some servers send, becomes an event named "error".
    Raises TargetError for an event above the size limit.
    """
    clock = _Clock(exchange.answer, exchange.events)
    events: list[Event] = []
    data: list[str] = []
    name = ""
    size = start = 0
    for line, end in _lines(exchange.answer):
        size += len(line)
        if size > EVENT_CHARACTERS:
            raise TargetError(
                f"An event of the stream is larger than {EVENT_CHARACTERS >> 20} MB.", exchange=exchange.number
            )
        if line:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field in ("data", "error"):
                data.append(value)
            if field in ("event", "error"):
                name = "error" if field == "error" else value
            continue
        if data:
            events.append(Event("\n".join(data), name or "message", clock.at(end)))
        data, name, size, start = [], "", 0, end
    return Stream(tuple(events), exchange.answer[start:])


def read_lines(exchange: Exchange) -> Stream:
    """The lines of an answer that are not empty, each an event; the last one may lack its line break."""
    clock = _Clock(exchange.answer, exchange.events)
    events: list[Event] = []
    whole = 0
    for line, end in _lines(exchange.answer):
        whole = end
        if line.strip():
            events.append(Event(line, "message", clock.at(end)))
    rest = exchange.answer[whole:]
    if rest.rstrip().endswith("}"):
        events.append(Event(rest, "message", clock.at(len(exchange.answer))))
        rest = ""
    return Stream(tuple(events), rest)


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Whole lines and the offset just after each; an unfinished last line is left out."""
    for match in _LINE.finditer(text):
        if match[2]:
            yield match[1], match.end()


class _Clock:
    """From character offsets to arrival times."""

    def __init__(self, text: str, reads: Sequence[tuple[float, int]]) -> None:
        self._text = None if text.isascii() else text
        self._reads = iter(reads)
        self._at: float | None = None
        self._read = 0
        self._chars = self._bytes = 0

    def at(self, offset: int) -> float | None:
        """Offsets must not decrease from call to call."""
        self._bytes += (
            len(self._text[self._chars : offset].encode()) if self._text is not None else offset - self._chars
        )
        self._chars = offset
        while self._read < self._bytes:
            moment = next(self._reads, None)
            if moment is None:
                break
            self._at = moment[0]
            self._read += moment[1]
        return self._at
