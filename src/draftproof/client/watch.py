"""What answers show of the server behind them, whoever asked: is it one server, and did it make its clients wait?"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from draftproof.core.ask import Ask, Completion

IDENTITY = ("system_fingerprint", "model", "build_info")
"""Claims of an answer that are the same as long as one build of one model answers."""

MOST_CONTEXTS, MOST_ROWS = 256, 8
LIKELY_NAT = -3.0
SUSPICIOUS_NAT = 0.05
TIGHT = 0.25
"""Two groups of values are two servers when each spreads over less than this part of the distance between them."""


@dataclass(frozen=True, slots=True)
class Observed:
    """`identities` are what answers and descriptions gave as "name=value" where they differed: then it is more than one server.
    `law_gap`: nats between the two laws that one context has, by turns; 0 for one law. `waited_s` in `waits` because the server
    said that it was asked too much.
    """

    identities: tuple[str, ...] = ()
    law_gap: float = 0.0
    waits: int = 0
    waited_s: float = 0.0

    @property
    def is_one_server(self) -> bool:
        return len(self.identities) < 2 and not self.law_gap


class Watch:
    """Sees every answer. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[str, dict[str, None]] = defaultdict(dict)
        self._laws: dict[Ask, list[dict[str, float]]] = {}

    def claim(self, name: str, value: str) -> None:
        with self._lock:
            self._claims[name][value] = None

    def saw(self, answers: Sequence[Completion]) -> None:
        for answer in answers:
            for name, value in answer.claims:
                if name in IDENTITY and value is not None:
                    self.claim(f"{name} of {answer.route}", str(value))
            if answer.ask.max_tokens == 1 and (law := likely(answer)):
                self._remember(answer.ask, law)

    def _remember(self, ask: Ask, law: dict[str, float]) -> None:
        with self._lock:
            if ask in self._laws or len(self._laws) < MOST_CONTEXTS:
                rows = self._laws.setdefault(ask, [])
                if len(rows) < MOST_ROWS:
                    rows.append(law)

    @property
    def identities(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(
                f"{name}={value}" for name, values in self._claims.items() if len(values) > 1 for value in values
            )

    def suspicious(self) -> Ask | None:
        """The request for one token whose answers differed most, if by much."""
        with self._lock:
            gaps = {ask: max(_gap(rows[0], row) for row in rows) for ask, rows in self._laws.items() if len(rows) > 1}
        ask = max(gaps, key=gaps.__getitem__, default=None)
        return ask if ask is not None and gaps[ask] > SUSPICIOUS_NAT else None


def likely(answer: Completion) -> dict[str, float]:
    """The law of an answer's first token over its likely values, by text."""
    listed = answer.tokens[0].alternatives if answer.tokens else None
    return {a.text: a.logprob for a in listed or () if a.logprob is not None and a.logprob > LIKELY_NAT}


def _gap(a: dict[str, float], b: dict[str, float]) -> float:
    return max((abs(a[text] - b[text]) for text in a.keys() & b.keys()), default=0.0)


def two_laws(rows: Sequence[dict[str, float]]) -> float:
    """Nats between two groups of laws of one context, where they fall into two and each has two members at least; else 0."""
    shared = set.intersection(*(set(row) for row in rows)) if rows else set()
    best = 0.0
    for text in shared:
        values = sorted(row[text] for row in rows)
        for split in range(2, len(values) - 1):
            low, high = values[:split], values[split:]
            apart = high[0] - low[-1]
            if apart > SUSPICIOUS_NAT and max(low[-1] - low[0], high[-1] - high[0]) < TIGHT * apart:
                best = max(best, apart)
    return best
