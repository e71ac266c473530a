"""llama-server's random numbers: the draws of a seed, one for each token of an answer.

std::mt19937(seed) through libstdc++'s std::uniform_real_distribution<double>, which makes a number of two words, the first one
the lower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MT19937 = "mt19937"
"""Name of this generator in `Facts.coupling`."""
_SEEDS = 1 << 32
_BLOCK = 64


class Draws:
    """`draws[i]`: the number that token i of an answer is drawn by, in [0, 1). Made as they are asked for.

    seed: any integer; what is above its 32 lowest bits is lost, as in llama-server. Raises IndexError for i < 0.
    """

    __slots__ = ("_generator", "_made")

    def __init__(self, seed: int) -> None:
        self._generator = np.random.RandomState(seed % _SEEDS)
        self._made: list[float] = []

    def __getitem__(self, i: int) -> float:
        if i < 0:
            raise IndexError(f"no token {i} is drawn")
        while i >= len(self._made):
            self._made += _uniforms(self._generator, _BLOCK).tolist()
        return self._made[i]


def draws(seed: int, n: int) -> NDArray[np.float64]:
    """float64[n] in [0, 1): the first n draws of a request with `seed`, an integer in [0, 2**32)."""
    return _uniforms(np.random.RandomState(seed), n)


def draws_of(seeds: Sequence[int], n: int) -> NDArray[np.float64]:
    """float64[len(seeds), n]: row i is `draws(seeds[i], n)`."""
    generator = np.random.RandomState(0)
    out = np.empty((len(seeds), n))
    for row, seed in zip(out, seeds, strict=True):
        generator.seed(seed)
        row[:] = _uniforms(generator, n)
    return out


def _uniforms(generator: np.random.RandomState, n: int) -> NDArray[np.float64]:
    words = generator.randint(0, 1 << 32, size=2 * n, dtype=np.uint32).astype(np.float64)
    u: NDArray[np.float64] = (words[0::2] + words[1::2] * 2.0**32) / 2.0**64
    return np.minimum(u, np.nextafter(1.0, 0.0))
