from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.models import random_table

from draftproof.core.coin import Coin, RngCoin
from draftproof.engine.draft.drafter import NOTHING, Draft
from draftproof.engine.draft.pace import Costs, LengthPolicy, Paced, measure
from draftproof.engine.draft.several import FirstOf

DEAR = Costs(tuple(1.0 + 0.5 * n for n in range(16)), 0.3)
CHEAP = Costs(tuple(1.0 + 0.02 * n for n in range(16)), 0.01)


def spent(policy: LengthPolicy, costs: Costs, acceptance: float, steps: int, seed: int = 1) -> float:
    """Cost of a token when every drafted token is accepted with the same probability, independently."""
    tokens, cost = 0, 0.0
    for step in range(steps):
        k = policy.choose(16)
        accepted = 0
        while accepted < k and RngCoin(seed).at("accept", step, accepted).flip(acceptance):
            accepted += 1
        policy.observe(k, accepted)
        tokens, cost = tokens + accepted + 1, cost + costs.of(k)
    return cost / tokens


@settings(deadline=None, max_examples=15)
@given(acceptance=st.floats(0, 0.4), seed=st.integers(0, 1000))
def test_drafts_that_do_not_pay_cost_nothing_for_long(acceptance: float, seed: int) -> None:
    """Without speculation a token costs 1. After 3000 steps at most 2 % are lost to trying."""
    assert spent(LengthPolicy(DEAR, 16), DEAR, acceptance, 3000, seed) < 1.02


def test_drafts_that_pay_are_made_long() -> None:
    policy = LengthPolicy(CHEAP, 16)
    assert spent(policy, CHEAP, 0.95, 400) < 0.17
    assert policy.choose(16) >= 10


def test_a_text_that_becomes_predictable_is_noticed() -> None:
    policy = LengthPolicy(DEAR, 16)
    spent(policy, DEAR, 0.0, 1500)
    assert spent(policy, CHEAP, 1.0, 2500) < 0.5


@settings(deadline=None)
@given(history=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30), k=st.integers(0, 8))
def test_the_length_is_a_function_of_what_was_accepted_before(history: list[tuple[int, int]], k: int) -> None:
    a, b = LengthPolicy(DEAR, 5), LengthPolicy(DEAR, 5)
    for drafted, accepted in history:
        assert a.choose(k) == b.choose(k) <= k
        for policy in (a, b):
            policy.observe(drafted, min(accepted, drafted))
    assert a.expected(0) == 1
    assert a.expected(3) >= a.expected(2) >= 1


def test_rows_beyond_the_measured_ones_cost_as_the_last_step() -> None:
    costs = Costs((1.0, 1.5, 3.0), 0.25)
    assert [costs.of(k) for k in range(5)] == [1.0, 1.75, 3.5, 5.25, 7.0]
    assert Costs().of(9) == 1.0
    with pytest.raises(ValueError, match="positive"):
        Costs((1.0, 0.0))


def test_costs_are_measured_with_a_clock() -> None:
    ticks = iter(range(1000))
    costs = measure(random_table(1), random_table(2), most=4, clock=lambda: float(next(ticks)))
    assert costs == Costs((1.0, 1.0, 1.0, 1.0), 1.0)


class Scripted:
    """Drafts what it is told to."""

    def __init__(self, name: str, *drafts: tuple[int, ...]) -> None:
        self.name = name
        self._drafts = list(drafts)
        self.seen: list[tuple[int, int]] = []
        self.closed = False

    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Draft:
        tokens = self._drafts.pop(0)[:k]
        return Draft(tokens, None, self.name) if tokens else NOTHING

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        self.seen.append((len(draft.tokens), accepted))

    def close(self) -> None:
        self.closed = True


def test_the_first_drafter_with_a_draft_wins_and_learns() -> None:
    a, b = Scripted("a", (), (1, 2)), Scripted("b", (3,))
    both = FirstOf((a, b))
    assert both.name == "a,b"
    first = both.propose([0], 5, RngCoin(1))
    assert (first.tokens, first.drafter) == ((3,), "b")
    both.observe([0, 3, 4], first, 1)
    second = both.propose([0, 3, 4], 5, RngCoin(1))
    both.observe([0, 3, 4, 1, 9], second, 1)
    both.observe([0, 3, 4, 1, 9, 8], NOTHING, 0)
    assert a.seen == [(0, 0), (2, 1), (0, 0)]
    assert b.seen == [(1, 1), (0, 0), (0, 0)]
    both.close()
    assert a.closed
    assert b.closed


def test_a_paced_drafter_is_asked_for_as_much_as_pays() -> None:
    paced = Paced(Scripted("a", (1,) * 9, (1,) * 9), LengthPolicy(CHEAP, 4))
    assert len(paced.propose([0], 9, RngCoin(1)).tokens) == 4
    assert paced.name == "a"
    resting = Paced(Scripted("a"), LengthPolicy(DEAR, 4))
    assert resting.propose([0], 9, RngCoin(1)) is NOTHING
