"""No speculation: every token is plain."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.core.coin import Coin
from draftproof.engine.draft.drafter import NOTHING, Draft
from draftproof.engine.draft.kind import Kind
from draftproof.engine.in_step import at_once


class NoDrafter:
    """Never drafts."""

    name = "none"

    @at_once
    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Draft:  # noqa: ARG002 - the contract of a drafter
        return NOTHING

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        """Nothing to learn."""

    def close(self) -> None:
        """Nothing to give back."""


DRAFTER = Kind(NoDrafter.name, "no speculation", lambda _setup: NoDrafter())
