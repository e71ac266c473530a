"""One HTTP request and its answer, as evidence."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try: when it began (seconds since the audit began), how long it took, and how it ended."""

    started_s: float
    elapsed_s: float
    outcome: str
    """"200", "429 retry-after 2 s", "connection dropped after 310 bytes" ..."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """`number` is unique in an audit. `request` and `answer` are the bodies as text; `events` (seconds, bytes) of a stream's reads.

    No header that could carry a key is kept.
    """

    number: int
    method: str
    path: str
    request: str
    status: int | None
    answer: str
    attempts: tuple[Attempt, ...]
    events: tuple[tuple[float, int], ...] = field(default=())
