"""Drafts of lengths that the target verifies bit for bit like single tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from draftproof.core.coin import Coin
from draftproof.engine.draft.drafter import NOTHING, Draft, Drafter, Proposal


class Exact:
    """A drafter that looks drafts up, cut to a length that is exact.

    NOTE: what was drawn from a law must not be cut because of how long it became; such drafts pass as they are.
    fits: the largest length up to the given one.
    """

    def __init__(self, drafter: Drafter, fits: Callable[[int], int]) -> None:
        self.name = drafter.name
        self._drafter = drafter
        self._fits = fits

    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Proposal:
        if not self._fits(k):
            return NOTHING
        draft = yield from self._drafter.propose(context, self._fits(k), coin)
        n = len(draft.tokens)
        return (
            draft if draft.q is not None or self._fits(n) == n else replace(draft, tokens=draft.tokens[: self._fits(n)])
        )

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        self._drafter.observe(context, draft, accepted)

    def close(self) -> None:
        self._drafter.close()
