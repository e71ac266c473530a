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
