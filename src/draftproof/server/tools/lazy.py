"""A grammar that holds from a certain text on: what a model may not write in a call, it may write before one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from draftproof.core.law import Ids
from draftproof.engine.shape import Constraint


class Lazily:
    """A `Constraint`: everything is allowed until the text has the trigger; `constraint` holds from where that begins.

    at_start: only a text that begins with the trigger, after space, has it. A text that goes on as the grammar does not
    allow within the very token that completes the trigger has not called, and nothing is forbidden in it.
    """

    def __init__(
        self,
        constraint: Constraint,
        trigger: str,
        *,
        at_start: bool,
        bytes_of: Callable[[int], bytes],
        tokenize: Callable[[str], Sequence[int]],
    ) -> None:
        self._constraint = constraint
        self._trigger = trigger.encode()
        self._at_start = at_start
        self._bytes_of = bytes_of
        self._tokenize = tokenize
        self._made = b""
        self._waits = True
        self._holds = False

    def allowed(self, ids: Ids) -> NDArray[np.bool_]:
        return self._constraint.allowed(ids) if self._holds else np.ones(len(ids), np.bool_)

    def advance(self, token: int) -> None:
        """Raises ValueError for a token that the grammar does not allow, once it holds."""
        if self._holds:
            self._constraint.advance(token)
        elif self._waits:
            self._made += self._bytes_of(token)
            self._look()

    def _look(self) -> None:
        made = self._made.lstrip() if self._at_start else self._made
        start = made.find(self._trigger)
        if self._at_start and start != 0:
            self._waits = self._trigger.startswith(made)
        elif start >= 0:
            self._waits, self._holds = False, self._takes(made[start:])
        else:
            self._made = made[-len(self._trigger) :]

    def _takes(self, begun: bytes) -> bool:
        try:
            for token in self._tokenize(begun.decode("utf-8", "replace")):
                self._constraint.advance(token)
        except ValueError:
            return False
        return True
