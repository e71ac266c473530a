from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.core.distribution import Law
from draftproof.stats.bets import Bets
from draftproof.stats.blocks import FIRST_PLACE, LENGTHS, RESTART, BlockBets, Relative
from draftproof.stats.faults import FAULTS, Needs
from draftproof.stats.learners import Rows
from draftproof.stats.verification import Step


def chain(n: int, vocabulary: int, rng: np.random.Generator, zeros: bool = False) -> Rows:
    """Two answers, one after the other, tokens drawn from q so that the bets have something to learn."""
    p, q, tops = rng.dirichlet(np.ones(vocabulary), size=(3, n))
    if zeros:
        p[:, 0] = 0
        p /= p.sum(axis=1, keepdims=True)
        q[::2, 1] = 0
        q /= q.sum(axis=1, keepdims=True)
    x = np.array([rng.choice(np.flatnonzero(law)) for law in p])
    half = n // 2
    contexts = [(9, *x[:i].tolist()) for i in range(half)] + [(9, *x[half:i].tolist()) for i in range(half, n)]
    return Rows(p, x, q, np.clip(3 * tops, 0, 1), contexts, np.zeros(n, dtype=np.int64))


def expected_factors(bets: Bets, rows: Rows, truth: Law) -> Law:
    """float64[bets]: E of each factor of the next token (the last row's), over every value it may take."""
    vocabulary = rows.p.shape[1]
    out = np.zeros(len(bets.bets))
    last = len(rows) - 1
    for x in np.flatnonzero(rows.p[last]).tolist():
        branch = copy.deepcopy(bets)
        token = rows.x.copy()
        token[last] = x
        logs = branch.factors(Rows(rows.p, token, rows.q, rows.next_top, rows.contexts, rows.streams)).logs[last]
        out += truth[x] * np.exp(logs)
    assert vocabulary == len(truth)
    return out


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 6), st.booleans(), st.booleans())
def test_every_bet_is_a_martingale(seed: int, vocabulary: int, draft_known: bool, split: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = chain(12, vocabulary, rng)
    if not draft_known:
        rows = Rows(rows.p, rows.x, None, None, rows.contexts, rows.streams)
    bets = Bets(vocabulary, draft_known, 0.0, FAULTS)
    if split:
        bets.factors(chain(8, vocabulary, rng) if draft_known else rows)
    np.testing.assert_allclose(expected_factors(bets, rows, rows.p[-1]), 1.0, atol=1e-9)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_impossible_tokens_only_lower_the_expectation(seed: int) -> None:
    rows = chain(12, 5, np.random.default_rng(seed), zeros=True)
    assert (expected_factors(Bets(5, True, 0.0, FAULTS), rows, rows.p[-1]) <= 1 + 1e-9).all()


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from([0.01, 0.05]))
def test_the_guard_holds_for_any_law_within_the_noise(seed: int, noise: float) -> None:
    """To first order in nu: what is left is of order nu squared times the bet's largest factor."""
    rng = np.random.default_rng(seed)
    rows = chain(12, 5, rng)
    p = rows.p[-1]
    error = rng.standard_normal(5)
    truth = p * np.exp(noise * error / np.sqrt((p * error**2).sum()))
    truth /= truth.sum()
    bets = Bets(5, True, noise, FAULTS)
    size = expected_factors(Bets(5, True, 0.0, FAULTS), rows, p / p) / 5
    assert (expected_factors(bets, rows, truth) <= 1 + 4 * noise**2 * np.maximum(size, 1)).all()


def test_weights_are_half_named_and_half_learned() -> None:
    bets = Bets(8, True, 0.0, FAULTS)
    named = np.array([bool(b.fault) for b in bets.bets])
    weights = np.exp(bets.log_weights)
    assert weights.sum() == pytest.approx(1)
    assert weights[named].sum() == pytest.approx(0.5)
    each = {f.name: sum(w for w, b in zip(weights, bets.bets, strict=True) if b.fault == f.name) for f in FAULTS}
    np.testing.assert_allclose(list(each.values()), 0.5 / len(FAULTS))


def test_without_a_draft_only_rules_of_the_target_are_bet_on() -> None:
    bets = Bets(8, False, 0.0, FAULTS)
    assert {f.needs for f in bets.faults} == {Needs.TARGET}
    assert not any(b.block for b in bets.bets)


def test_without_rules_the_learners_bet_alone() -> None:
    rows = chain(10, 4, np.random.default_rng(1))
    factors = Bets(4, True, 0.0, ()).factors(rows)
    assert factors.ratios.shape == (10, 0)
    assert np.isfinite(factors.logs).all()


def test_rules_that_look_ahead_rest_where_they_cannot() -> None:
    rows = chain(10, 4, np.random.default_rng(1))
    blind = Rows(rows.p, rows.x, rows.q, None, rows.contexts, rows.streams)
    ahead = [f for f in FAULTS if f.needs is Needs.LOOKAHEAD]
    bets = Bets(4, True, 0.0, ahead)
    named = [bool(b.fault) for b in bets.bets]
    np.testing.assert_allclose(bets.factors(blind).logs[:, named], 0.0, atol=1e-12)


def test_repeated_contexts_of_a_large_vocabulary_are_computed_once_and_alike() -> None:
    rng = np.random.default_rng(2)
    laws = rng.dirichlet(np.ones(80), size=(2, 3))
    which = rng.integers(0, 3, size=30)
    x = rng.integers(0, 80, size=30)
    rows = Rows(laws[0][which], x, laws[1][which], None, [(int(w),) for w in which], np.zeros(30, dtype=np.int64))
    apart = Rows(rows.p, x, rows.q, None, [(i,) for i in range(30)], rows.streams)
    once, each = (Bets(80, True, 0.02, FAULTS).factors(r) for r in (rows, apart))
    np.testing.assert_allclose(once.ratios, each.ratios)
    np.testing.assert_allclose(once.chi2, each.chi2)
    lying = Rows(rows.p, x, rows.q, None, [(0,)] * 30, rows.streams)
    np.testing.assert_allclose(Bets(80, True, 0.0, FAULTS).factors(lying).ratios, each.ratios)


@pytest.mark.parametrize(("vocabulary", "noise"), [(1, 0.0), (8, -0.1), (8, float("nan"))])
def test_bad_settings_are_refused(vocabulary: int, noise: float) -> None:
    with pytest.raises(ValueError, match=r"vocabulary|noise"):
        Bets(vocabulary, True, noise, FAULTS)


def by_hand(length: int, accepted: Law, instead: Law) -> list[float]:
    """Forward filter of one rule with one K, place by place."""
    opening = [FIRST_PLACE] + [(1 - FIRST_PLACE) / length] * length
    places, out = opening, []
    for a, b in zip(accepted.tolist(), instead.tolist(), strict=True):
        new = [0.0] * (length + 1)
        for i, weight in enumerate(places):
            if i == length:
                new[0] += weight
            else:
                new[i + 1] += weight * a
                new[0] += weight * b
        total = sum(new)
        out.append(total)
        places = [(1 - RESTART) * w / total for w in new] if total > 0 else opening
        places = [places[0] + RESTART * (total > 0), *places[1:]]
    return out


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 7]])
def test_places_in_the_block_follow_the_forward_filter(cuts: list[int]) -> None:
    rng = np.random.default_rng(3)
    n = 10
    accepted, instead = rng.random((2, n, 2))
    accepted[4], instead[4] = 0, [[0.0], [0.5]][0] + [0.5]
    x = rng.integers(0, 3, size=n)
    contexts = [tuple(x[:i].tolist()) for i in range(n)]
    bets = BlockBets(2)
    parts = []
    for start, end in zip([0, *cuts], [*cuts, n], strict=True):
        part = slice(start, end)
        rows = Rows(
            np.ones((end - start, 3)) / 3, x[part], None, None, contexts[part], np.zeros(end - start, dtype=np.int64)
        )
        relative = Relative(accepted[part], instead[part], accepted[part], instead[part])
        parts.append(bets.factors(rows, relative)[0])
    factor = np.concatenate(parts)
    for rule in range(2):
        for k, length in enumerate(LENGTHS):
            np.testing.assert_allclose(factor[:, rule, k], by_hand(length, accepted[:, rule], instead[:, rule]))


def test_an_answer_that_begins_anew_begins_a_block() -> None:
    bets = BlockBets(1)
    always = np.ones((4, 1))
    rows = Rows(
        np.ones((4, 2)) / 2,
        np.zeros(4, dtype=np.int64),
        None,
        None,
        [(0,), (0, 0), (0,), (0, 0)],
        np.zeros(4, dtype=np.int64),
    )
    factor, ruled = bets.factors(rows, Relative(2 * always, 0 * always, 2 * always, 0 * always))
    np.testing.assert_allclose(factor[:2], factor[2:])
    np.testing.assert_allclose(ruled[0, 0], [1 - (1 - FIRST_PLACE) / k for k in LENGTHS])


def lone_row(x: int, p: Law, q: Law, ahead: Law | None) -> Rows:
    next_top = None if ahead is None else ahead[None]
    return Rows(p[None], np.array([x]), q[None], next_top, [(1, 2)], np.array([0]))


def test_each_factor_is_a_law_over_p_less_what_noise_may_give_it() -> None:
    """For the bets on a share of a rule's tokens, and for those that learn: chi2 is that of the bet against p."""
    rng = np.random.default_rng(4)
    p, q, ahead = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5)), rng.uniform(0.3, 1.0, 5)

    def logs(noise: float) -> Law:
        return np.array([Bets(5, True, noise, FAULTS).factors(lone_row(x, p, q, ahead)).logs[0] for x in range(5)])

    fair, guarded = np.exp(logs(0.0)), np.exp(logs(0.1))
    np.testing.assert_allclose(p @ fair, 1.0)
    chi2 = np.maximum(p @ fair**2 - 1, 0.0)
    blocks = np.array([bet.block > 0 for bet in Bets(5, True, 0.0, FAULTS).bets])
    expected = fair / (1 + 0.1 * np.sqrt(chi2))
    np.testing.assert_allclose(guarded[:, ~blocks], expected[:, ~blocks], atol=1e-7)
    assert (guarded[:, blocks] <= expected[:, blocks] * (1 + 1e-9)).all()
    np.testing.assert_allclose(np.exp(Bets(5, True, 0.0, FAULTS).log_weights).sum(), 1.0)


def test_rules_that_need_no_look_ahead_are_bet_on_without_one() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    bets = Bets(3, True, 0.0, FAULTS)
    ratios = bets.factors(lone_row(0, p, q, None)).ratios[0]
    for ratio, fault in zip(ratios, bets.faults, strict=True):
        needs_more = fault.needs is Needs.LOOKAHEAD
        assert ratio == pytest.approx(1.0 if needs_more else fault.law(Step(p, q))[0] / p[0]), fault.name


@pytest.mark.parametrize("vocabulary", [63, 64, 65])
@pytest.mark.parametrize("same", [True, False])
def test_rows_after_the_same_tokens_count_each_with_its_own_law(vocabulary: int, same: bool) -> None:
    rng = np.random.default_rng(8)
    p, q = rng.dirichlet(np.ones(vocabulary), size=(2, 3))
    if same:
        p[1], q[1] = p[0], q[0]
    contexts: list[tuple[int, ...]] = [(1,), (1,), (2,)]
    x = np.array([5, 7, 9])
    together = Bets(vocabulary, True, 0.1, FAULTS).factors(Rows(p, x, q, None, contexts, np.zeros(3, dtype=np.int64)))
    for i in range(3):
        row = Rows(p[i : i + 1], x[i : i + 1], q[i : i + 1], None, contexts[i : i + 1], np.zeros(1, dtype=np.int64))
        alone = Bets(vocabulary, True, 0.1, FAULTS).factors(row)
        np.testing.assert_allclose(together.ratios[i], alone.ratios[0])
        np.testing.assert_allclose(together.chi2[i], alone.chi2[0])
