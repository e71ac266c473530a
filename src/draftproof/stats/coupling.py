"""Total variation from agreement: the same seed asked twice, once under each condition.

Two laws drawn with common randomness differ in total variation by at most the probability that the draws differ (the
coupling inequality; Lindvall 1992, section I.2). The bound falls as 1/n, where counting falls as 1/sqrt(n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draftproof.core.bounds import at_most
from draftproof.core.verdict import Statement
from draftproof.stats.intervals import clopper_pearson_upper, mean_upper

ZERO_WEIGHT = 0.9


@dataclass(frozen=True, slots=True)
class CouplingBound:
    """Mean total variation per token is at most `bound`, wrong with probability at most `error`."""

    bound: float
    mismatches: int
    n: int
    error: float
    method: str

    def statement(self, what: str) -> Statement:
        """`what` names the two conditions, such as "speculation on and off"."""
        return Statement(
            f"{self.mismatches} of {self.n} tokens differ between {what} at equal seeds: total variation per token "
            f"is at most {at_most(self.bound)}",
            self.n,
            self.method,
            self.error,
            {"bound": self.bound, "mismatches": float(self.mismatches)},
        )


def coupling_bound(mismatches: int, n: int, error: float, fixed_n: bool = False) -> CouplingBound:
    """Upper bound on the mean over compared tokens of the total variation between the two conditions.

    n tokens were compared, each up to and including its answer's first mismatch (`compare`). fixed_n True: n was fixed
    before the data and the comparisons are independent, such as one token per request (Clopper-Pearson). False, the default,
    and the right one whenever answers end at their first mismatch: valid at every n at once; with no mismatch it is
    1 - (.9 error)^(1/n). It says nothing of what both conditions share. n = 0 gives 1.
    Raises ValueError for mismatches outside 0..n.
    """
    if fixed_n:
        return CouplingBound(
            float(clopper_pearson_upper(mismatches, n, error)), mismatches, n, error, "seed coupling, Clopper-Pearson"
        )
    bound = float(mean_upper(mismatches, n, error, zero_weight=ZERO_WEIGHT))
    return CouplingBound(bound, mismatches, n, error, "seed coupling, anytime-valid")


def compare(first: Sequence[int], second: Sequence[int]) -> tuple[int, int]:
    """(mismatches, tokens compared) of two answers: all up to and including the first mismatch, so mismatches is 0 or 1.

    An answer that ends where the other goes on is a mismatch, unless both were cut at one token budget.
    """
    for i, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return 1, i + 1
    shorter = min(len(first), len(second))
    return (0, shorter) if len(first) == len(second) else (1, shorter + 1)
