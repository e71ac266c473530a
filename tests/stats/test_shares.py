from __future__ import annotations

import numpy as np
import pytest

from draftproof.stats.shares import share_upper_bound

P = np.array([0.345, 0.452, 0.203])
R = np.array([0.433, 0.365, 0.202])
ERROR = 0.001


def test_bound_is_where_the_likelihood_ratio_refutes() -> None:
    ratios = (R / P)[np.random.default_rng(1).choice(3, size=5000, p=P)]
    eps = share_upper_bound(ratios, ERROR)
    assert 0 < eps < 1
    assert np.log((1 - eps) + eps * ratios).sum() == pytest.approx(np.log(ERROR), abs=1e-4)


def test_bound_falls_with_more_tokens() -> None:
    ratios = (R / P)[np.random.default_rng(2).choice(3, size=60_000, p=P)]
    bounds = [share_upper_bound(ratios[:n], ERROR) for n in (10, 5000, 60_000)]
    assert bounds[0] == 1
    assert bounds[0] > bounds[1] > bounds[2] > 0


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_bound_covers_the_true_share_at_every_moment(share: float) -> None:
    """400 audits at 5 %, watched after every 40 tokens: a rate of exactly 5 % exceeds 43 with probability 1e-6."""
    rng = np.random.default_rng(3)
    law = (1 - share) * P + share * np.array([1.0, 0.0, 0.0])
    rule = np.array([1.0, 0.0, 0.0]) / P
    missed = 0
    for x in rng.choice(3, size=(400, 400), p=law):
        missed += any(share_upper_bound(rule[x[:n]], 0.05) < share - 1e-9 for n in range(40, 401, 40))
    assert missed <= 43


def test_bound_covers_when_the_share_varies_above_it() -> None:
    """Share .3 or .9 by turns of the past: the bound must stay above .3. 400 audits at 5 %, more than 43 have probability 1e-6."""
    rng = np.random.default_rng(4)
    rule = np.array([0.8, 0.1, 0.1])
    missed = 0
    for _ in range(400):
        ratios, share = [], 0.3
        for _ in range(100):
            x = rng.choice(3, p=(1 - share) * P + share * rule)
            ratios.append(rule[x] / P[x])
            share = 0.9 if x == 0 else 0.3
        missed += share_upper_bound(np.array(ratios), 0.05) < 0.3
    assert missed <= 43


def test_nothing_seen_bounds_nothing() -> None:
    assert share_upper_bound(np.zeros(0), ERROR) == 1
    assert share_upper_bound(np.zeros(0), ERROR, noise=0.1) == 1


def test_a_rule_that_never_could_is_bounded_at_once() -> None:
    assert share_upper_bound(np.zeros(100), ERROR) == pytest.approx(1 - ERROR ** (1 / 100), rel=1e-3)
    assert share_upper_bound(np.zeros(1), ERROR) == pytest.approx(1 - ERROR, abs=1e-6)


def test_one_token_that_the_rule_cannot_draw_refutes_nothing_at_a_tiny_error() -> None:
    for error in (1e-13, 6e-13):
        assert share_upper_bound(np.zeros(1), error) == 1.0


@pytest.mark.parametrize(("n", "noise"), [(4_000, 0.01), (20_000, 0.02), (20_000, 0.05)])
def test_the_bound_under_noise_is_where_the_guarded_ratio_refutes(n: int, noise: float) -> None:
    rule = np.array([0.8, 0.1, 0.1])
    ratios = (rule / P)[np.random.default_rng(6).choice(3, size=n, p=P)]
    root_chi2 = n * float(np.sqrt(((rule - P) ** 2 / P).sum()))
    eps = share_upper_bound(ratios, ERROR, noise, root_chi2)
    assert 0 < eps < 0.5

    def log_e(share: float) -> float:
        return float(np.log((1 - share) + share * ratios).sum() + noise * root_chi2 * share / np.sqrt(1 - share))

    assert log_e(1.01 * eps) < np.log(ERROR) < log_e(0.98 * eps)


def test_noise_widens_the_bound() -> None:
    ratios = (R / P)[np.random.default_rng(5).choice(3, size=20_000, p=P)]
    root_chi2 = 20_000 * float(np.sqrt(((R - P) ** 2 / P).sum()))
    exact, none, some, much = (share_upper_bound(ratios, ERROR, noise, root_chi2) for noise in (0.0, 1e-9, 0.01, 10.0))
    assert exact <= none <= exact * 1.01
    assert none < some < 1
    assert much == 1


@pytest.mark.parametrize("error", [0.0, 1.0])
def test_error_must_be_a_probability(error: float) -> None:
    with pytest.raises(ValueError, match="error"):
        share_upper_bound(np.ones(3), error)
