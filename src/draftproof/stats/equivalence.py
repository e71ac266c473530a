"""How far the law that was really drawn from can be from the law it should be: upper bounds on total variation by counts.

TV(p, r) = r(A) - p(A) for the set A of tokens that r favours. A depends on the truth and not on the sample, so the largest
value over *all* sets of (upper bound on r(A)) - p(A) exceeds TV with the confidence of one single bound: no correction
for the number of sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from draftproof.core.bounds import at_most
from draftproof.core.distribution import Law
from draftproof.core.verdict import Statement
from draftproof.stats.intervals import beta_binomial_upper, check_error, clopper_pearson_upper, mean_upper

FEW_CELLS = 12
PRIOR_STRENGTH = 200.0


@dataclass(frozen=True, slots=True)
class TvBound:
    """Total variation is at most `bound`, wrong with probability at most `error`; `estimate` is that of the frequencies."""

    bound: float
    estimate: float
    n: int
    contexts: int
    error: float
    method: str

    def statement(self, what: str) -> Statement:
        """`what` names the two laws compared, such as "tokens with speculation and the target's law"."""
        return Statement(
            f"total variation between {what} is at most {at_most(self.bound, 3)}",
            self.n,
            self.method,
            self.error,
            {"bound": self.bound, "estimate": self.estimate, "contexts": float(self.contexts)},
        )


def tv_upper(counts: ArrayLike, p: ArrayLike, error: float, anytime: bool = False) -> TvBound:
    """Upper bound on TV(p, r) from independent draws of r at one context.

    counts: int[cells]; p: float[cells], the law r is held against, which must be fixed without these counts.
    anytime False: n was fixed before the data (Clopper-Pearson). True: valid at every n at once (beta-binomial confidence
    sequence, prior centred on p). Exact over all sets up to 12 cells, above that a relaxation that is never smaller.
    Raises ValueError for shapes that differ, negative counts, or a p that does not sum to 1.
    """
    seen, law = _checked(counts, p, error)
    n = int(seen.sum())
    estimate = _estimate(seen[None], law[None])
    if len(law) > FEW_CELLS:
        upper = mean_upper if anytime else clopper_pearson_upper
        return TvBound(
            _relaxed(seen[None], law[None], upper, error), estimate, n, 1, error, _method(anytime, "relaxed")
        )
    sets = (np.arange(2 ** len(law))[:, None] >> np.arange(len(law))) & 1
    hits, mass = sets @ seen, np.clip(sets @ law, 0.0, 1.0)
    if anytime:
        inside = np.clip(mass, 0.5 / PRIOR_STRENGTH, 1 - 0.5 / PRIOR_STRENGTH)
        high = beta_binomial_upper(hits, n, error, PRIOR_STRENGTH * inside, PRIOR_STRENGTH * (1 - inside))
    else:
        high = clopper_pearson_upper(hits, n, error)
    high = np.where(sets.all(axis=1), 1.0, np.where(sets.any(axis=1), high, 0.0)) if n else np.ones(len(sets))
    return TvBound(_bound(high - mass), estimate, n, 1, error, _method(anytime, "all sets"))


def mean_tv_upper(counts: ArrayLike, p: ArrayLike, error: float, fixed_visits: bool = False) -> TvBound:
    """Upper bound on the mean over visits of TV(p_c, r_c), several contexts pooled.

    counts: int[contexts, cells]; p: float[contexts, cells]. Context c counts with its share of all visits; nothing is said of
    one context alone, nor of contexts not visited. The favoured set may differ per context: its hits are trials of
    unequal probability, and the bound is on their mean.
    fixed_visits False: contexts and number of visits may depend on tokens drawn before (`intervals.mean_upper`, valid at every
    n at once). True: visits per context were fixed before and all draws are independent (Clopper-Pearson, by Hoeffding
    1956 valid for a mean). Contexts visited seldom cost width: about half the square root of cells times contexts / n.
    Merging cells would make it invalid: it can only hide a difference.
    """
    seen, law = _checked(counts, p, error)
    upper = clopper_pearson_upper if fixed_visits else mean_upper
    bound = _relaxed(seen, law, upper, error)
    visited = int((seen.sum(axis=1) > 0).sum())
    return TvBound(
        bound, _estimate(seen, law), int(seen.sum()), visited, error, _method(not fixed_visits, "pooled contexts")
    )


def two_sample_tv_upper(first: ArrayLike, second: ArrayLike, error: float) -> TvBound:
    """Upper bound on TV(p, r) from independent draws of both at one context, both sizes fixed before the data.

    first, second: int[cells] of the tokens that were seen, at most 11; one more cell stands for all others. The set that r favours
    more than p depends on the truth alone, so the largest value over all sets of (upper bound on r's share) - (lower bound on
    p's share), each at error/2, exceeds TV with the confidence of one pair of bounds.
    Raises ValueError for more cells, shapes that differ or negative counts.
    """
    a, b = (np.append(np.asarray(x, dtype=np.float64), 0.0) for x in (first, second))
    check_error(error)
    if a.shape != b.shape or (a < 0).any() or (b < 0).any():
        raise ValueError(f"counts must be nonnegative and of one shape, not {a.shape} and {b.shape}")
    if len(a) > FEW_CELLS:
        raise ValueError(f"{len(a) - 1} cells are too many, the most are {FEW_CELLS - 1}")
    n, m = int(a.sum()), int(b.sum())
    method = "bound on total variation by two samples, all sets"
    if not n or not m:
        return TvBound(1.0, 0.0, n + m, 1, error, method)
    sets = ((np.arange(2 ** len(a))[:, None] >> np.arange(len(a))) & 1)[1:-1]
    high = clopper_pearson_upper(sets @ b, m, error / 2)
    low = 1 - clopper_pearson_upper(n - sets @ a, n, error / 2)
    estimate = float(0.5 * np.abs(a / n - b / m).sum())
    return TvBound(_bound(high - low), estimate, n + m, 1, error, method)


def _relaxed(counts: Law, p: Law, upper: Callable[[ArrayLike, int, float], Law], error: float) -> float:
    """max over s of upper(s) - B(s): B(s) is the least mass p of a choice of cells with s hits, cells divisible."""
    n = int(counts.sum())
    if n == 0:
        return 1.0
    mass = (counts.sum(axis=1, keepdims=True) * p / n)[counts > 0]
    hits = counts[counts > 0]
    order = np.argsort(mass / hits)
    grid_hits = np.r_[0.0, np.cumsum(hits[order])]
    grid_mass = np.r_[0.0, np.cumsum(mass[order])]
    s = np.arange(n + 1)
    return _bound(upper(s, n, error) - np.interp(s, grid_hits, grid_mass))


def _bound(differences: Law) -> float:
    return float(np.clip(differences.max(), 0.0, 1.0))


def _estimate(counts: Law, p: Law) -> float:
    visits = counts.sum(axis=1, keepdims=True)
    n = visits.sum()
    return float(0.5 * np.abs(counts - visits * p).sum() / n) if n else 0.0


def _method(anytime: bool, how: str) -> str:
    return f"{'anytime-valid' if anytime else 'fixed-n'} bound on total variation by counts, {how}"


def _checked(counts: ArrayLike, p: ArrayLike, error: float) -> tuple[Law, Law]:
    check_error(error)
    seen, law = np.asarray(counts, dtype=np.float64), np.asarray(p, dtype=np.float64)
    if seen.shape != law.shape:
        raise ValueError(f"counts have shape {seen.shape}, p has {law.shape}")
    if (seen < 0).any() or (law < 0).any():
        raise ValueError("counts and p must be nonnegative")
    if np.abs(law.sum(axis=-1) - 1).max(initial=0.0) > 1e-6:
        raise ValueError("p must sum to 1")
    return seen, law
