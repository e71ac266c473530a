from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.models import random_table

from draftproof.core.coin import Coin, RngCoin
from draftproof.core.speculation import NgramLookup
from draftproof.engine.draft.asked import Asked
from draftproof.engine.draft.drafter import NOTHING, Draft
from draftproof.engine.draft.ngram_simple import NgramSimple
from draftproof.engine.draft.pace import Costs, LengthPolicy, Paced, time_row
from draftproof.engine.draft.several import FirstOf
from draftproof.engine.in_step import at_once, run_alone
from draftproof.engine.passes import RowCosts

DEAR = Costs(RowCosts(tuple(1.0 + 0.5 * n for n in range(16))), 0.3)
CHEAP = Costs(RowCosts(tuple(1.0 + 0.02 * n for n in range(16))), 0.01)


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


STEEP = Costs(RowCosts((1.0, 2.6, 3.8, 4.2, 5.5, 5.7, 6.8, 6.6)), 0.02)
"""Two rows cost more than two passes of one row, eight a little less than eight."""


@settings(deadline=None)
@given(
    st.sampled_from([DEAR, CHEAP, STEEP]),
    st.lists(st.integers(0, 9), min_size=1, max_size=400),
    st.sampled_from([1, 4]),
)
def test_whatever_is_accepted_little_is_lost(alone: Costs, luck: list[int], company: int) -> None:
    """Against the worst of texts: 1.5 % of the cost, and that of one draft which fails, longer after a long repetition."""
    costs = replace(alone, together=range(1, 9))
    policy, cost, tokens, run, longest_run = LengthPolicy(costs, 9), 0.0, 0, 0, 0
    pays = next(n for n in range(1, 10) if costs.of(n) < (n + 1) * costs.of(0))
    plain = costs.of(0, company)
    for accepted in luck:
        k = policy.choose(9, 0, company)
        policy.observe(k, min(k, accepted), 0, company)
        cost, tokens = cost + costs.of(k, company), tokens + min(k, accepted) + 1
        allowed = costs.of(max(pays, 4)) - costs.of(0) + 0.3
        allowed += costs.of(min(longest_run, 9)) - costs.of(0) if longest_run >= 8 else 0.0
        run = 0 if accepted < k else run + k
        longest_run = max(run, longest_run)
        assert cost - tokens * plain <= 0.015 * cost + allowed


def test_what_company_leaves_nothing_of_is_not_drafted() -> None:
    """Two threads: eight answers together take half of the time of eight alone, and drafts of eight would take as much."""
    costs = Costs(RowCosts((6.0, 12.0, 16.0, 16.0, 21.0, 21.0, 25.0, 24.0)), together=range(1, 513))
    assert costs.of(0, 8) == 24 / 8

    def slower(seen: int) -> float:
        """What 300 tokens cost, of which a draft has two accepted, by what plain ones would; `seen`: the company that is told."""
        policy, cost, tokens = LengthPolicy(costs, 7), 0.0, 0
        while tokens < 300:
            k = policy.choose(7, 0, seen)
            policy.observe(k, min(k, 2), 0, seen)
            cost, tokens = cost + costs.of(k, 8), tokens + min(k, 2) + 1
        return cost / tokens / costs.of(0, 8)

    assert slower(8) < 1.05
    assert slower(1) > 1.15
    assert replace(costs, together=range(1, 3)).of(0, 8) == 6, "two rows cost as much as two passes"
    assert replace(costs, together=range(1, 5)).of(0, 8) == 16 / 4
    assert costs.of(7, 8) == 24 + (16 + 16) - 24 + 3, "three answers before it and four after it have a pass each"
    assert costs.of(7, 2) == 24, "the other one is read alone, as it was"


def test_what_cannot_pay_is_never_tried() -> None:
    policy = LengthPolicy(Costs(RowCosts((1.0, 2.6, 3.8, 4.2, 5.5)), 0.9), 4)
    for _ in range(500):
        assert policy.choose(4) == 0
        policy.observe(0, 0)
    assert LengthPolicy(STEEP, 3).choose(3) == 0


def test_a_text_that_repeats_itself_is_drafted_at_once() -> None:
    policy, tokens = LengthPolicy(STEEP, 7), 0
    lengths = []
    while tokens < 64:
        k = policy.choose(7)
        policy.observe(k, k)
        lengths.append(k)
        tokens += k + 1
    assert lengths[0] == 3
    assert min(lengths[1:]) >= 5
    assert lengths[-1] == 7


def test_a_long_repetition_is_drafted_in_long_pieces() -> None:
    costs = Costs(RowCosts(STEEP.target.rows, ((16, 12.5), (32, 24.5), (49, 37.0))))
    policy = LengthPolicy(costs, 48, lambda n: n < 8 or n in {15, 31, 48})
    lengths: list[int] = []
    while sum(lengths) + len(lengths) < 160:
        lengths.append(policy.choose(48))
        policy.observe(lengths[-1], lengths[-1])
    assert set(lengths) <= {*range(8), 15, 31, 48}
    assert lengths[-1] == 48
    assert len(lengths) <= 8
    policy.observe(48, 20)
    assert policy.choose(48) < 8


LONG = Costs(RowCosts(STEEP.target.rows, ((16, 12.5), (32, 24.5), (49, 37.0))))


def test_what_the_prompt_repeated_of_itself_makes_the_first_draft_long() -> None:
    said = [1, 2, 3, 4, 5, 6, 7] * 20

    def first(context: list[int]) -> int:
        drafter = NgramSimple(NgramLookup(size_n=3, size_m=48))
        paced = Paced(drafter, LengthPolicy(LONG, 48, lambda n: n < 8 or n in {15, 31, 48}), rehearses=drafter)
        return len(run_alone(paced.propose(context, 48, RngCoin(1))).tokens)

    assert first(said[:96]) == 15
    assert first(said) == 31
    assert first(said + said) == 48
    assert first([*said, 9, *said[:4]]) == 3
    assert first(said[:3]) == 0


def test_a_rehearsal_that_misleads_costs_one_draft() -> None:
    policy = LengthPolicy(LONG, 48)
    policy.rehearse(Scripted("a", (1,) * 48), [1] * 96, RngCoin(1))
    assert policy.choose(48) == 24
    policy.observe(24, 0)
    assert policy.choose(48) == 0


def test_what_the_drafter_has_to_catch_up_with_counts() -> None:
    policy = LengthPolicy(CHEAP, 16)
    assert policy.choose(16, behind=2) > 0
    assert policy.choose(16, behind=200) == 0


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
    assert a.expected(0) == [1]
    assert sorted(a.expected(3)) == a.expected(3)


def test_what_a_draft_costs_comes_to_its_rows() -> None:
    costs = Costs(RowCosts((1.0, 1.5, 3.0)), 0.25)
    assert [costs.of(k) for k in range(5)] == [1.0, 1.75, 3.5, 4.75, 6.0]
    with pytest.raises(ValueError, match="negative"):
        Costs(draft=-1.0)


def test_a_row_is_timed_with_a_clock() -> None:
    ticks = iter(range(1000))
    assert time_row(random_table(1), clock=lambda: float(next(ticks))) == 1.0


class Scripted:
    """Drafts what it is told to."""

    def __init__(self, name: str, *drafts: tuple[int, ...]) -> None:
        self.name = name
        self._drafts = list(drafts)
        self.seen: list[tuple[int, int]] = []
        self.closed = False

    @at_once
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
    first = run_alone(both.propose([0], 5, RngCoin(1)))
    assert (first.tokens, first.drafter) == ((3,), "b")
    both.observe([0, 3, 4], first, 1)
    second = run_alone(both.propose([0, 3, 4], 5, RngCoin(1)))
    both.observe([0, 3, 4, 1, 9], second, 1)
    both.observe([0, 3, 4, 1, 9, 8], NOTHING, 0)
    assert a.seen == [(0, 0), (2, 1), (0, 0)]
    assert b.seen == [(1, 1), (0, 0), (0, 0)]
    both.close()
    assert a.closed
    assert b.closed


def test_a_paced_drafter_is_asked_for_as_much_as_pays() -> None:
    paced = Paced(Scripted("a", (1,) * 9, (1,) * 9), LengthPolicy(CHEAP, 4))
    assert len(run_alone(paced.propose([0], 9, RngCoin(1))).tokens) == 4
    assert paced.name == "a"
    resting = Paced(Scripted("a"), LengthPolicy(STEEP, 3))
    assert run_alone(resting.propose([0], 9, RngCoin(1))) is NOTHING


def test_a_drafter_whose_drafts_cannot_pay_is_not_even_rehearsed() -> None:
    repeats = NgramSimple(NgramLookup(size_n=3, size_m=48))
    asked, rehearsed = Asked(repeats, looks_up=True), Asked(repeats, looks_up=True)
    paced = Paced(asked, LengthPolicy(STEEP, 6, lambda n: n < 5), rehearses=rehearsed)
    assert run_alone(paced.propose([1, 2, 3, 4, 5, 6, 7] * 20, 6, RngCoin(1))).tokens == ()
    assert (asked.was_asked, rehearsed.was_asked, paced.longest_refused) == (False, False, 6)
