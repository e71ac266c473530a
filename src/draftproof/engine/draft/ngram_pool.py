"""The memory of `ngram-mod`: hashes of n tokens to the token that followed last. Fixed in size, shared by all requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_MULTIPLIER = 6364136223846793005
"""Knuth's 64-bit linear congruential multiplier."""


class NgramPool:
    """`slots` hashes at most (4 bytes each); a later n-gram with the same slot overwrites. Only ever guesses come from it."""

    def __init__(self, slots: int = 2**22) -> None:
        self._next = np.zeros(slots, dtype=np.int32)  # token + 1: the system hands out zeros without writing them
        self._slots = slots

    @property
    def filled(self) -> float:
        """Share of the slots in use."""
        return float((self._next > 0).mean())

    def learn(self, slot: int, token: int) -> None:
        self._next[slot % self._slots] = token + 1

    def recall(self, slot: int) -> int:
        """The token that followed last, -1 for none."""
        return int(self._next[slot % self._slots]) - 1

    def clear(self) -> None:
        self._next.fill(0)


class RollingHash:
    """Hash of the last n tokens pushed, in constant time for each.

    A polynomial in the multiplier modulo 2^64; its high bits are mixed down, for a pool takes the low ones.
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._drop = pow(_MULTIPLIER, n, _MASK + 1)
        self._state = 0
        self._tokens: list[int] = []

    def push(self, token: int) -> None:
        leaving = self._tokens[-self._n] + 1 if len(self._tokens) >= self._n else 0
        self._state = (self._state * _MULTIPLIER + token + 1 - leaving * self._drop) & _MASK
        self._tokens.append(token)

    @property
    def full(self) -> bool:
        """Whether n tokens were pushed."""
        return len(self._tokens) >= self._n

    @property
    def value(self) -> int:
        return self._state ^ self._state >> 29

    def follow(self, tokens: Sequence[int]) -> RollingHash:
        """A copy that also holds `tokens`."""
        other = RollingHash(self._n)
        other._state, other._tokens = self._state, self._tokens[-self._n :]
        for token in tokens:
            other.push(token)
        return other
