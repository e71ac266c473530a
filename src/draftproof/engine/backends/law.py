"""A model given by a function from contexts to logits: the countable models, without libllama."""

from __future__ import annotations

from collections import abc
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from draftproof.engine.backend import CannotTruncate, ContextFull, Feed, Rows, Sequence, UnknownToken

Logits: TypeAlias = abc.Callable[[abc.Sequence[tuple[int, ...]]], NDArray[np.floating]]
"""n non-empty contexts to floating[n, vocab]."""


class LawBackend:
    """`logits` answers for all contexts of a batch at once. Its memory is the tokens themselves, so rows are exact in any batch.

    vocabulary: two backends with the same one give every token id the same meaning. can_truncate False imitates a recurrent
    model: going back is possible to a checkpoint only.
    """

    max_rows_exact = 2**31
    prompt_part = 1

    def __init__(
        self,
        logits: Logits,
        vocab: int,
        vocabulary: str,
        *,
        eog: abc.Iterable[int] = (),
        context: int = 4096,
        can_truncate: bool = True,
    ) -> None:
        self.vocab = vocab
        self.vocabulary = vocabulary
        self.eog = frozenset(eog)
        self.context = context
        self.can_truncate = can_truncate
        self._logits = logits

    def sequence(self) -> LawSequence:
        return LawSequence(self, [])

    def exact_rows(self, at_most: int) -> int:
        return min(at_most, self.max_rows_exact)

    def extend(self, feeds: abc.Sequence[Feed]) -> list[Rows]:
        for feed in feeds:
            self._check(feed)
        wanted = [len(feed.tokens) if feed.rows is None else feed.rows for feed in feeds]
        contexts: list[tuple[int, ...]] = []
        for feed, rows in zip(feeds, wanted, strict=True):
            assert isinstance(feed.sequence, LawSequence)
            tokens = feed.sequence.tokens
            tokens.extend(feed.tokens)
            contexts += [tuple(tokens[:end]) for end in range(len(tokens) - rows + 1, len(tokens) + 1)]
        found = self._logits(contexts).astype(np.float32) if contexts else np.empty((0, self.vocab), np.float32)
        ends = np.cumsum(wanted)
        return [found[end - rows : end] for end, rows in zip(ends.tolist(), wanted, strict=True)]

    def _check(self, feed: Feed) -> None:
        n, rows = len(feed.tokens), feed.rows
        if not n or not 0 <= (n if rows is None else rows) <= n:
            raise ValueError(f"{rows} rows of {n} tokens")
        if feed.sequence.length + n > self.context:
            raise ContextFull(f"{feed.sequence.length} + {n} tokens exceed the context of {self.context}.")
        for token in feed.tokens:
            if not 0 <= token < self.vocab:
                raise UnknownToken(f"Token id {token} is outside [0, {self.vocab}).")

    def close(self) -> None:
        """Nothing to free."""


class LawSequence:
    """Remembers the tokens."""

    def __init__(self, backend: LawBackend, tokens: list[int]) -> None:
        self._backend = backend
        self.tokens = tokens

    @property
    def length(self) -> int:
        return len(self.tokens)

    def extend(self, tokens: abc.Sequence[int], rows: int | None = None) -> Rows:
        return self._backend.extend([Feed(self, tuple(tokens), rows)])[0]

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

    def adopt(self, other: Sequence, length: int) -> None:
        assert isinstance(other, LawSequence)
        self.tokens[:] = other.tokens
        self.truncate(length)

    def close(self) -> None:
        """Nothing to free."""
