"""Are these counts draws from this law? Goodness of fit at one context, at a sample size fixed before the data."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, gammaln, xlogy

from draftproof.core.distribution import Law
from draftproof.core.verdict import Statement

ENUMERABLE = 200_000
"""Most outcomes that are enumerated."""

_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class GoodnessOfFit:
    """`p_value`: probability, under the law, of counts at least as extreme. `statistic` is what "extreme" is measured by."""

    counts: tuple[int, ...]
    law: tuple[float, ...]
    n: int
    statistic: float
    p_value: float
    method: str

    def statement(self, what: str) -> Statement:
        return Statement(
            f"counts of {what} against the law: p = {self.p_value:.3g}",
            self.n,
            self.method,
            self.p_value,
            {"statistic": self.statistic, "p_value": self.p_value},
        )


def goodness_of_fit(counts: ArrayLike, p: ArrayLike, rng: np.random.Generator | None = None) -> GoodnessOfFit:
    """The exact test where outcomes can be enumerated, else Monte-Carlo if `rng` is given, else `exact_pooled`.

    Never rejects more often than it says, at any n. counts: int[cells]; p: float[cells], sum 1. Raises ValueError for shapes that
    differ or a p that is no law.
    """
    seen = _checked(counts, p)[0]
    if _enumerable(int(seen.sum()), len(seen)):
        return exact(counts, p)
    return exact_pooled(counts, p) if rng is None else monte_carlo(counts, p, rng)


def exact_pooled(counts: ArrayLike, p: ArrayLike) -> GoodnessOfFit:
    """The exact test with the least likely cells taken together: as many as it takes to enumerate the outcomes, at least two cells.

    Which cells those are depends on p alone, so the p-value stays exact, where the chi-square limit of `large_sample` may
    be three times too small at n = 24. A count where p is 0 gives p-value 0, pooled or not.
    """
    seen, law = _checked(counts, p)
    n, cells = int(seen.sum()), len(seen)
    while cells > 2 and not _enumerable(n, cells):
        cells -= 1
    order = np.argsort(-law, kind="stable")
    alone, rest = order[: cells - 1], order[cells - 1 :]
    method = f"exact multinomial test, G, {cells} cells"
    if (seen[law <= 0] > 0).any():
        return _result(seen, law, np.inf, 0.0, method)
    found = exact(np.r_[seen[alone], seen[rest].sum()], np.r_[law[alone], law[rest].sum()])
    return _result(seen, law, found.statistic, found.p_value, method)


def _enumerable(n: int, cells: int) -> bool:
    return comb(n + cells - 1, cells - 1) <= ENUMERABLE


def exact(counts: ArrayLike, p: ArrayLike) -> GoodnessOfFit:
    """Exact multinomial test: every outcome of n draws is enumerated, extreme is a large G. Raises ValueError if too many."""
    seen, law = _checked(counts, p)
    n, observed = int(seen.sum()), _g(seen, law)
    outcomes = compositions(n, np.full(len(seen), n))
    with np.errstate(divide="ignore"):
        logs = gammaln(n + 1) + (xlogy(outcomes, law) - gammaln(outcomes + 1)).sum(axis=1)
    extreme = _g(outcomes, law) >= observed * (1 - _TIE) - _TIE
    return _result(seen, law, float(observed), float(np.exp(logs[extreme]).sum()), "exact multinomial test, G")


def monte_carlo(counts: ArrayLike, p: ArrayLike, rng: np.random.Generator, trials: int = 9999) -> GoodnessOfFit:
    """(b + 1)/(trials + 1), b simulated G at least as large: never 0, never too small (Davison and Hinkley 1997, 4.2)."""
    seen, law = _checked(counts, p)
    observed = _g(seen, law)
    simulated = rng.multinomial(int(seen.sum()), law / law.sum(), size=trials).astype(np.float64)
    b = int((_g(simulated, law) >= observed * (1 - _TIE) - _TIE).sum())
    return _result(
        seen, law, float(observed), (b + 1) / (trials + 1), f"Monte-Carlo multinomial test, G, {trials} trials"
    )


def large_sample(
    counts: ArrayLike, p: ArrayLike, statistic: Literal["G", "chi-square"] = "G", min_expected: float = 5.0
) -> GoodnessOfFit:
    """G or Pearson's chi-square with the chi-square limit; cells that expect fewer than `min_expected` are pooled.

    Good from about 30 expected per cell on; with fewer, small p-values are several times too small. A count where p is 0
    gives p-value 0; one cell left gives p-value 1.
    """
    seen, law = _checked(counts, p)
    method = f"{statistic} test, large sample"
    if (seen[law <= 0] > 0).any():
        return _result(seen, law, np.inf, 0.0, method)
    pooled, pooled_law = pool(seen, law * seen.sum(), min_expected)
    value = _g_of(pooled, pooled_law) if statistic == "G" else ((pooled - pooled_law) ** 2 / pooled_law).sum()
    p_value = float(chdtrc(len(pooled) - 1, value)) if len(pooled) > 1 else 1.0
    return _result(seen, law, float(value), p_value, f"{method}, {len(pooled)} cells")


def pool(counts: Law, expected: Law, min_expected: float) -> tuple[Law, Law]:
    """Counts and expectations with the small cells merged into one, which takes the next smallest until it is large enough."""
    order = np.argsort(expected, kind="stable")
    order = order[expected[order] > 0]
    small = int((expected[order] < min_expected).sum())
    total = np.cumsum(expected[order])
    while 0 < small < len(order) and total[small - 1] < min_expected:
        small += 1
    if small < 2:
        return counts[order], expected[order]
    merged, kept = order[:small], order[small:]
    return np.r_[counts[merged].sum(), counts[kept]], np.r_[expected[merged].sum(), expected[kept]]


def compositions(n: int, most: ArrayLike) -> Law:
    """float64[outcomes, cells]: every way to put n into cells that hold at most `most`[cell] each.

    Raises ValueError when more than ENUMERABLE prefixes would have to be kept.
    """
    limits = np.minimum(np.asarray(most, dtype=np.int64), n)
    room = np.r_[np.cumsum(limits[::-1])[::-1], 0]
    rows, left = np.zeros((1, 0), dtype=np.int64), np.array([n])
    for cell, limit in enumerate(limits):
        low = np.maximum(left - room[cell + 1], 0)
        choices = np.maximum(np.minimum(left, limit) - low + 1, 0)
        if choices.sum() > ENUMERABLE:
            raise ValueError(f"more than {ENUMERABLE} outcomes: use the Monte-Carlo test")
        parent = np.repeat(np.arange(len(rows)), choices)
        value = np.arange(len(parent)) - np.repeat(np.cumsum(choices) - choices, choices) + low[parent]
        rows, left = np.column_stack([rows[parent], value]), left[parent] - value
    return rows.astype(np.float64)


def _g(counts: Law, law: Law) -> Law:
    """G = 2 sum N log(N / (n p)) over the last axis; infinite where p = 0 was seen."""
    return _g_of(counts, counts.sum(axis=-1, keepdims=True) * law)


def _g_of(counts: Law, expected: Law) -> Law:
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(counts > 0, counts * np.log(counts / expected), 0.0)
    g: Law = np.maximum(2 * terms.sum(axis=-1), 0.0)
    return g


def _result(counts: Law, law: Law, statistic: float, p_value: float, method: str) -> GoodnessOfFit:
    seen = tuple(int(x) for x in counts)
    return GoodnessOfFit(seen, tuple(law.tolist()), sum(seen), statistic, min(p_value, 1.0), method)


def _checked(counts: ArrayLike, p: ArrayLike) -> tuple[Law, Law]:
    seen, law = np.asarray(counts, dtype=np.float64), np.asarray(p, dtype=np.float64)
    if seen.ndim != 1 or seen.shape != law.shape:
        raise ValueError(f"counts have shape {seen.shape}, p has {law.shape}: both must be one row of cells")
    if (seen < 0).any() or (law < 0).any() or abs(law.sum() - 1) > 1e-6:
        raise ValueError("counts must be nonnegative and p a law")
    return seen, law
