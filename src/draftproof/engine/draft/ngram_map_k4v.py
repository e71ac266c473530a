"""`ngram-map-k4v`: for each n-gram up to four m-grams that followed it; one of them when it stands out."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.core.coin import Coin
from draftproof.core.speculation import NgramLookup
from draftproof.engine.draft.drafter import NOTHING, Draft
from draftproof.engine.draft.kind import Kind
from draftproof.engine.in_step import at_once

_VALUES = 4
_STANDS_OUT = 2


class NgramMapK4V:
    """The key is the last `size_n` tokens, its values the `size_m` tokens that followed, with how often they did.

    The most frequent value is drafted when it was seen `min_hits` times and twice as often as all others together. As with
    `ngram-map-k` a value that was not accepted whole is drafted shorter the next time. A fifth value replaces the rarest.
    """

    name = "ngram-map-k4v"

    def __init__(self, settings: NgramLookup) -> None:
        self._settings = settings
        self._values: dict[tuple[int, ...], dict[tuple[int, ...], int]] = {}
        self._limits: dict[tuple[int, ...], int] = {}
        self._known = settings.size_n
        self._drafted: tuple[int, ...] = ()

    def _update(self, context: Sequence[int]) -> None:
        n, m = self._settings.size_n, self._settings.size_m
        for end in range(self._known, len(context) - m + 1):
            values = self._values.setdefault(tuple(context[end - n : end]), {})
            value = tuple(context[end : end + m])
            if value not in values and len(values) == _VALUES:
                del values[min(values, key=values.__getitem__)]
            values[value] = values.get(value, 0) + 1
        self._known = max(self._known, len(context) - m + 1)

    @at_once
    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Draft:  # noqa: ARG002 - nothing is left to chance
        self._update(context)
        n = self._settings.size_n
        values = self._values.get(tuple(context[len(context) - n :]) if len(context) >= n else (), {})
        if not values:
            return NOTHING
        best = max(values, key=values.__getitem__)
        others = sum(values.values()) - values[best]
        if values[best] < self._settings.min_hits or values[best] < _STANDS_OUT * others:
            return NOTHING
        self._drafted = best
        return Draft(best[: min(k, self._limits.get(best, len(best)))], None, self.name)

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:  # noqa: ARG002 - the value is remembered
        if draft.tokens:
            whole = accepted == len(draft.tokens)
            self._limits[self._drafted] = min(2 * accepted, self._settings.size_m) if whole else max(accepted, 1)

    def close(self) -> None:
        """Nothing to give back."""


DRAFTER = Kind(
    NgramMapK4V.name,
    "the m tokens that by far most often followed the last n",
    lambda setup: NgramMapK4V(setup.speculation.ngram_map_k4v),
)
