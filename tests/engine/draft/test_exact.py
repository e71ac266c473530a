from __future__ import annotations

from collections.abc import Sequence

from tests.engine.models import random_table

from draftproof.core.coin import Coin, RngCoin
from draftproof.core.law import TokenLaw
from draftproof.core.speculation import NgramLookup, Speculation
from draftproof.engine.draft.drafter import Draft
from draftproof.engine.draft.exact import Exact
from draftproof.engine.draft.kind import Setup
from draftproof.engine.in_step import at_once, run_alone
from draftproof.engine.speculate import make_plan


class Repeats:
    """Drafts as many zeros as it may, at most `most`; drawn ones if `drawn`."""

    name = "repeats"

    def __init__(self, most: int, *, drawn: bool) -> None:
        self._most = most
        self._drawn = drawn

    @at_once
    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Draft:
        n = min(k, self._most)
        return Draft((0,) * n, (TokenLaw.one_hot(0, 4),) * n if self._drawn else None, self.name)

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        """Nothing to learn."""

    def close(self) -> None:
        """Nothing to give back."""


def fits(length: int) -> int:
    return max(n for n in (0, 1, 2, 3, 7, 15) if n <= length)


def lengths(most: int, *, drawn: bool) -> list[int]:
    drafter = Exact(Repeats(most, drawn=drawn), fits)
    return [len(run_alone(drafter.propose([0], k, RngCoin(0))).tokens) for k in range(1, 20)]


def test_drafts_that_were_looked_up_have_exact_lengths() -> None:
    assert set(lengths(99, drawn=False)) == {1, 2, 3, 7, 15}
    assert set(lengths(12, drawn=False)) == {1, 2, 3, 7}


def test_drafts_that_were_drawn_are_never_cut() -> None:
    """Where such a draft ends may depend on its last token: without it, what is left would not be drawn from q."""
    assert max(lengths(12, drawn=True)) == 12


def test_drawn_drafts_are_kept_to_lengths_below_which_all_are_exact() -> None:
    target = random_table(1)
    target.max_rows_exact = 4
    target.exact_rows = lambda at_most: max(n for n in (1, 2, 3, 4, 9) if n <= at_most)  # type: ignore[method-assign]
    lookup = Speculation(types=("ngram-simple",), rule="match", strict=True, ngram_simple=NgramLookup(2, 48))
    assert make_plan(Setup(target, lookup)).n_max == 8
    drawn = Speculation(types=("draft-simple",), rule="rejection", n_max=20, strict=True)
    assert make_plan(Setup(target, drawn, draft=random_table(2))).n_max == 3
