"""What the engine needs of a model: token ids in, rows of logits out.

A backend must not know of sampling, drafts or rules, and the engine must not know what computes the logits.
"""

from __future__ import annotations

import math
from collections import abc
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from draftproof.core.errors import UsageError

Rows: TypeAlias = NDArray[np.float32]
"""float32[n, vocab]: unmodified logits, row i for the token after the i-th token that was asked about."""


WORTH_COPYING = 32
"""Tokens that take longer to read than a memory takes to copy."""


class ContextFull(UsageError):
    """More tokens than a sequence can hold."""


class CannotTruncate(UsageError):
    """The memory of this model cannot be rolled back to an earlier length."""


class UnknownToken(UsageError):
    """A token id outside [0, vocab)."""


class Sequence(Protocol):
    """The tokens that a model has read in one conversation, and its memory of them."""

    @property
    def length(self) -> int:
        """How many tokens the memory holds."""
        ...

    def extend(self, tokens: abc.Sequence[int], rows: int | None = None) -> Rows:
        """Reads `tokens` in one batch and returns the logits after the last `rows` of them (None: after each).

        float32[rows, vocab]; rows 0 gives an empty array. The rows may be a view that is valid until the next `extend` of
        any sequence of this backend: copy what must stay. On an error nothing was read.
        Raises ContextFull, UnknownToken; ValueError when `tokens` is empty or rows > len(tokens).
        """
        ...

    def truncate(self, length: int) -> None:
        """Forgets all but the first `length` tokens. Raises CannotTruncate, or ValueError outside [0, self.length]."""
        ...

    def checkpoint(self) -> object:
        """A token that `restore` takes this very sequence back with. Cheap where `can_truncate`."""
        ...

    def restore(self, checkpoint: object) -> None:
        """Back to the tokens that were held at the checkpoint. The checkpoint stays usable."""
        ...

    def adopt(self, other: Sequence, length: int) -> None:
        """Holds the first `length` tokens of another sequence of the backend from here on, which are not read again.

        Raises CannotTruncate for less than all of them where memories cannot be rolled back, or ValueError outside
        [0, other.length].
        """
        ...

    def close(self) -> None:
        """Gives the memory back. Closing twice is allowed."""
        ...


@dataclass(frozen=True, slots=True)
class Feed:
    """One sequence's share of a batch: the arguments of its `extend`."""

    sequence: Sequence
    tokens: tuple[int, ...]
    rows: int | None = None


class Backend(Protocol):
    """A loaded model. What it says of itself is true of this object, not of a configuration file."""

    @property
    def vocab(self) -> int:
        """Number of token ids; a row of logits has this length."""
        ...

    @property
    def vocabulary(self) -> str:
        """Fingerprint: two backends with the same one give every token id the same meaning."""
        ...

    @property
    def eog(self) -> frozenset[int]:
        """Token ids that end a generation."""
        ...

    @property
    def context(self) -> int:
        """The most tokens that one sequence can hold."""
        ...

    @property
    def can_truncate(self) -> bool:
        """False for recurrent and hybrid models: they are replayed from a checkpoint instead."""
        ...

    @property
    def prompt_part(self) -> int:
        """Prompts are cut at multiples of so many tokens, so what is kept up to there changes no number; 1: nor does any other."""
        ...

    @property
    def max_rows_exact(self) -> int:
        """The largest n for which a batch of n tokens gives bit for bit the logits of n batches of one; at least 1."""
        ...

    def exact_rows(self, at_most: int) -> int:
        """The largest such n <= at_most; above `max_rows_exact` only sizes that were tried count, those between do not."""
        ...

    def sequence(self) -> Sequence:
        """A new, empty sequence. Raises ContextFull when the backend can hold no further one."""
        ...

    def extend(self, feeds: abc.Sequence[Feed]) -> list[Rows]:
        """One `Sequence.extend` for each feed, in one pass of the model. Every sequence occurs at most once."""
        ...

    def close(self) -> None:
        """Frees the model. Its sequences are unusable from here on."""
        ...


def take_over(backend: Backend, memory: Sequence, other: Sequence, length: int, batch: int) -> int:
    """Copies the first `length` tokens of another memory, less those after the last place where a text is cut that is read
    anew in parts of `batch`; nothing where that is not worth it. How many more the memory holds.
    """
    part = backend.prompt_part
    step = 1 if part == 1 else math.lcm(part, batch)
    gained = length // step * step - memory.length
    if gained < WORTH_COPYING:
        return 0
    memory.adopt(other, memory.length + gained)
    return gained


def check_vocabulary(target: Backend, size: int, fingerprint: str) -> None:
    """Raises UsageError unless a draft model with that vocabulary means the same as the target by every token id."""
    if target.vocab != size:
        raise UsageError(
            f"The draft model has {size} tokens, the target {target.vocab}.",
            "Take a draft model of the same family.",
        )
    if target.vocabulary != fingerprint:
        raise UsageError(
            "The draft model's tokens have other texts than the target's.", "Take a draft model of the same family."
        )
