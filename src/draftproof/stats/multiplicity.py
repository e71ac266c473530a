"""One false-alarm probability for a whole audit, divided over its checks before the first request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, log
from types import MappingProxyType


@dataclass(frozen=True)
class ErrorBudget:
    """`alpha` is the false-alarm probability of all checks together; `weights` (any positive numbers) divide it.

    Check j fails on an e-value of at least 1/(w_j alpha), or a p-value of at most w_j alpha: weighted Bonferroni, valid under
    any dependence (for e-values Wang and Ramdas 2022, arXiv 2009.02824, section 2). Raises ValueError for alpha outside
    (0, 1), no checks, or a weight that is not positive.
    """

    alpha: float
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha must lie in (0, 1), not {self.alpha}")
        if not self.weights or any(not w > 0 for w in self.weights.values()):
            raise ValueError("every check needs a positive weight")
        object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))

    @classmethod
    def equal(cls, alpha: float, checks: tuple[str, ...]) -> ErrorBudget:
        return cls(alpha, dict.fromkeys(checks, 1.0))

    def share(self, check: str) -> float:
        """The check's own false-alarm probability. All shares sum to alpha. Raises KeyError for an unknown check."""
        return self.alpha * self.weights[check] / sum(self.weights.values())

    def log_threshold(self, check: str) -> float:
        """log of the e-value at which the check fails."""
        return -log(self.share(check))

    def rejects(self, check: str, log_e: float) -> bool:
        return log_e >= self.log_threshold(check)

    def log_e_total(self, log_e: Mapping[str, float]) -> float:
        """log of the weighted mean of the checks' e-values: one e-value for the audit, valid under any dependence.

        A check that is not in `log_e` counts with its starting value 1. Raises KeyError for an unknown check.
        """
        unknown = log_e.keys() - self.weights.keys()
        if unknown:
            raise KeyError(f"no weight was set for {sorted(unknown)}")
        terms = {check: log(self.share(check) / self.alpha) + log_e.get(check, 0.0) for check in self.weights}
        largest = max(terms.values())
        if largest == float("-inf"):
            return largest
        return largest + log(sum(exp(t - largest) for t in terms.values()))
