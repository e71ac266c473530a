"""`ngram-cache`: how often each token followed the last one to four tokens; the clear favourites are drafted."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.core.coin import Coin
from draftproof.engine.draft.drafter import NOTHING, Draft
from draftproof.engine.draft.kind import Kind
from draftproof.engine.in_step import at_once

_LONGEST = 4
_ENOUGH = {1: 2, 2: 2, 3: 1, 4: 1}
"""How often an n-gram must have been followed by anything."""
_SHARE = {1: 0.66, 2: 0.5, 3: 0.5, 4: 0.5}
"""Which share of that the favourite needs."""


class NgramCache:
    """Statistics of the context itself. The longest n-gram that has a clear favourite decides each token."""

    name = "ngram-cache"

    def __init__(self) -> None:
        self._counts: dict[tuple[int, ...], dict[int, int]] = {}
        self._known = 1

    def _update(self, context: Sequence[int]) -> None:
        for end in range(self._known, len(context)):
            for n in range(1, min(_LONGEST, end) + 1):
                followers = self._counts.setdefault(tuple(context[end - n : end]), {})
                followers[context[end]] = followers.get(context[end], 0) + 1
        self._known = max(self._known, len(context))

    def _favourite(self, last: tuple[int, ...]) -> int | None:
        for n in range(min(_LONGEST, len(last)), 0, -1):
            followers = self._counts.get(last[-n:], {})
            total = sum(followers.values())
            if total < _ENOUGH[n]:
                continue
            best = max(followers, key=followers.__getitem__)
            if followers[best] >= _SHARE[n] * total:
                return best
        return None

    @at_once
    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Draft:  # noqa: ARG002 - nothing is left to chance
        self._update(context)
        last = tuple(context[-_LONGEST:])
        tokens: list[int] = []
        while len(tokens) < k:
            token = self._favourite(last)
            if token is None:
                break
            tokens.append(token)
            last = (*last, token)[-_LONGEST:]
        return Draft(tuple(tokens), None, self.name) if tokens else NOTHING

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        """It counts the context the next time."""

    def close(self) -> None:
        """Nothing to give back."""


DRAFTER = Kind(NgramCache.name, "clear favourites after the last one to four tokens", lambda _setup: NgramCache())
