from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from draftproof.stats.coupling import compare, coupling_bound


def test_no_mismatch_falls_as_one_over_n() -> None:
    assert coupling_bound(0, 6000, 0.05).bound == pytest.approx(0.0005, rel=0.05)
    assert coupling_bound(0, 6000, 0.001).bound == pytest.approx(0.00115, rel=0.02)
    assert coupling_bound(0, 60_000, 0.001).bound == pytest.approx(1.15e-4, rel=0.02)


def test_fixed_n_is_clopper_pearson() -> None:
    theirs = binomtest(3, 500).proportion_ci(1 - 2 * 0.01, "exact").high
    assert coupling_bound(3, 500, 0.01, fixed_n=True).bound == pytest.approx(theirs)


def test_bound_holds_when_answers_end_at_their_first_mismatch() -> None:
    """1000 audits at 5 % that stop at their second mismatch or after 40 answers: more than 86 misses have probability 1e-6."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(1000):
        rate, mismatches, n = 0.004, 0, 0
        for _ in range(40):
            first = rng.geometric(rate)
            mismatches += first <= 16
            n += min(int(first), 16)
            if mismatches == 2:
                break
        missed += coupling_bound(mismatches, n, 0.05).bound < rate
    assert missed <= 86


def test_nothing_compared_bounds_nothing() -> None:
    assert coupling_bound(0, 0, 0.05).bound == 1


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="counts must lie"):
        coupling_bound(5, 4, 0.05)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], (0, 3)),
        ([1, 2, 3], [1, 9, 3], (1, 2)),
        ([1, 2], [1, 2, 3], (1, 3)),
        ([], [], (0, 0)),
        ([], [4], (1, 1)),
    ],
)
def test_answers_are_compared_up_to_their_first_mismatch(
    first: list[int], second: list[int], expected: tuple[int, int]
) -> None:
    assert compare(first, second) == expected


def test_statement_names_both_conditions() -> None:
    said = coupling_bound(1, 400, 0.001).statement("speculation on and off")
    assert "1 of 400 tokens differ between speculation on and off" in said.text
    assert said.error_probability == 0.001
    assert said.values["mismatches"] == 1
