"""The bets of the e-process: what each stakes on, how much of the money it holds at the start, and its factor per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from draftproof.core.distribution import Law
from draftproof.stats.faults import Needs, Rule
from draftproof.stats.learners import Ints, Rows, context_learners, pooled_learners
from draftproof.stats.verification import Step

SHARES: tuple[tuple[float, float], ...] = ((1.0, 0.3), (0.8, 0.25), (0.5, 0.2), (0.2, 0.15), (0.05, 0.1))
"""Shares of tokens that come from a named rule, with their weights: bonus tokens and undrafted ones do not."""

NAMED, POOLED, CONTEXT = 0.5, 0.25, 0.25


@dataclass(frozen=True, slots=True)
class Bet:
    """`fault` is "" for a learner; `share` is the share of tokens that the bet takes to come from the rule."""

    name: str
    fault: str
    share: float
    weight: float


@dataclass(frozen=True, slots=True)
class Factors:
    """float64: `logs`[n, bets] = log bet(x)/p(x) less the noise guard; `ratios`[n, faults] = r(x)/p(x); `chi2`[n, faults]."""

    logs: Law
    ratios: Law
    chi2: Law


class Bets:
    """All bets on one audit (or on several streams of one shape). Weights are fixed here, before any token, and sum to 1.

    `noise` is the RMS error nu of log p, in nats: every factor is divided by 1 + nu sqrt(chi2(bet, p)), which by
    Cauchy-Schwarz keeps the expected factor at most 1 to first order under any true law within nu of p.
    """

    def __init__(self, vocabulary: int, draft_known: bool, noise: float, faults: Sequence[Rule]) -> None:
        if vocabulary < 2:
            raise ValueError(f"a vocabulary of {vocabulary} leaves nothing to test")
        if not noise >= 0:
            raise ValueError(f"noise must be at least 0, not {noise}")
        self.noise = noise
        usable = Needs.LOOKAHEAD if draft_known else Needs.TARGET
        self.faults = tuple(f for f in faults if f.needs <= usable)
        self._learners = [(x, POOLED) for x in pooled_learners(vocabulary, draft_known)]
        self._learners += [(x, CONTEXT) for x in context_learners(vocabulary)]
        self.bets = self._named() + self._learned()
        weights = np.array([b.weight for b in self.bets])
        self.log_weights: Law = np.log(weights / weights.sum())

    def _named(self) -> list[Bet]:
        return [
            Bet(f.name, f.name, share, NAMED * weight / len(self.faults))
            for f in self.faults
            for share, weight in SHARES
        ]

    def _learned(self) -> list[Bet]:
        sizes = {group: sum(len(x.kappas) for x, g in self._learners if g is group) for group in (POOLED, CONTEXT)}
        return [Bet(x.name, "", 1.0, group / sizes[group]) for x, group in self._learners for _ in x.kappas]

    def factors(self, rows: Rows) -> Factors:
        """Factors of n tokens that all have p(x) > 0; the learners know them afterwards."""
        ratios, chi2 = self._against_faults(rows)
        shares = np.array([share for share, _ in SHARES])
        with np.errstate(divide="ignore"):
            named = np.log((1 - shares) + ratios[:, :, None] * shares)
        if self.noise > 0:
            named -= np.log1p(self.noise * np.sqrt(chi2)[:, :, None] * shares)
        learned = [learner.log_factors(rows, self.noise) for learner, _ in self._learners]
        return Factors(np.concatenate([named.reshape(len(rows), -1), *learned], axis=1), ratios, chi2)

    def _against_faults(self, rows: Rows) -> tuple[Law, Law]:
        n = len(rows)
        ratios, chi2 = np.ones((n, len(self.faults))), np.zeros((n, len(self.faults)))
        first, where = _distinct(rows)
        p = rows.p[first]
        step = Step(p, *(None if a is None else a[first] for a in (rows.q, rows.next_top)))
        for j, fault in enumerate(self.faults):
            if fault.needs is Needs.LOOKAHEAD and rows.next_top is None:
                continue
            relative = np.divide(fault.law(step), p, out=np.zeros_like(p), where=p > 0)
            ratios[:, j] = relative[where, rows.x]
            if self.noise > 0:
                chi2[:, j] = np.einsum("nv,nv->n", p, (relative - 1) ** 2)[where]
        return ratios, chi2


def _distinct(rows: Rows) -> tuple[Ints, Ints]:
    """Rows to compute and, for each row, which of them is its own: repeated contexts of a large vocabulary are computed once."""
    n = len(rows)
    every = np.arange(n), np.arange(n)
    if rows.p.shape[1] < 64 or len(set(rows.contexts)) == n:
        return every
    number: dict[tuple[int, ...], int] = {}
    where = np.array([number.setdefault(c, len(number)) for c in rows.contexts])
    first = np.unique(where, return_index=True)[1]
    for law in (rows.p, rows.q, rows.next_top):
        if law is not None and not np.array_equal(law[first][where], law):
            return every
    return first, where
