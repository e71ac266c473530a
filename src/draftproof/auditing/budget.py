"""The error budget of an audit, shared out among the checks that can be wrong by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from draftproof.checks.check import AnyCheck
from draftproof.stats.multiplicity import ErrorBudget


def alpha_shares(checks: Sequence[AnyCheck], alpha: float) -> Mapping[str, float]:
    """Each check's part of `alpha` by name; 0 for checks that only fail on a contradiction. The parts add up to `alpha`."""
    statistical = tuple(c.name for c in checks if c.statistical)
    shares = dict.fromkeys((c.name for c in checks), 0.0)
    if statistical:
        budget = ErrorBudget.equal(alpha, statistical)
        shares.update((name, budget.share(name)) for name in statistical)
    return shares
