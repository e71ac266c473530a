from __future__ import annotations

import itertools
from math import comb, log
from typing import Literal

import numpy as np
import pytest
from scipy.stats import multinomial, power_divergence

from draftproof.stats.goodness import (
    ENUMERABLE,
    compositions,
    exact,
    exact_pooled,
    goodness_of_fit,
    large_sample,
    monte_carlo,
    pool,
)

P = np.array([0.345, 0.452, 0.203])


def g(counts: tuple[int, ...], p: list[float]) -> float:
    return 2 * sum(k * log(k / (sum(counts) * q)) for k, q in zip(counts, p, strict=True) if k)


def test_exact_test_sums_scipys_probabilities() -> None:
    p, seen = [0.1, 0.2, 0.7], (3, 2, 4)
    outcomes = [o for o in itertools.product(range(10), repeat=3) if sum(o) == 9]
    by_hand = sum(multinomial.pmf(o, 9, p) for o in outcomes if g(o, p) >= g(seen, p) - 1e-9)
    assert exact(seen, p).p_value == pytest.approx(by_hand)


def test_exact_test_never_rejects_too_often() -> None:
    outcomes = compositions(12, [12, 12, 12]).astype(int)
    chances = multinomial.pmf(outcomes, 12, P)
    p_values = np.array([exact(o, P).p_value for o in outcomes])
    for level in (0.001, 0.01, 0.05, 0.3):
        assert chances[p_values <= level].sum() <= level + 1e-12


def test_monte_carlo_agrees_with_the_exact_test() -> None:
    """Standard deviation .003 at 9999 trials: five of them are passed with probability 6e-7."""
    seen = (10, 22, 8)
    simulated = monte_carlo(seen, P, np.random.default_rng(1))
    assert simulated.p_value == pytest.approx(exact(seen, P).p_value, abs=0.016)


def test_monte_carlo_p_value_is_never_zero() -> None:
    assert monte_carlo([0, 0, 500], P, np.random.default_rng(1), trials=99).p_value == 0.01


@pytest.mark.parametrize(("statistic", "theirs"), [("G", "log-likelihood"), ("chi-square", "pearson")])
def test_large_sample_tests_equal_scipy(
    statistic: Literal["G", "chi-square"], theirs: Literal["log-likelihood", "pearson"]
) -> None:
    seen = np.array([130, 180, 90])
    mine = large_sample(seen, P, statistic)
    result = power_divergence(seen.tolist(), (P * 400).tolist(), lambda_=theirs)
    assert mine.statistic == pytest.approx(result.statistic)
    assert mine.p_value == pytest.approx(result.pvalue)


def test_small_cells_are_pooled() -> None:
    p = np.array([0.5, 0.4, 0.06, 0.02, 0.01, 0.01])
    seen = np.array([52, 36, 7, 3, 1, 1])
    merged = power_divergence([52, 36, 12], [50, 40, 10], lambda_="log-likelihood")
    result = large_sample(seen, p)
    assert result.p_value == pytest.approx(merged.pvalue)
    assert "3 cells" in result.method


def test_one_cell_left_says_nothing() -> None:
    assert large_sample([3, 1], [0.7, 0.3]).p_value == 1


@pytest.mark.parametrize("test", [exact, exact_pooled, large_sample])
def test_an_impossible_count_is_refuted_outright(test: type) -> None:
    assert test([5, 4, 1], [0.5, 0.5, 0.0]).p_value == 0


@pytest.mark.parametrize("n", [64, 200])
def test_pooled_test_never_rejects_too_often(n: int) -> None:
    """Twenty tokens and a rest: as many of the likeliest cells stand alone as can be enumerated, whatever was seen."""
    law = np.append(np.full(20, 0.01), 0.8)
    law[:3] = 0.07
    law /= law.sum()
    result = exact_pooled(np.bincount([0] * n, minlength=21), law)
    cells = int(result.method.split()[-2])
    assert comb(n + cells - 1, cells - 1) <= ENUMERABLE < comb(n + cells, cells)
    rng = np.random.default_rng(n)
    p_values = np.array([exact_pooled(rng.multinomial(n, law), law).p_value for _ in range(100)])
    assert (p_values <= 0.1).sum() <= 22  # 10 expected at most; more than 22 come with probability 1e-4


def test_pooled_cells_are_the_least_likely() -> None:
    law = np.append(np.full(20, 0.01), [0.5, 0.3])
    seen = [1] * 20 + [100, 60]
    assert exact_pooled(seen, law).p_value == pytest.approx(exact([100, 60, 20], [0.5, 0.3, 0.2]).p_value)
    assert exact_pooled([3, 4, 5], P).p_value == pytest.approx(exact([3, 4, 5], P).p_value)


def test_choice_of_method() -> None:
    assert "exact" in goodness_of_fit([3, 4, 5], P).method
    wide = np.ones(40) / 40
    assert "exact" in goodness_of_fit(np.full(40, 10), wide).method
    assert "Monte-Carlo" in goodness_of_fit(np.full(40, 10), wide, np.random.default_rng(1)).method


def test_too_many_outcomes_are_refused() -> None:
    with pytest.raises(ValueError, match="Monte-Carlo"):
        exact(np.full(12, 10), np.ones(12) / 12)


@pytest.mark.parametrize(
    ("counts", "p"), [([1, 2], [1.0]), ([[1]], [[1.0]]), ([1, 2], [0.5, 0.6]), ([-1, 2], [0.5, 0.5])]
)
def test_bad_input_is_refused(counts: list[int], p: list[float]) -> None:
    with pytest.raises(ValueError, match="counts"):
        goodness_of_fit(counts, p)


def test_result_carries_its_inputs() -> None:
    result = exact([3, 4, 5], P)
    assert result.counts == (3, 4, 5)
    assert result.law == tuple(P)
    assert result.statement("seeds 1..12").n == 12
    assert result.statement("seeds 1..12").values["p_value"] == result.p_value


def test_compositions_respect_their_limits() -> None:
    rows = compositions(4, [2, 1, 3])
    by_hand = [o for o in itertools.product(range(3), range(2), range(4)) if sum(o) == 4]
    assert sorted(map(tuple, rows.astype(int).tolist())) == sorted(by_hand)


def test_pooled_is_exact_with_as_many_cells_as_can_be_enumerated() -> None:
    """The likeliest cells stand alone, the others are one."""
    p = np.array([0.05, 0.4, 0.3, 0.2, 0.05])
    few = [2, 3, 4, 5, 1]
    assert exact_pooled(few, p).p_value == pytest.approx(exact(few, p).p_value)
    many = [8, 60, 66, 40, 26]
    assert exact_pooled(many, p).p_value == pytest.approx(exact([60, 66, 74], [0.4, 0.3, 0.3]).p_value)
    assert "3 cells" in exact_pooled(many, p).method
    hundreds = [80, 600, 660, 400, 260]
    assert exact_pooled(hundreds, p).p_value == pytest.approx(exact([600, 1400], [0.4, 0.6]).p_value)
    assert "2 cells" in exact_pooled(hundreds, p).method


def test_a_token_that_cannot_come_is_refuted_at_once_and_one_that_can_is_not() -> None:
    for test in (exact_pooled, large_sample):
        assert test([5, 4, 1], [0.5, 0.5, 0.0]).p_value == 0.0
        assert test([5, 5, 0], [0.5, 0.5, 0.0]).p_value > 0.5
        assert test([5, 4, 1], [0.5, 0.4999999, 1e-7]).p_value > 0.0


def test_outcomes_are_enumerable_up_to_the_limit() -> None:
    """3 cells hold n in (n + 2)(n + 1)/2 ways: 631 draws are the most."""
    assert 633 * 632 // 2 > ENUMERABLE >= 632 * 631 // 2
    law = [0.5, 0.3, 0.2]
    assert "3 cells" in exact_pooled([300, 200, 130], law).method
    assert "2 cells" in exact_pooled([301, 200, 130], law).method


def test_two_cells_are_enough_for_the_large_sample() -> None:
    mine = large_sample([60, 40], [0.5, 0.5])
    assert mine.p_value == pytest.approx(power_divergence([60, 40], [50, 50], lambda_="log-likelihood").pvalue)


def test_small_cells_are_merged_until_they_are_large_enough() -> None:
    def pooled(*expected: float) -> list[float]:
        return sorted(pool(np.ones(len(expected)), np.array(expected), 5.0)[1].tolist())

    assert pooled(10, 20, 30) == [10, 20, 30]
    assert pooled(5, 20, 30) == [5, 20, 30]
    assert pooled(3, 2, 20) == [5, 20]
    assert pooled(3, 1, 20, 30) == [24, 30]
    assert pooled(1, 20, 30) == [21, 30]
    assert pooled(3, 1) == [4]
    assert pooled(0, 10, 20) == [10, 20]
    assert pooled(0, 2, 2) == [4]


@pytest.mark.parametrize("n", [1, 5, 20])
def test_counts_that_are_just_as_expected_are_no_evidence(n: int) -> None:
    for result in (
        exact([n, n], [0.5, 0.5]),
        monte_carlo([n, n], [0.5, 0.5], np.random.default_rng(1), trials=99),
        exact([n, 2 * n, n], [0.25, 0.5, 0.25]),
    ):
        assert result.p_value == pytest.approx(1.0)
        assert result.p_value <= 1.0
