"""What the drafters that look things up have in common: an index of n-grams that grows with the context."""

from __future__ import annotations

from collections.abc import Sequence


class NgramIndex:
    """Where each n-gram was followed by a token: `places(key)` are the positions of the tokens that followed, oldest first.

    Only the last `most` places of a key are kept.
    """

    def __init__(self, n: int, most: int = 64) -> None:
        self.n = n
        self._most = most
        self._places: dict[tuple[int, ...], list[int]] = {}
        self._known = n

    def update(self, context: Sequence[int]) -> None:
        """Takes in what was appended to the context since the last call."""
        n = self.n
        for end in range(self._known, len(context)):
            places = self._places.setdefault(tuple(context[end - n : end]), [])
            places.append(end)
            del places[: -self._most]
        self._known = max(self._known, len(context))

    def key(self, context: Sequence[int]) -> tuple[int, ...]:
        """The n-gram that the context ends with; shorter when the context is."""
        return tuple(context[max(0, len(context) - self.n) :])

    def places(self, key: tuple[int, ...]) -> list[int]:
        return self._places.get(key, [])


def copy_from(context: Sequence[int], start: int, n: int) -> tuple[int, ...]:
    """n tokens from `start` on, and where the context ends, on with the copied ones: a loop goes on as a loop."""
    out: list[int] = []
    size = len(context)
    for i in range(start, start + n):
        out.append(context[i] if i < size else out[i - size])
    return tuple(out)
