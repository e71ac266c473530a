"""`ngram-map-k`: what followed the last n tokens every time, remembered with how much of it was accepted."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.core.coin import Coin
from draftproof.core.speculation import NgramLookup
from draftproof.engine.draft.drafter import NOTHING, Draft
from draftproof.engine.draft.kind import Kind
from draftproof.engine.draft.ngrams import NgramIndex, copy_from
from draftproof.engine.in_step import at_once


class NgramMapK:
    """The key is the last `size_n` tokens. The draft is what followed it last, as far as it followed `min_hits` times.

    A key whose draft was not accepted whole drafts as many tokens as were accepted the next time, at least 1, and twice as
    many after each success, up to `size_m`.
    """

    name = "ngram-map-k"

    def __init__(self, settings: NgramLookup) -> None:
        self._settings = settings
        self._index = NgramIndex(settings.size_n)
        self._limits: dict[tuple[int, ...], int] = {}
        self._key: tuple[int, ...] = ()

    @at_once
    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Draft:  # noqa: ARG002 - nothing is left to chance
        self._index.update(context)
        self._key = self._index.key(context)
        places = self._index.places(self._key)
        if len(places) < self._settings.min_hits:
            return NOTHING
        most = min(k, self._limits.get(self._key, self._settings.size_m))
        tokens = copy_from(context, places[-1], most)
        return Draft(tokens[: self._agreed(context, places, tokens)], None, self.name)

    def _agreed(self, context: Sequence[int], places: list[int], tokens: tuple[int, ...]) -> int:
        """How many of `tokens` followed the key at `min_hits` places."""
        for n, token in enumerate(tokens):
            places = [p for p in places if p + n < len(context) and context[p + n] == token]
            if len(places) < self._settings.min_hits and self._settings.min_hits > 1:
                return n
        return len(tokens)

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:  # noqa: ARG002 - the key is remembered
        if not draft.tokens:
            return
        whole = accepted == len(draft.tokens)
        self._limits[self._key] = min(2 * accepted, self._settings.size_m) if whole else max(accepted, 1)

    def close(self) -> None:
        """Nothing to give back."""


DRAFTER = Kind(
    NgramMapK.name,
    "what followed the last n tokens at least `min_hits` times",
    lambda setup: NgramMapK(setup.speculation.ngram_map_k),
)
