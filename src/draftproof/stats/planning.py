"""What a statement costs, before the first request."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf, log, sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from draftproof.core.distribution import Law
from draftproof.stats.equivalence import FEW_CELLS
from draftproof.stats.intervals import check_error

BET_COST = 4.0
"""Nats the e-process spends on not knowing the rule: the logs of its bets' weights, less what related bets give back."""


def divergence(r: ArrayLike, p: ArrayLike) -> float:
    """Mean over rows of KL(r || p), nats per token. Infinite where r draws what p cannot. r, p: float[..., vocab]."""
    a, b = np.asarray(r, dtype=np.float64), np.asarray(p, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(a > 0, a * np.log(a / b), 0.0)
    return float(terms.sum(axis=-1).mean())


def tokens_to_detect(kl: float, alpha: float, cost: float = BET_COST) -> float:
    """Expected tokens until the e-process reaches 1/alpha against a rule of KL(r || p) = kl nats per token.

    (log(1/alpha) + cost)/kl (Wald 1945 for a sequential likelihood ratio). Infinite for kl = 0.
    """
    check_error(alpha)
    return (log(1 / alpha) + cost) / kl if kl > 0 else inf


def detectable(kl: float, chi2: float, noise: float) -> bool:
    """Whether noise nu of log p leaves a rule visible: the guard's cost, about nu sqrt(chi2) nats per token, must be below kl."""
    return kl > noise * sqrt(chi2)


def draws_to_certify(p: ArrayLike, eps: float, error: float, chance: float = 0.95, seed: int = 1) -> int:
    """Draws at one context after which an exact server gets TV <= eps from `equivalence.tv_upper` with probability `chance`.

    p: float[cells]. n fixed, confidence 1 - error. From 4000 seeded draws of the normal limit, in which n = (c/eps)^2 with c the
    quantile over samples of max over sets A of (deviation of A + z sd of A); good to a few per cent from n = 500 on. Above 12
    cells z/2 stands for the second term, which makes n too large. Raises ValueError unless 0 < eps < 1.
    """
    if not 0 < eps < 1:
        raise ValueError(f"eps must lie in (0, 1), not {eps}")
    check_error(error)
    law = np.asarray(p, dtype=np.float64)
    rng = np.random.default_rng(seed)
    z = float(ndtri(1 - error))
    deviation = _deviations(rng.standard_normal((4000, len(law))), law)
    if len(law) > FEW_CELLS:
        largest: Law = np.maximum(deviation, 0.0).sum(axis=1) + z / 2
    else:
        sets = ((np.arange(2 ** len(law))[:, None] >> np.arange(len(law))) & 1).astype(np.float64)
        mass = np.clip(sets @ law, 0.0, 1.0)
        largest = (deviation @ sets.T + z * np.sqrt(mass * (1 - mass))).max(axis=1)
    return ceil((float(np.quantile(largest, chance)) / eps) ** 2)


def _deviations(normal: Law, law: Law) -> Law:
    """sqrt(n)(p_hat - p) in the normal limit: covariance diag(p) - p p'."""
    scaled = normal * np.sqrt(law)
    centred: Law = scaled - law * scaled.sum(axis=1, keepdims=True)
    return centred


def tokens_to_couple(eps: float, error: float) -> int:
    """Equal tokens after which `coupling.coupling_bound` with no mismatch and n fixed is at most eps."""
    check_error(error)
    if not 0 < eps < 1:
        raise ValueError(f"eps must lie in (0, 1), not {eps}")
    return ceil(log(error) / log(1 - eps))


def still_missing(bound_at: Callable[[int], float], n: int, target: float, most: int = 100_000_000) -> int | None:
    """Samples to add to n until bound_at(total) <= target; None if `most` in all do not do.

    bound_at: the bound that the present frequencies would give at a larger n; it must fall with n.
    """
    if bound_at(n) <= target:
        return 0
    low, high = n, min(max(2 * n, 1), most)
    while bound_at(high) > target:
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if bound_at(middle) <= target else (middle, high)
    return high - n
