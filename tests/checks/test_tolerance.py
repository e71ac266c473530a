from __future__ import annotations

import pytest

from draftproof.checks.tolerance import exceeded, tolerances, too_noisy


@pytest.mark.parametrize(("noise", "most", "every"), [(0.0, 0.01, 0.05), (0.001, 0.01, 0.05), (0.1, 0.8, 2.0)])
def test_the_tolerances_grow_with_the_noise(noise: float, most: float, every: float) -> None:
    assert tolerances(noise) == pytest.approx((most, every))


@pytest.mark.parametrize(
    ("differences", "limit"),
    [
        ([], 0.0),
        ([0.01, -0.01], 0.0),
        ([0.04], 0.0),  # one may always pass the smaller
        ([0.04, -0.04], 0.01),
        ([-0.06], 0.05),
        ([0.02] * 2 + [0.0] * 198, 0.0),
        ([0.02] * 3 + [0.0] * 197, 0.01),
    ],
)
def test_one_in_a_hundred_may_pass_the_smaller_tolerance_and_none_the_larger(
    differences: list[float], limit: float
) -> None:
    assert exceeded(differences, 0.0) == limit


def test_noise_hides_nothing_where_the_differences_are_small() -> None:
    assert not too_noisy([0.001] * 50, 0.5)
    assert too_noisy([0.001] * 50 + [0.2], 0.5)
    assert not too_noisy([0.2], 0.05)
