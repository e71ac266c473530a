"""Several drafters at once, as llama-server allows: the first that has a draft wins."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.core.coin import Coin
from draftproof.engine.draft.drafter import NOTHING, Draft, Drafter, Proposal


class FirstOf:
    """Asks its drafters in order. All of them see the text; only the one that drafted learns what was accepted.

    NOTE: a drafter that has nothing must say so before anything is drawn: passing on to the next one depends on no token.
    """

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = tuple(drafters)
        self._winner: Drafter | None = None
        self.name = ",".join(d.name for d in drafters)

    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Proposal:
        for drafter in self._drafters:
            draft = yield from drafter.propose(context, k, coin)
            if draft.tokens:
                self._winner = drafter
                return draft
        return NOTHING

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        for drafter in self._drafters:
            if draft.tokens and drafter is self._winner:
                drafter.observe(context, draft, accepted)
            else:
                drafter.observe(context, NOTHING, 0)

    def close(self) -> None:
        for drafter in self._drafters:
            drafter.close()
