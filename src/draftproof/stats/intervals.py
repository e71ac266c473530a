"""Confidence intervals for probabilities: at a fixed n, for several cells at once, and valid at every moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, betaln

from draftproof.core.distribution import Law


@dataclass(frozen=True, slots=True)
class Interval:
    """[low, high] holds the probability, wrong with probability at most `error`; `count` of `n` were seen."""

    low: float
    high: float
    count: int
    n: int
    error: float
    method: str


def clopper_pearson(count: int, n: int, error: float) -> Interval:
    """Two-sided exact interval (Clopper and Pearson 1934), n fixed before the data, error/2 on each side."""
    check_error(error)
    low = 1 - float(clopper_pearson_upper(n - count, n, error / 2))
    high = float(clopper_pearson_upper(count, n, error / 2))
    return Interval(low, high, count, n, error, "Clopper-Pearson")


def clopper_pearson_upper(count: ArrayLike, n: int, error: float) -> Law:
    """One-sided exact upper bound for counts of any shape: the largest probability with P(at most `count` of n) >= error.

    Also bounds the *mean* of n unequal success probabilities of independent trials, because the result is raised to
    (count+1)/n where it is lower: from there on the binomial is the worst case (Hoeffding 1956, theorem 4). n = 0 gives 1.
    Raises ValueError for counts outside 0..n or error outside (0, 1).
    """
    k = _checked(count, n, error)
    if n == 0:
        return np.ones_like(k)
    inside = k < n
    beta = betaincinv(np.where(inside, k, 0.0) + 1, np.where(inside, n - k, 1.0), 1 - error)
    upper: Law = np.where(inside, np.minimum(np.maximum(beta, (k + 1) / n), 1.0), 1.0)
    return upper


def multinomial(counts: ArrayLike, error: float) -> tuple[Interval, ...]:
    """Intervals that hold for all cells at once: Clopper-Pearson at error/cells each (Bonferroni; exact, n fixed)."""
    cells = np.asarray(counts, dtype=np.int64)
    check_error(error)
    n = int(cells.sum())
    each = (clopper_pearson(int(k), n, error / len(cells)) for k in cells)
    return tuple(Interval(i.low, i.high, i.count, n, error, "Clopper-Pearson, Bonferroni over cells") for i in each)


def beta_binomial_sequence(count: int, n: int, error: float, prior: tuple[float, float] = (1.0, 1.0)) -> Interval:
    """Interval for one fixed probability, valid at every n at once (Robbins 1970; Howard et al. 2021, arXiv 1810.08240).

    theta is refuted when the Beta(prior) mixture of likelihoods is 1/error times its own. Independent trials, one theta.
    """
    a, b = prior
    high = float(beta_binomial_upper(count, n, error, a, b))
    low = 1 - float(beta_binomial_upper(n - count, n, error, b, a))
    return Interval(low, high, count, n, error, f"beta-binomial confidence sequence, prior Beta({a:g}, {b:g})")


def beta_binomial_upper(count: ArrayLike, n: int, error: float, a: ArrayLike, b: ArrayLike) -> Law:
    """Upper end of `beta_binomial_sequence` for counts, a and b of any common shape. Both ends together err with `error`."""
    k = _checked(count, n, error)
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if n == 0:
        return np.ones(np.broadcast_shapes(k.shape, a.shape, b.shape))
    mixture = betaln(a + k, b + n - k) - betaln(a, b)

    def refuted(theta: Law) -> Law:
        with np.errstate(divide="ignore", invalid="ignore"):
            ones = np.where(k > 0, k * np.log(theta), 0.0)
            zeros = np.where(k < n, (n - k) * np.log1p(-theta), 0.0)
        log_ratio: Law = mixture - ones - zeros + np.log(error)
        return log_ratio

    return _root_above(refuted, np.broadcast_to(k / n, np.shape(mixture)))


TILTS = np.append(np.exp2(np.arange(-10.0, 4.0)), np.inf)
"""Values of lambda in `mean_upper`: each is best for one size of sample and deviation."""


def mean_upper(count: ArrayLike, n: int, error: float, zero_weight: float = 0.2) -> Law:
    """Upper bound on the mean success probability of n trials, valid at every n at once, for counts of any shape.

    Trial t may succeed with any probability pi_t that depends on the past (other contexts, a stopping rule): the bound is on
    the mean of pi_1..pi_n. For each lambda the product of exp(-lambda y_t)/(1 - pi_t h), h = 1 - exp(-lambda), is a
    martingale, and log(1 - pi h) is concave in pi, so (1 - mean h)^n may stand for the product; a weighted sum over
    `TILTS` stays below 1/error with probability 1 - error (Ville), hence so does each weighted term, which solves to

        mean < (1 - (error weight)^(1/n) exp(-lambda count/n)) / h.

    lambda = infinity with weight `zero_weight` is the bet on "never": with count 0 the bound is
    1 - (error zero_weight)^(1/n). From count 1 on the result is concave in the count.
    """
    k = _checked(count, n, error)
    if not 0 < zero_weight < 1:
        raise ValueError(f"zero_weight must lie in (0, 1), not {zero_weight}")
    if n == 0:
        return np.ones_like(k)
    best = np.where(k == 0, -np.expm1(np.log(error * zero_weight) / n), 1.0)
    weight = (1 - zero_weight) / (len(TILTS) - 1)
    for tilt in TILTS[:-1]:
        best = np.minimum(best, np.expm1((np.log(error * weight) - tilt * k) / n) / np.expm1(-tilt))
    return best


def check_error(error: float) -> None:
    """Raises ValueError unless 0 < error < 1."""
    if not 0 < error < 1:
        raise ValueError(f"error must lie in (0, 1), not {error}")


def _checked(count: ArrayLike, n: int, error: float) -> Law:
    check_error(error)
    k = np.asarray(count, dtype=np.float64)
    if n < 0 or (k < 0).any() or (k > n).any():
        raise ValueError(f"counts must lie in 0..{n}")
    return k


def _root_above(f: Callable[[Law], Law], low: Law) -> Law:
    """Where f, negative at `low` and increasing from there to 1, reaches 0; the upper end of the last bracket."""
    low, high = np.array(low, dtype=np.float64), np.ones_like(low)
    for _ in range(50):
        middle = (low + high) / 2
        above = f(middle) >= 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high
