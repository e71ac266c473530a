"""Laws over token ids in float64, dense or with only the tokens that can occur."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Law: TypeAlias = NDArray[np.float64]
Ids: TypeAlias = NDArray[np.int64]


def log_softmax(logits: NDArray[np.floating]) -> Law:
    """float64[..., vocab]: log-probabilities of the unmodified logits. -inf logits stay -inf."""
    x = np.asarray(logits, dtype=np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    normalised: Law = x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
    return normalised


def total_variation(p: Law, r: Law) -> float:
    """Half the L1 distance of two laws on the same tokens, in [0, 1]."""
    return float(0.5 * np.abs(p - r).sum())


@lru_cache(maxsize=4)
def _all_ids(vocab: int) -> Ids:
    ids = np.arange(vocab, dtype=np.int64)
    ids.flags.writeable = False
    return ids


_CERTAIN: Law = np.ones(1)
_CERTAIN.flags.writeable = False


@dataclass(frozen=True, slots=True, eq=False)
class TokenLaw:
    """A law over the ids 0 .. vocab-1: `p[i]` is the probability of `ids[i]`; an id that is not listed has probability 0.

    ids: int64[n], ascending, without repetition. p: float64[n], sum 1. Pairing two laws always goes by id, never by place.
    `ranked`: llama.cpp's samplers leave such candidates by falling probability and not by their ids, which matters where it draws.
    """

    ids: Ids
    p: Law
    vocab: int
    ranked: bool = False

    @classmethod
    def of(cls, p: Law) -> Self:
        """From a dense law float64[vocab]; not copied."""
        return cls(_all_ids(len(p)), p, len(p))

    @classmethod
    def one_hot(cls, token: int, vocab: int) -> Self:
        """All probability on one token."""
        return cls(np.array([token], dtype=np.int64), _CERTAIN, vocab)

    def at(self, token: int) -> float:
        """Probability of one token."""
        if len(self.ids) == self.vocab:
            return float(self.p[token])
        place = int(self.ids.searchsorted(token))
        return float(self.p[place]) if place < len(self.ids) and self.ids[place] == token else 0.0

    def on(self, ids: Ids) -> Law:
        """float64[n]: the probabilities of `ids` (ascending); maybe a view."""
        if len(self.ids) == self.vocab:
            picked: Law = self.p if len(ids) == self.vocab else self.p[ids]
            return picked
        place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[place] == ids, self.p[place], 0.0)

    def dense(self) -> Law:
        """float64[vocab]; a copy."""
        out = np.zeros(self.vocab)
        out[self.ids] = self.p
        return out

    @property
    def argmax(self) -> int:
        """The most likely token; of equals the lowest id."""
        return int(self.ids[self.p.argmax()])
