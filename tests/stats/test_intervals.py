from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln
from scipy.stats import binom, binomtest

from draftproof.stats.intervals import (
    TILTS,
    beta_binomial_sequence,
    clopper_pearson,
    clopper_pearson_upper,
    mean_upper,
    multinomial,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 300), st.floats(0, 1), st.sampled_from([0.05, 0.001]))
def test_clopper_pearson_equals_scipy(n: int, part: float, error: float) -> None:
    count = round(part * n)
    theirs = binomtest(count, n).proportion_ci(1 - error, "exact")
    mine = clopper_pearson(count, n, error)
    # where count is 0 or n the two ends meet the simplest cases; one-sided bounds are raised to (count+1)/n, never lowered
    assert mine.high == pytest.approx(max(theirs.high, min((count + 1) / n, 1.0)), abs=1e-9)
    assert mine.low == pytest.approx(min(theirs.low, max((count - 1) / n, 0.0)), abs=1e-9)


def test_upper_bound_covers_at_every_probability() -> None:
    n, error = 30, 0.05
    upper = clopper_pearson_upper(np.arange(n + 1), n, error)
    for theta in np.linspace(0.001, 0.999, 200):
        missed = binom.pmf(np.arange(n + 1), n, theta)[upper < theta].sum()
        assert missed <= error + 1e-12


def test_upper_bound_covers_the_mean_of_unequal_probabilities() -> None:
    """Exact law of sums of independent trials, several spreads around one mean."""
    n, error = 12, 0.05
    upper = clopper_pearson_upper(np.arange(n + 1), n, error)
    rng = np.random.default_rng(1)
    for _ in range(400):
        thetas = rng.beta(rng.choice([0.2, 0.5, 1, 3]), rng.choice([0.2, 0.5, 1, 3]), size=n)
        law = np.array([1.0])
        for theta in thetas:
            law = np.convolve(law, [1 - theta, theta])
        assert law[upper < thetas.mean()].sum() <= error + 1e-12


def test_no_data_says_nothing() -> None:
    assert clopper_pearson(0, 0, 0.05).high == 1
    assert clopper_pearson(0, 0, 0.05).low == 0
    assert beta_binomial_sequence(0, 0, 0.05).high == 1
    assert mean_upper(0, 0, 0.05) == 1


@pytest.mark.parametrize("call", [lambda: mean_upper(3, 2, 0.05), lambda: clopper_pearson(-1, 2, 0.05)])
def test_counts_outside_are_refused(call: object) -> None:
    with pytest.raises(ValueError, match=r"counts must lie in 0\.\.2"):
        call()  # type: ignore[operator]


def test_bad_errors_are_refused() -> None:
    for error in (0, 1, 1.5):
        with pytest.raises(ValueError, match="error must lie"):
            multinomial([1, 2], error)
    for weight in (0, 1):
        with pytest.raises(ValueError, match="zero_weight"):
            mean_upper(0, 10, 0.05, zero_weight=weight)


def test_multinomial_intervals_hold_together() -> None:
    """Miss rate of the family at 5 %, 4000 samples: allowed 200, a rate of exactly 5 % exceeds 270 with probability 1e-6."""
    rng = np.random.default_rng(2)
    p = np.array([0.5, 0.3, 0.15, 0.05])
    table = {k: clopper_pearson(k, 50, 0.05 / 4) for k in range(51)}
    samples = rng.multinomial(50, p, size=4000)
    missed = sum(any(not table[int(k)].low <= p[i] <= table[int(k)].high for i, k in enumerate(row)) for row in samples)
    assert missed <= 270
    family = multinomial(samples[0], 0.05)
    assert [(i.low, i.high) for i in family] == [(table[int(k)].low, table[int(k)].high) for k in samples[0]]
    assert all(i.n == 50 and "Bonferroni" in i.method for i in family)


def test_confidence_sequence_by_its_own_definition() -> None:
    """theta is inside exactly when the mixture of likelihoods is below 1/error times its own (numerical integral)."""
    count, n, error = 7, 40, 0.05
    grid = (np.arange(20_000) + 0.5) / 20_000
    mixture = (grid**count * (1 - grid) ** (n - count)).mean()
    interval = beta_binomial_sequence(count, n, error)
    for theta in (interval.low, interval.high):
        assert mixture / (theta**count * (1 - theta) ** (n - count)) == pytest.approx(1 / error, rel=1e-3)
    assert interval.low < count / n < interval.high


def test_confidence_sequence_holds_at_every_moment() -> None:
    """Watched after each of 400 trials, 2000 runs at 5 %: a rate of exactly 5 % exceeds 150 with probability 4e-7."""
    rng = np.random.default_rng(3)
    theta, n, error = 0.3, 400, 0.05
    edges = [beta_binomial_sequence(int(k), t, error) for t in (1, 20, 100, 400) for k in range(t + 1)]
    assert all(0 <= i.low <= i.high <= 1 for i in edges)
    counts = np.cumsum(rng.random((2000, n)) < theta, axis=1)
    looks = np.arange(1, n + 1)
    log_mixture = np.array([_log_beta(counts[:, t - 1] + 1, t - counts[:, t - 1] + 1) for t in looks]).T
    log_own = counts * np.log(theta) + (looks - counts) * np.log(1 - theta)
    ever_out = (log_mixture - log_own >= np.log(1 / error)).any(axis=1)
    assert ever_out.sum() <= 150
    final = [beta_binomial_sequence(int(k), n, error) for k in counts[:50, -1]]
    now_out = (log_mixture - log_own >= np.log(1 / error))[:50, -1]
    assert [not i.low <= theta <= i.high for i in final] == now_out.tolist()


def _log_beta(
    a: np.ndarray[tuple[int, ...], np.dtype[np.int64]], b: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    from scipy.special import betaln

    return np.asarray(betaln(a, b))


def test_mean_upper_is_never_refuted_too_often_though_trials_depend_on_the_past() -> None:
    """Each trial depends on the one before; watched throughout. 1500 runs at 5 %: more than 118 has probability 1e-6."""
    rng = np.random.default_rng(4)
    runs, n, error = 1500, 300, 0.05
    y, total, mean = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    missed = np.zeros(runs, dtype=bool)
    for t in range(1, n + 1):
        theta = np.where(y > 0, 0.7, 0.1)
        y = (rng.random(runs) < theta).astype(np.float64)
        total, mean = total + y, mean + (theta - mean) / t
        missed |= mean_upper(total, t, error) < mean
    assert missed.sum() <= 118


def test_mean_upper_without_successes_is_the_bet_on_never() -> None:
    assert mean_upper(0, 1000, 0.001, zero_weight=0.9) == pytest.approx(1 - (0.9 * 0.001) ** (1 / 1000))


def test_mean_upper_is_concave_and_increasing_in_the_count() -> None:
    upper = mean_upper(np.arange(2001), 2000, 0.01)
    assert (np.diff(upper) >= 0).all()
    assert (np.diff(upper, 2)[1:] <= 1e-12).all()  # the bet on "never" applies to count 0 alone


def test_mean_upper_is_at_most_half_again_as_wide_as_a_fixed_sample() -> None:
    for n in (200, 1000, 10_000, 100_000):
        for count in (n // 100, n // 10, n // 2):
            fixed = clopper_pearson_upper(count, n, 0.001) - count / n
            assert mean_upper(count, n, 0.001) - count / n < 1.6 * fixed
    assert len(TILTS) == 15


@pytest.mark.parametrize("count", [0, 1, 7, 19])
@pytest.mark.parametrize("prior", [(1.0, 1.0), (2.0, 3.5)])
def test_the_sequence_ends_where_the_mixture_is_1_over_error_times_the_likelihood(
    count: int, prior: tuple[float, float]
) -> None:
    n, error = 20, 0.01
    high = beta_binomial_sequence(count, n, error, prior).high
    mixture = betaln(prior[0] + count, prior[1] + n - count) - betaln(*prior)
    own = (count * np.log(high) if count else 0.0) + (n - count) * np.log1p(-high)
    assert mixture - own == pytest.approx(np.log(1 / error), abs=1e-6)


def test_all_successes_have_no_upper_end() -> None:
    assert beta_binomial_sequence(20, 20, 0.01).high == pytest.approx(1.0)
    assert mean_upper(20, 20, 0.01) == 1.0
    assert mean_upper([0, 1, 2], 2, 0.5).max() <= 1.0


@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_the_bound_on_a_mean_is_the_best_of_its_bets(count: int) -> None:
    """By the formula of the docstring, every lambda with its weight; "never" counts where nothing was seen."""
    n, error, never = 50, 0.01, 0.2
    weight = (1 - never) / (len(TILTS) - 1)
    bounds = [(1 - (error * weight) ** (1 / n) * np.exp(-t * count / n)) / (1 - np.exp(-t)) for t in TILTS[:-1]]
    if count == 0:
        bounds.append(1 - (error * never) ** (1 / n))
    assert mean_upper(count, n, error) == pytest.approx(min(1.0, *bounds))
