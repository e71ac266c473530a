"""Randomness as an argument: one coin draws, the other walks every branch and knows its probability.

Whoever needs chance asks for a stream by what it is for and where (`at("accept", 17)`). A stream starts anew each time it is
asked for, so a decision that is replayed at the same place comes out the same, and no random word serves two decisions.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np

from draftproof.core.errors import InstrumentError
from draftproof.core.law import Law
from draftproof.core.mt19937 import Draws

SAMPLE = "sample"
"""The purpose of the draw that makes a token of the target's own law."""

_WORD = 2.0**-53
_BLOCK = 512
_LONG = 16 * _BLOCK


class Coin(Protocol):
    """The two kinds of chance that samplers and verification rules need."""

    def at(self, purpose: str, *place: int) -> Coin:
        """The stream for one decision, from its beginning, independent of every other (purpose, place)."""
        ...

    def flip(self, chance: float, out_of: float = 1.0) -> bool:
        """True with probability min(1, chance / out_of), without dividing: never at chance 0, whatever `out_of` is."""
        ...

    def pick(self, weights: Law) -> int:
        """A place of `weights`, with probability proportional to the weight there; never one of weight 0.

        weights: float64[n] >= 0. Raises ValueError when they are all 0.
        """
        ...


def _total(weights: Law) -> Law:
    """float64[n]: running sums. Raises ValueError when nothing can be picked."""
    sums: Law = weights.cumsum()
    if not sums[-1] > 0:
        raise ValueError("nothing to pick from: every weight is 0")
    return sums


def _invert(weights: Law, u: float) -> int:
    """The first place where the running sum exceeds u times the total; u in [0, 1). Never one of weight 0."""
    sums = _total(weights)
    place = int(sums.searchsorted(u * sums[-1], side="right"))
    return place if place < len(sums) else int(np.flatnonzero(weights)[-1])  # u * total was rounded up to the total


def _invert_in_blocks(weights: Law, u: float) -> int:
    """The same law for long arrays, without one long running sum: first the block, then the place in it."""
    whole = len(weights) - len(weights) % _BLOCK
    sums = np.append(weights[:whole].reshape(-1, _BLOCK).sum(axis=1), weights[whole:].sum())
    block = _invert(sums, u)
    before = float(sums[:block].sum())
    left = (u * float(sums.sum()) - before) / float(sums[block])
    start = block * _BLOCK
    return start + _invert(weights[start : start + _BLOCK], min(max(left, 0.0), 1 - _WORD))


class RngCoin:
    """Draws. What the target samples, `SAMPLE` at a position, is drawn by llama-server's number for that token of an answer, so
    that a seed gives its text. All other streams are keyed by BLAKE2b of (seed, purpose, place) and have nothing in common.

    The same seed gives the same draws on every machine. seed: any integer of 64 bits, signed or not; llama-server's numbers
    depend on its 32 lowest bits. first: the position of the answer's first token.
    """

    __slots__ = ("_drawn", "_given", "_place", "_purpose", "_samples", "first", "seed")

    def __init__(
        self, seed: int, purpose: str = "", place: tuple[int, ...] = (), *, first: int = 0, given: float | None = None
    ) -> None:
        self.seed = seed
        self.first = first
        self._purpose = purpose
        self._place = place
        self._drawn = 0
        self._given = given
        self._samples: Draws | None = None

    def at(self, purpose: str, *place: int) -> Self:
        return type(self)(self.seed, purpose, place, given=self._sample(*place) if purpose == SAMPLE else None)

    def _sample(self, position: int) -> float:
        if self._samples is None:
            self._samples = Draws(self.seed)
        return self._samples[position - self.first]

    def uniform(self) -> float:
        """The next number of this stream, uniform on [0, 1), 53 bits or more."""
        drawn = self._drawn
        self._drawn += 1
        if not drawn and self._given is not None:
            return self._given
        words = struct.pack(f"<Q{len(self._place)}q", self.seed & 0xFFFF_FFFF_FFFF_FFFF, *self._place)
        key = words + self._purpose.encode() + struct.pack("<Q", drawn)
        return (int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little") >> 11) * _WORD

    def flip(self, chance: float, out_of: float = 1.0) -> bool:
        return self.uniform() * out_of < chance

    def pick(self, weights: Law) -> int:
        return (_invert if len(weights) <= _LONG else _invert_in_blocks)(weights, self.uniform())


T = TypeVar("T")


class Branch(NamedTuple):
    """One choice on the way: which of `chances` was taken."""

    taken: int
    chances: tuple[float, ...]


class EnumeratingCoin:
    """Takes a prescribed way through all decisions and multiplies the probabilities; `enumerate_branches` drives it.

    It treats all decisions as independent, so it does not let one stream serve two of them.
    """

    def __init__(self, way: tuple[int, ...] = ()) -> None:
        self._way = way
        self._asked: set[tuple[str, tuple[int, ...]]] = set()
        self.path: list[Branch] = []
        self.probability = 1.0

    def at(self, purpose: str, *place: int) -> Self:
        """Raises InstrumentError when this stream was asked for before."""
        if (purpose, place) in self._asked:
            raise InstrumentError(f"The stream {purpose} {place} would serve two decisions with the same random words.")
        self._asked.add((purpose, place))
        return self

    def _decide(self, chances: tuple[float, ...]) -> int:
        step = len(self.path)
        possible = [i for i, chance in enumerate(chances) if chance > 0]
        taken = self._way[step] if step < len(self._way) else possible[0]
        self.path.append(Branch(taken, chances))
        self.probability *= chances[taken]
        return taken

    def flip(self, chance: float, out_of: float = 1.0) -> bool:
        heads = 0.0 if chance <= 0 else 1.0 if chance >= out_of else chance / out_of
        return self._decide((1 - heads, heads)) == 1

    def pick(self, weights: Law) -> int:
        return self._decide(tuple((weights / _total(weights)[-1]).tolist()))


def enumerate_branches(run: Callable[[Coin], T]) -> Iterator[tuple[T, float]]:
    """Runs `run` once for every way its coin can fall: what came out and with which probability. They sum to 1.

    `run` must be a function of its coin alone.
    """
    way: tuple[int, ...] = ()
    while True:
        coin = EnumeratingCoin(way)
        result = run(coin)
        yield result, coin.probability
        taken = [branch.taken for branch in coin.path]
        for step in range(len(taken) - 1, -1, -1):
            chances = coin.path[step].chances
            later = next((i for i in range(taken[step] + 1, len(chances)) if chances[i] > 0), None)
            if later is not None:
                way = (*taken[:step], later)
                break
        else:
            return
