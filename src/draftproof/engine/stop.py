"""When an answer is over. Asked after every emitted token, also in the middle of an accepted block."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol


class Finish(StrEnum):
    EOG = "eog"
    """The model ended its answer."""
    STOP = "stop"
    """A stop sequence was completed."""
    LENGTH = "length"
    """The budget of tokens is used up."""
    CONTEXT = "context"
    """The model can hold no further token."""


class Stop(Protocol):
    """Whoever can see the end of an answer: sequences of ids here, text in the server."""

    def ends(self, token: int) -> bool:
        """Whether the answer ends with `token`, which was just emitted."""
        ...


class StopTokens:
    """Ends an answer with any of these sequences of token ids. Tokens of the prompt play no part. Empty ones are left out."""

    def __init__(self, sequences: Iterable[Iterable[int]]) -> None:
        self._sequences = [s for s in map(tuple, sequences) if s]
        self._longest = max(map(len, self._sequences), default=0)
        self._tail: tuple[int, ...] = ()

    def ends(self, token: int) -> bool:
        self._tail = (*self._tail, token)[-self._longest :] if self._longest else ()
        return any(self._tail[-len(s) :] == s for s in self._sequences)
