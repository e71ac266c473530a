"""`ngram-simple`: what followed the last time that the last n tokens were said."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.core.coin import Coin
from draftproof.core.speculation import NgramLookup
from draftproof.engine.draft.drafter import NOTHING, Draft
from draftproof.engine.draft.kind import Kind
from draftproof.engine.draft.ngrams import NgramIndex, copy_from
from draftproof.engine.in_step import at_once


class NgramSimple:
    """Drafts up to `size_m` tokens after the most recent earlier occurrence of the last `size_n` tokens."""

    name = "ngram-simple"

    def __init__(self, settings: NgramLookup) -> None:
        self._settings = settings
        self._index = NgramIndex(settings.size_n)

    @at_once
    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Draft:  # noqa: ARG002 - nothing is left to chance
        self._index.update(context)
        places = self._index.places(self._index.key(context))
        if len(places) < self._settings.min_hits:
            return NOTHING
        return Draft(copy_from(context, places[-1], min(k, self._settings.size_m)), None, self.name)

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        """It looks at the context anew each time."""

    def close(self) -> None:
        """Nothing to give back."""


DRAFTER = Kind(
    NgramSimple.name,
    "what followed the last occurrence of the last n tokens",
    lambda setup: NgramSimple(setup.speculation.ngram_simple),
)
