"""The tokens that are still in the race while samplers work on a row of logits.

NOTE: `np.add.reduce(x)` in place of `x.sum()`, and its like: the methods go through numpy's own Python code, which between two
tokens falls out of the processor's caches and then costs 10 us.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from draftproof.core.law import Ids, Law, TokenLaw

_COLUMNS = 512
_SMALL = 4096


def largest(values: NDArray[np.floating], n: int) -> Ids:
    """int64[min(n, len(values))]: the places of the n largest values, best first; of equals the lower place first."""
    size = len(values)
    n = min(n, size)
    if size > _SMALL and n < size // 4:
        if n <= _COLUMNS:
            # every column maximum is a value, so at least n values reach the n-th largest column maximum
            peaks = np.maximum.reduce(values[: size - size % _COLUMNS].reshape(-1, _COLUMNS))
            peaks.sort()
            floor = peaks[_COLUMNS - n]
        else:
            floor = np.partition(values, size - n)[size - n]
        (found,) = (values >= floor).nonzero()
        places: Ids = found[(-values[found]).argsort(kind="stable")[:n]]
        return places
    order: Ids = (-values).argsort(kind="stable")
    return order[:n]


class Leading(NamedTuple):
    """The largest logits of a row, best first, of equals the lower id first. ids: int64[n]; logits: float64[n]."""

    ids: Ids
    logits: Law

    @classmethod
    def of(cls, row: NDArray[np.floating], n: int) -> Self:
        """The n largest of a row float[vocab]; all where there are fewer. NaN is not seen."""
        ids = largest(row, n)
        return cls(ids, row[ids].astype(np.float64))

    def without(self, tokens: frozenset[int]) -> Self:
        """The others, in the same order."""
        ids = self.ids.tolist()
        if tokens.isdisjoint(ids):
            return self
        left = [i for i, token in enumerate(ids) if token not in tokens]
        return type(self)(self.ids[left], self.logits[left])


class Candidates(NamedTuple):
    """Tokens and their logits between two samplers; never mutated.

    ids: int64[n] without repetition, None for all ids in order. logits: floating[n]; float32 only while all ids are there.
    `size` is how many candidates llama.cpp counts here: it keeps tokens whose logit became -inf. `ordered`: best first, of equals
    the lower id first.
    """

    logits: NDArray[np.floating]
    ids: Ids | None
    size: int
    vocab: int
    ordered: bool = False

    @classmethod
    def of(cls, logits: NDArray[np.floating]) -> Candidates:
        """All tokens of a row float[vocab]."""
        return cls(logits, None, len(logits), len(logits))

    @property
    def top(self) -> float:
        """The largest logit; NaN when one of them is, where they have no order yet."""
        if self.ordered:
            return float(self.logits[0]) if len(self.logits) else math.nan
        return float(self.logits.max())

    @property
    def argmax(self) -> int:
        """The token with the largest logit; of equals the lowest id."""
        if self.ids is None:
            return int(self.logits.argmax())
        return int(self.ids[0] if self.ordered else self.ids[self.logits == self.top].min())

    def keep(self, places: Ids, *, size: int | None = None, ordered: bool = False) -> Candidates:
        """Only the candidates at `places`, in that order, with logits in float64; those at -inf drop out but are counted."""
        logits = self.logits[places].astype(np.float64)
        if logits.min(initial=0.0) == -np.inf:
            finite = np.isfinite(logits)
            size, places, logits = len(places) if size is None else size, places[finite], logits[finite]
        ids = places if self.ids is None else self.ids[places]
        return Candidates(logits, ids, len(places) if size is None else size, self.vocab, ordered)

    def sort(self) -> Candidates:
        """All candidates, best first; of equals the lower id first."""
        if self.ordered:
            return self
        order = np.argsort(-self.logits, kind="stable") if self.ids is None else np.lexsort((self.ids, -self.logits))
        return self.keep(order, size=self.size, ordered=True)

    def best(self, n: int) -> Candidates:
        """The n largest, best first, counted as min(n, size)."""
        if self.ordered or self.ids is not None:
            return self.sort().head(n, size=min(n, self.size))
        return self.keep(largest(self.logits, n), size=min(n, self.size), ordered=True)

    def head(self, n: int, *, size: int | None = None) -> Candidates:
        """The first n of ordered candidates."""
        assert self.ids is not None
        ids = self.ids[:n]
        return Candidates(self.logits[:n], ids, len(ids) if size is None else size, self.vocab, ordered=True)

    def probabilities(self) -> Law:
        """float64[n]: softmax of the logits."""
        x: Law = np.subtract(self.logits, self.top, dtype=np.float64)
        np.exp(x, out=x)
        x /= np.add.reduce(x)
        return x

    def law(self) -> TokenLaw:
        """The softmax, as a law over ids."""
        if self.ids is None:
            return TokenLaw.of(self.probabilities())
        order = self.ids.argsort()
        return TokenLaw(self.ids[order], self.probabilities()[order], self.vocab)
