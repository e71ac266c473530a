"""Were two samples of counts drawn from one law? For two conditions of a server whose law nobody knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, gammaln, xlogy

from draftproof.core.distribution import Law
from draftproof.core.verdict import Statement
from draftproof.stats.goodness import compositions, pool

_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class TwoSample:
    """`p_value`: probability, were both of one law at every context, of a split at least as unlikely."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    n: int
    statistic: float
    p_value: float
    method: str

    def statement(self, what: str) -> Statement:
        return Statement(
            f"{what} drawn from one law: p = {self.p_value:.3g}",
            self.n,
            self.method,
            self.p_value,
            {"statistic": self.statistic, "p_value": self.p_value},
        )


def exact(first: ArrayLike, second: ArrayLike) -> TwoSample:
    """Fisher's exact test for 2 x cells (Freeman and Halton 1951): every split with the same totals is enumerated.

    first, second: int[cells]. The statistic is -log of the split's probability. Raises ValueError for too many splits
    (use `permutation`), shapes that differ or negative counts.
    """
    a, b = _checked(first, second)
    if a.shape[0] != 1:
        raise ValueError("the exact test is for one context; use permutation for several")
    totals = (a + b)[0]
    splits = compositions(int(a.sum()), totals)
    logs = _log_split(splits, totals)
    logs -= np.log(np.exp(logs - logs.max()).sum()) + logs.max()
    own = float(_log_split(a[0], totals))
    own -= float(gammaln(totals.sum() + 1) - gammaln(a.sum() + 1) - gammaln(b.sum() + 1))
    extreme = logs <= own + _TIE * max(1.0, abs(own))
    return _result(a, b, -own, float(np.exp(logs[extreme]).sum()), "exact test of homogeneity, Freeman-Halton")


def permutation(first: ArrayLike, second: ArrayLike, rng: np.random.Generator, trials: int = 9999) -> TwoSample:
    """(b + 1)/(trials + 1) over random splits of the pooled counts, context by context; the statistic is the sum of G.

    first, second: int[cells] or int[contexts, cells]; only repeated contexts can tell anything.
    """
    a, b = _checked(first, second)
    observed = _g(a, b).sum()
    simulated = np.zeros(trials)
    for mine, other in zip(a.astype(np.int64), b.astype(np.int64), strict=True):
        split = rng.multivariate_hypergeometric(mine + other, int(mine.sum()), size=trials, method="marginals")
        simulated += _g(split.astype(np.float64), (mine + other - split).astype(np.float64))
    more = int((simulated >= observed * (1 - _TIE) - _TIE).sum())
    return _result(
        a, b, float(observed), (more + 1) / (trials + 1), f"permutation test of homogeneity, G, {trials} trials"
    )


def large_sample(first: ArrayLike, second: ArrayLike, min_expected: float = 5.0) -> TwoSample:
    """G test of homogeneity with the chi-square limit, summed over contexts; small cells of a context are pooled.

    Contexts with one sample empty or one cell left tell nothing; if none tells, the p-value is 1.
    """
    a, b = _checked(first, second)
    value, degrees = 0.0, 0
    for mine, other in zip(a, b, strict=True):
        smaller = min(mine.sum(), other.sum()) / max((mine + other).sum(), 1.0)
        x, _ = pool(mine, (mine + other) * smaller, min_expected)
        y, _ = pool(other, (mine + other) * smaller, min_expected)
        if smaller > 0 and len(x) > 1:
            value += float(_g(x, y))
            degrees += len(x) - 1
    p_value = float(chdtrc(degrees, value)) if degrees else 1.0
    return _result(a, b, value, p_value, f"G test of homogeneity, large sample, {degrees} degrees of freedom")


def _log_split(split: Law, totals: Law) -> Law:
    """Log of the number of ways to draw the split."""
    ways: Law = (gammaln(totals + 1) - gammaln(split + 1) - gammaln(totals - split + 1)).sum(axis=-1)
    return ways


def _g(a: Law, b: Law) -> Law:
    """G of the 2 x cells table, over the last axis."""

    def entropy(x: Law) -> Law:
        part: Law = xlogy(x, x).sum(axis=-1)
        return part

    rows = np.stack([a.sum(axis=-1), b.sum(axis=-1)], axis=-1)
    total = a.sum(axis=-1) + b.sum(axis=-1)
    g: Law = np.maximum(2 * (entropy(a) + entropy(b) - entropy(a + b) - entropy(rows) + xlogy(total, total)), 0.0)
    return g


def _result(a: Law, b: Law, statistic: float, p_value: float, method: str) -> TwoSample:
    first, second = (tuple(int(v) for v in x.ravel()) for x in (a, b))
    return TwoSample(first, second, sum(first) + sum(second), statistic, min(p_value, 1.0), method)


def _checked(first: ArrayLike, second: ArrayLike) -> tuple[Law, Law]:
    a, b = (np.atleast_2d(np.asarray(x, dtype=np.float64)) for x in (first, second))
    if a.shape != b.shape or a.ndim != 2:
        raise ValueError(f"counts have shapes {a.shape} and {b.shape}")
    if (a < 0).any() or (b < 0).any():
        raise ValueError("counts must be nonnegative")
    return a, b
