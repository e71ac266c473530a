"""The tokens that are still in the race while samplers work on a row of logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftproof.core.law import Ids, Law, TokenLaw

_COLUMNS = 1024
_SMALL = 4096


def largest(values: NDArray[np.floating], n: int) -> Ids:
    """int64[min(n, len(values))]: the places of the n largest values, best first; of equals the lower place first."""
    size = len(values)
    n = min(n, size)
    if size > _SMALL and n < size // 4:
        if n <= _COLUMNS:
            # every column maximum is a value, so at least n values reach the n-th largest column maximum
            peaks = values[: size - size % _COLUMNS].reshape(-1, _COLUMNS).max(axis=0)
            floor = np.partition(peaks, _COLUMNS - n)[_COLUMNS - n]
        else:
            floor = np.partition(values, size - n)[size - n]
        places = np.flatnonzero(values >= floor)
        return places[np.argsort(-values[places], kind="stable")][:n]
    return np.argsort(-values, kind="stable")[:n]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Tokens and their logits between two samplers; never mutated.

    ids: int64[n] without repetition, None for all ids in order. logits: floating[n]; float32 only while all ids are there.
    `size` is how many candidates llama.cpp counts here: it keeps tokens whose logit became -inf. `ordered`: best first.
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

    def keep(self, places: Ids, *, size: int | None = None, ordered: bool = False) -> Candidates:
        """Only the candidates at `places`, in that order, with logits in float64; those at -inf drop out but are counted."""
        logits = self.logits[places].astype(np.float64)
        if not np.isfinite(logits).all():
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
            c = self.sort()
            return c.keep(np.arange(min(n, len(c.logits))), size=min(n, self.size), ordered=True)
        return self.keep(largest(self.logits, n), size=min(n, self.size), ordered=True)

    def probabilities(self) -> Law:
        """float64[n]: softmax of the logits."""
        x = self.logits.astype(np.float64)
        x -= x.max()
        np.exp(x, out=x)
        x /= x.sum()
        return x

    def law(self) -> TokenLaw:
        """The softmax, as a law over ids."""
        if self.ids is None:
            return TokenLaw.of(self.probabilities())
        order = np.argsort(self.ids)
        return TokenLaw(self.ids[order], self.probabilities()[order], self.vocab)
