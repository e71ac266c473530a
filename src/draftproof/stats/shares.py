"""How large a share of the tokens can have come from a named rule: an upper bound valid at every moment."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from draftproof.core.distribution import Law

_ALMOST_ALL = 1.0 - 1e-12
"""Near enough to 1, where a token that the rule cannot draw makes the logarithm infinite."""

_GRID = np.r_[0.0, np.geomspace(1e-6, 0.5, 2000), 1.0]


def share_upper_bound(ratios: Law, error: float, noise: float = 0.0, root_chi2: float = 0.0) -> float:
    """Upper confidence bound in [0, 1] on the share eps of tokens drawn from rule r.

    ratios: float64[n], r(x)/p(x) of the observed tokens. Under "every token, whatever came before, is from r with
    probability at least eps" the product of p/((1-eps)p + eps r) has expectation at most 1 at every stopping time, so eps
    is refuted when it reaches 1/error (Ville); wrong with probability at most `error` in all. The set of eps left is an
    interval because log((1-eps) + eps ratio) is concave.
    `noise` is the RMS error nu of log p and `root_chi2` the sum over tokens of sqrt(chi2(r, p)): each factor is then
    divided by 1 + nu eps sqrt(chi2/(1-eps)), which bounds the guard of `bets.Bets` for this bet.
    Raises ValueError unless 0 < error < 1.
    """
    if not 0 < error < 1:
        raise ValueError(f"error must lie in (0, 1), not {error}")
    limit = -float(np.log(error))
    if noise > 0:
        return _noisy_bound(ratios, limit, noise * root_chi2)

    def slack(eps: float) -> float:
        return _log_mixture(ratios, eps) + limit

    if slack(1.0) >= 0 or slack(_ALMOST_ALL) >= 0:
        return 1.0
    return float(brentq(slack, 0.0, _ALMOST_ALL, xtol=1e-9))


def _log_mixture(ratios: Law, eps: float) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log((1 - eps) + eps * ratios).sum())


def _noisy_bound(ratios: Law, limit: float, guard: float) -> float:
    """The guard is not concave: each interval of a grid is refuted by the test of its left end, which holds for larger shares.

    All shares above .5 share one test, because the guard grows without limit towards 1.
    """
    for left, right in zip(_GRID[-2::-1], _GRID[:0:-1], strict=True):
        if _log_mixture(ratios, left) + guard * left / np.sqrt(1 - left) > -limit:
            return float(right)
    return 0.0
