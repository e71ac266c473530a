from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from scipy.stats import entropy

from draftproof.stats.coupling import coupling_bound
from draftproof.stats.equivalence import tv_upper
from draftproof.stats.planning import (
    detectable,
    divergence,
    draws_to_certify,
    still_missing,
    tokens_to_couple,
    tokens_to_detect,
)

P = np.array([0.345, 0.452, 0.203])


def test_divergence_equals_scipy() -> None:
    r = np.array([0.5, 0.3, 0.2])
    assert divergence(r, P) == pytest.approx(entropy(r, P))
    assert divergence(np.stack([r, P]), np.stack([P, P])) == pytest.approx(entropy(r, P) / 2)
    assert divergence([0.5, 0.5], [1.0, 0.0]) == inf
    assert divergence([1.0, 0.0], [0.5, 0.5]) == pytest.approx(log(2))


def test_tokens_to_detect() -> None:
    assert tokens_to_detect(0.061, 1e-6) / 15 == pytest.approx(19.5, abs=0.1)
    assert tokens_to_detect(0.0, 1e-6) == inf
    assert detectable(0.06, 0.12, 0.1)
    assert not detectable(0.5, 4.0, 0.25), "what the guard costs must be below what the rule shows"
    assert not detectable(0.0003, 0.0006, 0.1)


@pytest.mark.parametrize(("eps", "error", "n"), [(0.05, 0.05, 1503), (0.02, 0.05, 9023), (0.05, 0.001, 2638)])
def test_draws_to_certify_three_cells(eps: float, error: float, n: int) -> None:
    assert draws_to_certify(P, eps, error) == pytest.approx(n, rel=0.08)


def test_planned_draws_do_certify() -> None:
    """300 samples at the planned n: 95 % should certify; 87 % or fewer have probability 4e-8."""
    rng = np.random.default_rng(1)
    n = draws_to_certify(P, 0.05, 0.01)
    certified = sum(tv_upper(c, P, 0.01).bound <= 0.05 for c in rng.multinomial(n, P, size=300))
    assert certified > 261


@pytest.mark.parametrize("law", [[0.97, 0.02, 0.01], [0.56, 0.33, 0.11], [0.5, 0.2, 0.1, 0.1, 0.05, 0.05]])
def test_planned_draws_are_no_more_than_it_takes(law: list[float]) -> None:
    """300 samples at the planned n and at 3/5 of it: fewer than 262 of 95 % have probability 4e-8."""
    rng, n = np.random.default_rng(2), draws_to_certify(law, 0.02, 0.01)
    most, few = (
        sum(tv_upper(c, law, 0.01).bound <= 0.02 for c in rng.multinomial(size, law, size=300))
        for size in (n, 3 * n // 5)
    )
    assert few < 262 <= most


def test_more_than_twelve_cells_ask_for_a_little_more() -> None:
    twelve, thirteen = (draws_to_certify(np.ones(cells) / cells, 0.05, 0.05) for cells in (12, 13))
    assert twelve < thirteen < 1.1 * twelve


def test_tokens_to_couple() -> None:
    n = tokens_to_couple(0.001, 0.001)
    assert coupling_bound(0, n, 0.001, fixed_n=True).bound <= 0.001
    assert coupling_bound(0, n - 1, 0.001, fixed_n=True).bound > 0.001


def test_the_samples_still_missing_are_the_least_that_do() -> None:
    for wanted in range(2, 100):
        assert still_missing(lambda n: 1 / n, 1, 1 / wanted) == wanted - 1
    assert still_missing(lambda n: 1 / n, 100, 1 / 100) == 0
    assert still_missing(lambda n: 1 / (n + 1), 0, 1 / 2) == 1


def test_no_more_than_the_most_are_asked_for() -> None:
    for most in (128, 129, 150, 1000):
        assert still_missing(lambda n: 1 / n, 1, 1 / 128, most=most) == 127
        assert still_missing(lambda n: 1 / n, 100, 1 / 128, most=most) == 28
    assert still_missing(lambda n: 1 / n, 1, 1 / 128, most=127) is None
    assert still_missing(lambda n: 1 / n, 100, 1 / 128, most=127) is None
    assert still_missing(lambda n: 1 / n, 127, 1 / 128, most=100) is None
    assert still_missing(lambda n: 1 / n, 40, 1 / 130, most=100) is None


def test_samples_still_missing() -> None:
    more = still_missing(lambda n: coupling_bound(0, n, 0.001).bound, 1000, 0.001)
    assert more is not None
    assert coupling_bound(0, 1000 + more, 0.001).bound <= 0.001
    assert coupling_bound(0, 1000 + int(0.95 * more) - 100, 0.001).bound > 0.001
    assert still_missing(lambda _: 0.0, 5, 0.1) == 0
    assert still_missing(lambda _: 1.0, 0, 0.1, most=10_000) is None


@pytest.mark.parametrize("eps", [0.0, 1.0])
def test_bad_targets_are_refused(eps: float) -> None:
    with pytest.raises(ValueError, match="eps"):
        draws_to_certify(P, eps, 0.05)
    with pytest.raises(ValueError, match="eps"):
        tokens_to_couple(eps, 0.05)
