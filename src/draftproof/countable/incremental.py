"""Language models in float64 that remember every context, so that a context one token longer costs one token."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from draftproof.core.distribution import Law, log_softmax
from draftproof.core.errors import UsageError

Context: TypeAlias = tuple[int, ...]
Array: TypeAlias = NDArray[np.float64]

BATCH = 2048
REMEMBERED = 40_000
"""Contexts (about 1.5 kB each) after which the memory starts afresh."""


class LanguageModel(Protocol):
    """A model small enough to count. Contexts are non-empty and at most `context` tokens long, ids below `vocabulary`."""

    @property
    def vocabulary(self) -> int: ...

    @property
    def context(self) -> int: ...

    def logprobs(self, contexts: Sequence[Context]) -> Law:
        """float64[len(contexts), vocabulary]: log-softmax of the logits after each context."""
        ...

    def logits(self, contexts: Sequence[Context]) -> Law:
        """float64[len(contexts), vocabulary]: before the softmax; repeat penalties look at their signs."""
        ...


class Memory:
    """What a model remembers of every context seen: float64 rows that grow by doubling. `paths[i]`: rows of all its prefixes."""

    def __init__(self, widths: Mapping[str, tuple[int, ...]]) -> None:
        self.index: dict[Context, int] = {}
        self.paths: list[NDArray[np.int32]] = []
        self.rows: dict[str, Array] = {name: np.empty((64, *width)) for name, width in widths.items()}

    def reserve(self, rows: int) -> None:
        for name, x in self.rows.items():
            if rows > len(x):
                grown = np.empty((max(rows, 2 * len(x)), *x.shape[1:]))
                grown[: len(x)] = x
                self.rows[name] = grown

    def missing(self, contexts: Iterable[Context]) -> list[list[Context]]:
        """Every prefix that is not known yet, by length, shortest first, each once."""
        found: dict[int, dict[Context, None]] = {}
        for context in contexts:
            prefix = context
            while prefix and prefix not in self.index and prefix not in found.setdefault(len(prefix), {}):
                found[len(prefix)][prefix] = None
                prefix = prefix[:-1]
        return [list(found[length]) for length in sorted(found) if found[length]]


class Incremental(ABC):
    """A `LanguageModel` that works out contexts token by token, many of one length together. Thread-safe.

    `head`: float64[vocabulary, width]; `widths`: what `_extend` keeps of a context, by name.
    """

    def __init__(self, context: int, head: Array, widths: Mapping[str, tuple[int, ...]]) -> None:
        self.context = context
        self.vocabulary, width = head.shape
        self._head = head
        self._widths = {**widths, "hidden": (width,), "logprobs": (self.vocabulary,)}
        self._memory = Memory(self._widths)
        self._lock = threading.RLock()

    def logprobs(self, contexts: Sequence[Context]) -> Law:
        """float64[len(contexts), vocabulary]: log-softmax of the logits after each context."""
        law: Law = self._remembered("logprobs", contexts)
        return law

    def logits(self, contexts: Sequence[Context]) -> Law:
        """float64[len(contexts), vocabulary]: before the softmax; repeat penalties look at their signs."""
        out: Law = self.hidden(contexts) @ self._head.T
        return out

    def hidden(self, contexts: Sequence[Context]) -> Array:
        """float64[len(contexts), width]: what the output head sees after each context."""
        return self._remembered("hidden", contexts)

    @abstractmethod
    def _extend(
        self, contexts: list[Context], memory: Memory, new: NDArray[np.int32], before: NDArray[np.int32]
    ) -> Array:
        """What the head sees after contexts of one length: float64[n, width].

        `before`: the rows of the contexts without their last token (empty for contexts of one token); `new`: their own rows, to
        be written. `memory.paths` has their paths already.
        """

    def _remembered(self, kept: str, contexts: Sequence[Context]) -> Array:
        """A copy of what is kept of these contexts under that name."""
        with self._lock:
            index = self._memory.index
            try:
                return self._memory.rows[kept][[index[c] for c in contexts]]
            except KeyError:
                pass
            if len(index) > REMEMBERED:
                self._memory = Memory(self._widths)
                index = self._memory.index
            for context in contexts:
                self._validate(context)
            for level in self._memory.missing(contexts):
                for start in range(0, len(level), BATCH):
                    self._add(level[start : start + BATCH])
            return self._memory.rows[kept][[index[c] for c in contexts]]

    def _add(self, contexts: list[Context]) -> None:
        """Contexts of one length whose prefixes are known."""
        m, length = self._memory, len(contexts[0])
        first = len(m.index)
        new = np.arange(first, first + len(contexts), dtype=np.int32)
        m.reserve(first + len(contexts))
        path = np.empty((len(contexts), length), dtype=np.int32)
        path[:, -1] = new
        if length > 1:
            path[:, :-1] = [m.paths[m.index[c[:-1]]] for c in contexts]
        m.paths.extend(path)
        m.rows["hidden"][new] = h = self._extend(contexts, m, new, path[:, -2] if length > 1 else new[:0])
        m.rows["logprobs"][new] = log_softmax(h @ self._head.T)
        m.index.update(zip(contexts, new.tolist(), strict=True))

    def _validate(self, context: Context) -> None:
        if not context:
            raise UsageError("An empty context has no law: the model has no token that begins a text.")
        if len(context) > self.context:
            raise UsageError(f"A context of {len(context)} tokens; the model takes {self.context}.")
        if min(context) < 0 or max(context) >= self.vocabulary:
            raise UsageError(f"Token ids must be 0..{self.vocabulary - 1}: {context}.")


def rms(x: Array, weight: Array, epsilon: float) -> Array:
    """RMSNorm (arXiv 1910.07467) over the last axis of float64[n, width]."""
    mean_square = np.einsum("nw,nw->n", x, x) / x.shape[1]
    normed: Array = x / np.sqrt(mean_square + epsilon)[:, None] * weight
    return normed


def silu(x: Array) -> Array:
    out: Array = x / (1 + np.exp(-x))
    return out
