"""When is a request asked again, and how long is that waited for?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from draftproof.client.failures import Failure
from draftproof.core.errors import BudgetSpent

_LEAST_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait, how much to read, how often to try. `silence_s` is the longest gap without a byte."""

    connect_s: float = 10.0
    silence_s: float = 30.0
    total_s: float = 600.0
    body_bytes: int = 64 << 20
    attempts: int = 6
    backoff_s: float = 0.25
    """Doubled after every attempt: 6 attempts wait 7.75 s in all, time for a small server to come back."""
    waiting_s: float = 600.0
    """The longest wait for a server that says it is asked too much, over all requests."""
    retry_after_s: float = 60.0
    """The longest Retry-After that is honoured; a server that asks for more is not asked again."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that may be asked of a server; None is no limit. A batch is one request, and so is one that is tried again."""

    requests: int | None = None
    seconds: float | None = None


class Patience:
    """Decides for all requests to one server. Safe to use from several threads. `elapsed_s` is the clock that the budget is for."""

    def __init__(self, limits: Limits, budget: Budget, elapsed_s: Callable[[], float]) -> None:
        self._limits, self._budget, self._elapsed_s = limits, budget, elapsed_s
        self.waits, self.waited_s = 0, 0.0
        """How often, and how long, the server had its client wait (429); waits at the same time count once."""
        self._until_s = 0.0
        self._lock = threading.Lock()

    def pause(
        self, tried: int, status: int | None, retry_after: str, failure: Failure | None, *, answered: bool
    ) -> float | None:
        """Seconds to wait before the next attempt after `tried`, the last of which ended like this; None to stop.

        `answered`: the server did so before. Raises BudgetSpent when the server has its client wait for too long.
        """
        backoff_s = self._limits.backoff_s * 2 ** (tried - 1)
        # A server that never answered is more likely absent than restarting: say so soon.
        most = self._limits.attempts if answered else min(2, self._limits.attempts)
        wait_s = _retry_after_s(retry_after) if status == 429 else None
        if wait_s is not None:
            # It says when to come again: what ends that is the time spent waiting, not the number of attempts.
            longer_s = wait_s if tried < most else max(wait_s, _LEAST_WAIT_S)
            return self._limited(longer_s) if wait_s <= self._limits.retry_after_s else None
        if tried >= most:
            return None
        if failure:
            return backoff_s if failure.retry else None
        if status == 429:
            return self._limited(backoff_s)
        return backoff_s if status == 503 else None

    def _limited(self, wait_s: float) -> float:
        """Books a wait that the server asked for. Raises BudgetSpent when all waits are too long, or longer than the budget."""
        with self._lock:
            now = self._elapsed_s()
            self.waited_s += max(0.0, now + wait_s - max(now, self._until_s))
            self._until_s = max(self._until_s, now + wait_s)
            self.waits += 1
            waited_s = self.waited_s
        if waited_s > self._limits.waiting_s:
            raise BudgetSpent(
                f"The server limits the rate of requests (HTTP 429): {waited_s:.0f} s of waiting are more than "
                f"{self._limits.waiting_s:.0f} s.",
                "Lift the limit for this client, or come again later with --resume.",
            )
        if self._budget.seconds is not None and now + wait_s > self._budget.seconds:
            raise BudgetSpent(
                f"The server has its clients wait (HTTP 429) beyond the budget of {self._budget.seconds:g} seconds.",
                "Allow more with --budget (budget=), or come again later with --resume (resume=).",
            )
        return wait_s


def _retry_after_s(value: str) -> float | None:
    """Seconds from a Retry-After header, which is a number or a date; None when it is neither."""
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
