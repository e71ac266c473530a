"""What drafts from a GGUF model's hidden rows, as a backend of its own, so that it drafts like any draft model.

It reads a token together with the hidden row that the target put out at the position before it. Where the target has not been
yet, that is in drafts, it goes on from its own rows; such cells are read again, with the target's rows, once the target has
caught up. llama.cpp's server does the same and drafts the same tokens.
"""

from __future__ import annotations

from collections import abc
from itertools import takewhile

import numpy as np

from draftproof.core.errors import UsageError
from draftproof.core.prefix import common_prefix
from draftproof.engine.backend import ContextFull, Feed, Rows, Sequence
from draftproof.engine.backends.llama import LlamaBackend, LlamaSequence
from draftproof.engine.libllama.errors import Closed, ContextRejected
from draftproof.engine.libllama.follower import Follower, HeadRow, Hidden


class LlamaFollower:
    """`head` beside `target`, which must keep the hidden rows that it reads."""

    can_truncate = True

    def __init__(self, target: LlamaBackend, head: Follower) -> None:
        self.target = target
        self.head = head
        self.vocab = target.vocab
        self.context = min(target.context, self.head.context.tokens)
        self._open: dict[int, FollowerSequence] = {}

    @property
    def prompt_part(self) -> int:
        return self.target.prompt_part

    @property
    def max_rows_exact(self) -> int:
        return self.target.max_rows_exact

    def exact_rows(self, at_most: int) -> int:
        return self.target.exact_rows(at_most)

    @property
    def vocabulary(self) -> str:
        return self.target.vocabulary

    @property
    def eog(self) -> frozenset[int]:
        return self.target.eog

    def sequence(self) -> FollowerSequence:
        """Follows the first sequence of the target that has no follower. Raises ContextFull when there is none."""
        for sequence in self.target.sequences:
            if not self._has_follower(sequence):
                return self.follow(sequence)
        raise ContextFull("Every sequence of the target has a follower: what drafts from hidden rows follows one only.")

    def follow(self, sequence: LlamaSequence) -> FollowerSequence:
        """A sequence that drafts for `sequence`. Raises UsageError when there is an open one."""
        if self._has_follower(sequence):
            raise UsageError(f"Sequence {sequence.number} has a follower already.")
        if stale := self._open.get(sequence.number):
            stale.close()
        self._open[sequence.number] = FollowerSequence(self, sequence)
        return self._open[sequence.number]

    def _has_follower(self, sequence: LlamaSequence) -> bool:
        follower = self._open.get(sequence.number)
        return follower is not None and follower.target is sequence

    def release(self, number: int) -> None:
        """A sequence was closed: its memory is emptied."""
        if self._open.pop(number, None) is not None and not self.head.is_closed:
            self.head.context.remove(number, 0)

    def extend(self, feeds: abc.Sequence[Feed]) -> list[Rows]:
        """One `FollowerSequence.extend` for each feed, one after the other."""
        found, before = [], []
        try:
            for feed in feeds:
                assert isinstance(feed.sequence, FollowerSequence)
                before.append((feed.sequence, feed.sequence.mark()))
                found.append(feed.sequence.extend(feed.tokens, feed.rows))
        except BaseException:
            for sequence, mark in before:
                sequence.go_back(mark)
            raise
        return found

    def close(self) -> None:
        self.head.close()


def check_target(target: LlamaBackend) -> None:
    """Raises ContextRejected for a model that no follower can keep up with."""
    if not target.can_truncate:
        raise ContextRejected("Drafts from hidden rows are not supported for models with a running state.")


class FollowerSequence:
    """What the head has read. The first `_solid` cells were read with the target's hidden rows, the others with its own."""

    def __init__(self, backend: LlamaFollower, target: LlamaSequence) -> None:
        self._backend = backend
        self.target = target
        self._is_open = True
        self._solid = 0
        self._own: Hidden | None = None
        self._nothing: Hidden = np.zeros(backend.head.width, np.float32)
        self._lag = backend.head.lag
        self.number = target.number
        self.tokens: list[int] = []

    @property
    def length(self) -> int:
        return len(self.tokens)

    def extend(self, tokens: abc.Sequence[int], rows: int | None = None) -> Rows:
        """As the protocol says; the rows are copies. Raises ValueError for rows of tokens that take no cell (`Follower.lag`).

        Cells that were guessed are read again first, if the target has been there since.
        """
        n = self._check(tokens, rows)
        todo = list(tokens)
        first_row = self.length + len(todo) - n
        if self._solid < self.length and self._hidden(self._solid) is not None:
            todo = self.tokens[self._solid :] + todo
            self.truncate(self._solid)
        found = []
        while todo:
            start = self.length
            found.append(self._read(todo, first_row))
            del todo[: self.length - start]
        return np.concatenate(found)

    def truncate(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate {self.length} tokens to {length}")
        if length < self.length:
            self._backend.head.context.remove(self.number, max(0, length - self._lag))
            self._own = None
        del self.tokens[length:]
        self._solid = min(self._solid, length)

    def mark(self) -> tuple[int, Hidden | None]:
        """What `go_back` needs."""
        return self.length, self._own

    def go_back(self, mark: tuple[int, Hidden | None]) -> None:
        """After a call that failed for another sequence, or half way: what was read since the mark is forgotten."""
        length, own = mark
        if self.length > length:
            self.truncate(length)
            self._own = own

    def checkpoint(self) -> object:
        return tuple(self.tokens)

    def restore(self, checkpoint: object) -> None:
        assert isinstance(checkpoint, tuple)
        self.truncate(common_prefix(self.tokens, checkpoint))
        if missing := checkpoint[self.length :]:
            self.extend(missing, 0)

    def adopt(self, other: Sequence, length: int) -> None:  # noqa: ARG002 - the contract of a sequence
        """Raises UsageError: what it holds is not its own to exchange."""
        raise UsageError("A prediction head follows its target, and adopts nothing.")

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._backend.release(self.number)

    def _check(self, tokens: abc.Sequence[int], rows: int | None) -> int:
        n = len(tokens)
        rows = n if rows is None else rows
        if not self._is_open:
            raise Closed("The sequence was closed.")
        if not n or not 0 <= rows <= n:
            raise ValueError(f"{rows} rows of {n} tokens")
        if rows and self.length + n - rows < self._lag:
            raise ValueError(f"no rows after the first {self._lag} tokens of a text: nothing is known before them")
        if self.length + n > self._backend.context:
            raise ContextFull(f"{self.length} + {n} tokens exceed the context of {self._backend.context}.")
        self._backend.target.check_tokens(tokens)
        return rows

    def _hidden(self, position: int) -> Hidden | None:
        """The target's row of the position before, if the target has been there; zeros before the first token."""
        if position == 0:
            return self._nothing
        hidden = self.target.hidden
        return hidden[position - 1] if position <= len(hidden) else None

    def _read(self, tokens: list[int], first_row: int) -> Rows:
        """Reads as many of the tokens as one call can; the logits at positions from `first_row` on, copied."""
        head, start = self._backend.head, self.length
        nothing = np.empty((0, self._backend.vocab), np.float32)
        if start < self._lag:
            self.tokens += tokens[: self._lag - start]
            self._solid = self.length
            return nothing
        known = list(takewhile(lambda row: row is not None, (self._hidden(start + i) for i in range(len(tokens)))))
        guess = self._own if self._own is not None else self._nothing
        rows = [
            HeadRow(self.number, start + i - self._lag, token, guess if hidden is None else hidden)
            for i, (token, hidden) in enumerate(zip(tokens, known or [None], strict=False))
        ]
        # The last position is put out in any case: what follows may have to go on from there.
        silent = min(first_row - start, len(rows) - 1, head.context.batch)
        if silent > 0:
            rows = rows[:silent]
            head.read(rows)
            logits = nothing
        else:
            rows = rows[: head.context.outputs]
            out = head.decode(rows)
            self._own = out.hidden[-1].copy()
            logits = out.logits[max(0, first_row - start) :].copy()
        if known and self._solid == start:
            self._solid += len(rows)
        self.tokens += tokens[: len(rows)]
        return logits
