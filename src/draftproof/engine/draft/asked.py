"""Whether a drafter was asked at all, for answers that tell why nothing was drafted."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.core.coin import Coin
from draftproof.engine.draft.drafter import Draft, Drafter, Proposal


class Asked:
    """A drafter that notes whether it was asked. `looks_up`: it looks drafts up."""

    def __init__(self, drafter: Drafter, *, looks_up: bool) -> None:
        self.name = drafter.name
        self.looks_up = looks_up
        self.was_asked = False
        self._drafter = drafter

    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Proposal:
        self.was_asked = True
        return self._drafter.propose(context, k, coin)

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        self._drafter.observe(context, draft, accepted)

    def close(self) -> None:
        self._drafter.close()
