"""The one tree of exceptions.

    DraftproofError
    ├── UsageError        the caller asked for something that cannot be (exit 2)
    │   ├── EvidenceError an evidence file that cannot be read as such (exit 2)
    │   └── Busy          another audit of the server is at work on this machine (exit 2)
    ├── TargetError       the server under test is at fault (exit 3: nothing certain can be said)
    │   ├── NoNumber      a field holds what JSON or float64 has no number for (exit 3)
    │   └── Unreachable   no answer at all (exit 4)
    ├── EvidenceLost      the disk was full before anything could be judged (exit 3)
    ├── BudgetSpent       the requests or seconds that were allowed are used up (exit 3)
    └── InstrumentError   draftproof itself is at fault (exit 70)

Each carries a sentence of what happened and one of what to do about it.
"""

from __future__ import annotations

import sys
from typing import ClassVar


class DraftproofError(Exception):
    """What happened, and what to do about it."""

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


def install(extra: str) -> str:
    """The remedy where the packages of an extra are missing. draftproof is installed from its checkout."""
    return f"In the checkout of draftproof, run: {sys.executable} -m pip install '.[{extra}]'"


class UsageError(DraftproofError):
    exit_code = 2


class EvidenceError(UsageError):
    pass


class Busy(UsageError):
    """It passes by itself."""


class TargetError(DraftproofError):
    """The server answered, but not as its own API promises.

    `exchange` is the number of the exchange in the evidence, if one was recorded.
    """

    exit_code = 3

    def __init__(self, message: str, remedy: str = "", exchange: int | None = None) -> None:
        super().__init__(message, remedy)
        self.exchange = exchange


class NoNumber(TargetError):
    """An answer holds NaN, Infinity, or a number beyond float64."""


class Unreachable(TargetError):
    exit_code = 4


class EvidenceLost(DraftproofError):
    """The evidence could not be continued after the first request, and before anything could be judged."""

    exit_code = 3


class BudgetSpent(DraftproofError):
    """Not a fault of anybody: what was asked before stands, what was not is inconclusive."""

    exit_code = 3


class InstrumentError(DraftproofError):
    exit_code = 70
