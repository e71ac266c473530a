"""A language model given by a table: the logits after the last few tokens. Everything about it can be computed exactly."""

from __future__ import annotations

from collections import abc

import numpy as np
from numpy.typing import NDArray

from draftproof.engine.backend import CannotTruncate, ContextFull, Feed, Rows, UnknownToken


class TableBackend:
    """The next token depends on the last `order` tokens: `table[t1, .., t_order]` is a row of logits.

    table: floating[vocab] * order + [vocab]; order 0 is one row for all contexts. A context shorter than `order` counts as
    preceded by token 0. can_truncate False imitates a recurrent model: going back is possible to a checkpoint only.
    Raises ValueError when an axis has another length, or a row no possible token.
    """

    max_rows_exact = 2**31

    def __init__(
        self,
        table: NDArray[np.floating],
        *,
        can_truncate: bool = True,
        eog: abc.Iterable[int] = (),
        context: int = 2**31,
    ) -> None:
        self.table = np.asarray(table, dtype=np.float32)
        self.vocab = self.table.shape[-1]
        self.order = self.table.ndim - 1
        if any(n != self.vocab for n in self.table.shape) or not np.isfinite(self.table.max(axis=-1)).all():
            raise ValueError(f"a table of shape {self.table.shape} must be square, with a possible token in every row")
        self.vocabulary = f"table of {self.vocab}"
        self.eog = frozenset(eog)
        self.context = context
        self.can_truncate = can_truncate
        self.calls: list[tuple[int, ...]] = []
        """The tokens of every batch so far, sequence by sequence: what a real model would have had to compute."""

    def row(self, tokens: abc.Sequence[int]) -> Rows:
        """float32[vocab]: the logits after `tokens`."""
        padded = (0,) * (self.order - len(tokens)) + tuple(tokens)
        logits: Rows = self.table[padded[len(padded) - self.order :]]
        return logits

    def sequence(self) -> TableSequence:
        return TableSequence(self, [])

    def extend(self, feeds: abc.Sequence[Feed]) -> list[Rows]:
        return [feed.sequence.extend(feed.tokens, feed.rows) for feed in feeds]

    def close(self) -> None:
        """Nothing to free."""


class TableSequence:
    """Remembers the tokens themselves."""

    def __init__(self, backend: TableBackend, tokens: list[int]) -> None:
        self._backend = backend
        self.tokens = tokens

    @property
    def length(self) -> int:
        return len(self.tokens)

    def extend(self, tokens: abc.Sequence[int], rows: int | None = None) -> Rows:
        backend, n = self._backend, len(tokens)
        rows = n if rows is None else rows
        if not n or not 0 <= rows <= n:
            raise ValueError(f"{rows} rows of {n} tokens")
        if len(self.tokens) + n > backend.context:
            raise ContextFull(f"{len(self.tokens)} + {n} tokens exceed the context of {backend.context}.")
        for token in tokens:
            if not 0 <= token < backend.vocab:
                raise UnknownToken(f"Token id {token} is outside [0, {backend.vocab}).")
        backend.calls.append(tuple(tokens))
        self.tokens.extend(tokens)
        ends = range(len(self.tokens) - rows + 1, len(self.tokens) + 1)
        return np.array([backend.row(self.tokens[:end]) for end in ends], dtype=np.float32).reshape(rows, backend.vocab)

    def truncate(self, length: int) -> None:
        if not 0 <= length <= len(self.tokens):
            raise ValueError(f"cannot truncate {len(self.tokens)} tokens to {length}")
        if length < len(self.tokens) and not self._backend.can_truncate:
            raise CannotTruncate("This model keeps no memory of each token: it cannot be rolled back.")
        del self.tokens[length:]

    def checkpoint(self) -> object:
        return tuple(self.tokens)

    def restore(self, checkpoint: object) -> None:
        assert isinstance(checkpoint, tuple)
        self.tokens = list(checkpoint)

    def fork(self) -> TableSequence:
        return TableSequence(self._backend, list(self.tokens))

    def close(self) -> None:
        """Nothing to free."""
