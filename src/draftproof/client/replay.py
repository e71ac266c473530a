"""Answers of an earlier audit of the same server, given again in place of asking.

A request is given the answer of an equal one, each recorded answer once: what was asked twice then can be asked twice now.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable

from draftproof.core.exchange import Exchange


class Replay:
    """Safe to use from several threads. `anew` are the checks whose requests are all sent again."""

    def __init__(self, exchanges: Iterable[Exchange] = (), anew: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], deque[Exchange]] = defaultdict(deque)
        self._anew = frozenset(anew)
        self._silent = False
        self.given = 0
        """How many answers were given so far."""
        for exchange in exchanges:
            if exchange.method == "POST" and exchange.status is not None and 200 <= exchange.status < 300:
                self._waiting[exchange.path, exchange.request].append(exchange)

    def begin(self, check: str) -> None:
        """The requests that follow are those of `check`."""
        self._silent = check in self._anew

    def take(self, path: str, body: bytes) -> Exchange | None:
        """The recorded answer to such a request, or None when it must be sent."""
        with self._lock:
            waiting = self._waiting.get((path, body.decode()))
            if not waiting or self._silent:
                return None
            self.given += 1
            return waiting.popleft()
