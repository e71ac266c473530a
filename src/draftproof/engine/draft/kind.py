"""What a drafter is made from, and how it is found by name."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.speculation import OFF, Speculation
from draftproof.engine.backend import Backend, Sequence
from draftproof.engine.draft.drafter import Drafter
from draftproof.engine.draft.ngram_pool import NgramPool
from draftproof.engine.draft.pace import Costs, alone

_PRICED = Costs(draft=1.0, head=1.0)
Lender: TypeAlias = Callable[[abc.Sequence[int]], tuple[Sequence | None, int]]
"""The memory of the draft model, among those of other answers, that holds most of a context, and how many tokens of it."""


def nobody(context: abc.Sequence[int]) -> tuple[Sequence | None, int]:  # noqa: ARG001 - the contract of a lender
    """Where there is no other answer, or none may be asked."""
    return None, 0


@dataclass(frozen=True, slots=True)
class Setup:
    """All that a drafter may need. What belongs to the server (models, pool) is lent.

    `sequence` of the draft model, `head_sequence` of the prediction head and `eagle_sequence` of the EAGLE-3 draft hold prefixes
    of the prompt. `drawn`: the rule accepts most when drafts are drawn from q and not the likeliest tokens. `company`: how many
    answers are being made. `lender`: whose memory of the draft model may be copied.
    """

    target: Backend
    speculation: Speculation = OFF
    sampling: Sampling = NEUTRAL
    drawn: bool = True
    draft: Backend | None = None
    sequence: Sequence | None = None
    pool: NgramPool | None = None
    head: Backend | None = None
    head_sequence: Sequence | None = None
    eagle: Backend | None = None
    eagle_sequence: Sequence | None = None
    company: Callable[[], int] = alone
    lender: Lender = nobody


@dataclass(frozen=True, slots=True)
class Kind:
    """A drafter by llama-server's name of it. `missing` says why it cannot run on a setup, or "". `open` makes one.

    `cost` picks what it takes to draft a token; to look one up costs nothing worth counting. `shared`: what it drafts depends
    on other requests too.
    """

    name: str
    summary: str
    open: Callable[[Setup], Drafter]
    missing: Callable[[Setup], str] = lambda _setup: ""
    cost: Callable[[Costs], float] = lambda _costs: 0.0
    shared: bool = False

    @property
    def looks_up(self) -> bool:
        """Whether drafts are looked up, and not made by a model; also where what rows cost is not known."""
        return not self.cost(_PRICED)
