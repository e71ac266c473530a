from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2_contingency, fisher_exact, hypergeom

from draftproof.stats.twosample import exact, large_sample, permutation


@pytest.mark.parametrize(
    ("first", "second"), [([8, 2], [1, 9]), ([3, 3], [2, 4]), ([0, 7], [7, 0]), ([12, 1], [11, 30])]
)
def test_exact_equals_fisher(first: list[int], second: list[int]) -> None:
    assert exact(first, second).p_value == pytest.approx(fisher_exact(np.array([first, second])).pvalue)


def test_exact_never_rejects_too_often() -> None:
    """Both samples of one law, 2000 pairs, each p-value exact: at 5 % more than 150 rejections have probability 4e-7."""
    rng = np.random.default_rng(1)
    pairs = rng.multinomial(9, [0.5, 0.3, 0.2], size=(2000, 2))
    assert sum(exact(a, b).p_value <= 0.05 for a, b in pairs) <= 150


def test_permutation_agrees_with_the_large_sample_test() -> None:
    """Standard deviation .0046 at 9999 trials and p = .3: five of them plus the limit's own error."""
    first, second = [[130, 90, 80], [40, 60, 50]], [[120, 110, 70], [55, 50, 45]]
    simulated = permutation(first, second, np.random.default_rng(1))
    assert simulated.p_value == pytest.approx(large_sample(first, second).p_value, abs=0.03)


def test_permutation_of_a_small_table_is_near_exact() -> None:
    simulated = permutation([8, 2], [1, 9], np.random.default_rng(2)).p_value
    assert simulated == pytest.approx(exact([8, 2], [1, 9]).p_value, abs=0.004)


def test_permutation_p_value_is_never_zero() -> None:
    assert permutation([90, 0], [0, 90], np.random.default_rng(1), trials=99).p_value == 0.01


def test_large_sample_equals_scipy() -> None:
    table = np.array([[80, 20, 30], [50, 39, 44]])
    theirs = chi2_contingency(table, lambda_="log-likelihood")
    mine = large_sample(table[0], table[1])
    assert mine.statistic == pytest.approx(theirs.statistic)
    assert mine.p_value == pytest.approx(theirs.pvalue)


def test_contexts_add_up() -> None:
    tables = np.random.default_rng(3).integers(20, 60, size=(3, 2, 4))
    theirs = [chi2_contingency(t, lambda_="log-likelihood") for t in tables]
    mine = large_sample(tables[:, 0], tables[:, 1])
    assert mine.statistic == pytest.approx(sum(t.statistic for t in theirs))
    assert "9 degrees" in mine.method


def test_the_statistic_of_the_exact_test_is_minus_the_log_of_the_splits_probability() -> None:
    assert exact([8, 2], [1, 9]).statistic == pytest.approx(-hypergeom(20, 9, 10).logpmf(8))


def test_a_p_value_is_never_above_one() -> None:
    tables = [
        ([a, b], [c, d]) for a in range(4) for b in range(4) for c in range(4) for d in range(4) if a + b and c + d
    ]
    assert all(exact(first, second).p_value <= 1.0 for first, second in tables)


def test_nearly_equal_samples_have_nearly_no_statistic() -> None:
    table = np.array([[50, 30, 20], [51, 29, 20]])
    theirs = chi2_contingency(table, lambda_="log-likelihood")
    assert large_sample(table[0], table[1]).statistic == pytest.approx(theirs.statistic)


def test_two_cells_are_enough() -> None:
    table = np.array([[60, 40], [45, 55]])
    theirs = chi2_contingency(table, lambda_="log-likelihood", correction=False)
    assert large_sample(table[0], table[1]).p_value == pytest.approx(theirs.pvalue)


def test_cells_are_pooled_where_the_smaller_sample_expects_few() -> None:
    """Of 100 and 900, cells of 40 and 45 in all are expected 4 and 4.5 times in the smaller sample: they become one."""
    first, second = np.array([60, 32, 2, 6]), np.array([540, 283, 38, 39])
    pooled = np.array([[60, 32, 8], [540, 283, 77]])
    theirs = chi2_contingency(pooled, lambda_="log-likelihood")
    mine = large_sample(first, second)
    assert mine.statistic == pytest.approx(theirs.statistic)
    assert mine.p_value == pytest.approx(theirs.pvalue)
    assert large_sample(second, first).p_value == pytest.approx(theirs.pvalue)


def test_an_empty_context_beside_one_that_tells_changes_nothing() -> None:
    alone = large_sample([[60, 40]], [[45, 55]])
    beside = large_sample([[60, 40], [0, 0], [30, 30]], [[45, 55], [0, 0], [0, 0]])
    assert (beside.statistic, beside.p_value) == (alone.statistic, alone.p_value)


def test_contexts_that_tell_nothing() -> None:
    assert large_sample([[3, 4], [0, 0]], [[0, 0], [5, 5]]).p_value == 1
    assert permutation([3, 4], [0, 0], np.random.default_rng(1), trials=99).p_value == 1


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="counts have shapes"):
        large_sample([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="counts have shapes"):
        large_sample([[[1, 2]]], [[[1, 2]]])
    with pytest.raises(ValueError, match="nonnegative"):
        large_sample([1, -2], [1, 2])
    with pytest.raises(ValueError, match="one context"):
        exact([[1, 2], [3, 4]], [[1, 2], [3, 4]])


def test_result_carries_its_inputs() -> None:
    result = exact([8, 2], [1, 9])
    assert (result.first, result.second, result.n) == ((8, 2), (1, 9), 20)
    assert result.statement("speculation on and off").error_probability == result.p_value
