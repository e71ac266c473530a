"""A language model given by a table: the logits after the last few tokens. Everything about it can be computed exactly."""

from __future__ import annotations

from collections import abc

import numpy as np
from numpy.typing import NDArray

from draftproof.engine.backend import Feed, Rows
from draftproof.engine.backends.law import LawBackend


class TableBackend(LawBackend):
    """The next token depends on the last `order` tokens: `table[t1, .., t_order]` is a row of logits.

    table: floating[vocab] * order + [vocab]; order 0 is one row for all contexts. A context shorter than `order` counts as
    preceded by token 0. can_truncate False imitates a recurrent model: going back is possible to a checkpoint only.
    Raises ValueError when an axis has another length, or a row no possible token.
    """

    def __init__(
        self,
        table: NDArray[np.floating],
        *,
        can_truncate: bool = True,
        eog: abc.Iterable[int] = (),
        context: int = 2**31,
    ) -> None:
        self.table = np.asarray(table, dtype=np.float32)
        vocab = self.table.shape[-1]
        self.order = self.table.ndim - 1
        if any(n != vocab for n in self.table.shape) or not np.isfinite(self.table.max(axis=-1)).all():
            raise ValueError(f"a table of shape {self.table.shape} must be square, with a possible token in every row")
        super().__init__(self._after, vocab, f"table of {vocab}", eog=eog, context=context, can_truncate=can_truncate)
        self.calls: list[tuple[int, ...]] = []
        """The tokens of every batch so far, sequence by sequence: what a real model would have had to compute."""

    def row(self, tokens: abc.Sequence[int]) -> Rows:
        """float32[vocab]: the logits after `tokens`."""
        padded = (0,) * (self.order - len(tokens)) + tuple(tokens)
        logits: Rows = self.table[padded[len(padded) - self.order :]]
        return logits

    def _after(self, contexts: abc.Sequence[tuple[int, ...]]) -> Rows:
        return np.array([self.row(context) for context in contexts], dtype=np.float32)

    def extend(self, feeds: abc.Sequence[Feed]) -> list[Rows]:
        rows = super().extend(feeds)
        self.calls += [tuple(feed.tokens) for feed in feeds]
        return rows
