"""Do tokens that may come seldom come too often? An e-process over whether each token is one of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from draftproof.core.distribution import Law

RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
"""How often they are bet to come, with equal shares of half of the money. The other half is never staked."""
_KEPT = 0.5


class Slips:
    """Evidence, in nats, against "such a token comes with a probability of at most so much", valid at every moment.

    A bet on the rate r multiplies its money by r / most where one came, else by 1 - r. With a true rate s <= most the factor is
    s r / most + (1 - s)(1 - r) <= 1 on average, as long as r is at least `most`; lower rates are not bet on.
    """

    def __init__(self) -> None:
        self._wealth: Law = np.full(len(RATES), np.log((1 - _KEPT) / len(RATES)))
        self._has_bet = False

    @property
    def log_e(self) -> float:
        return float(_total(self._wealth)) if self._has_bet else 0.0

    def observe(self, most: Law, came: NDArray[np.bool_]) -> Law:
        """float64[n]: log E after each of n tokens. most: float64[n], 0 where there is no such token; came: bool[n]."""
        at, rates = most[:, None], np.array(RATES)[None, :]
        staked = (at > 0) & (rates >= at)
        self._has_bet |= bool(staked.any())
        if not self._has_bet:
            return np.zeros(len(most))
        won = np.log(np.divide(rates, at, out=np.ones_like(staked, dtype=np.float64), where=staked))
        logs = np.where(staked, np.where(came[:, None], won, np.log1p(-rates)), 0.0)
        wealth = self._wealth + np.cumsum(logs, axis=0)
        if len(wealth):
            self._wealth = wealth[-1]
        return _total(wealth)


def _total(wealth: Law) -> Law:
    total: Law = np.logaddexp(np.log(_KEPT), logsumexp(wealth, axis=-1))
    return total
