"""The bets of the e-process: what each stakes on, how much of the money it holds at the start, and its factor per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from draftproof.core.distribution import Law
from draftproof.stats.blocks import LENGTHS, BlockBets, Relative
from draftproof.stats.faults import Needs, Rule
from draftproof.stats.learners import Ints, Learner, Rows, context_learners, pooled_learners
from draftproof.stats.verification import Step

SHARES = (1.0, 0.85, 0.65, 0.5, 0.35, 0.2, 0.1, 0.05)
"""Shares of the tokens that come from a named rule: bonus tokens and undrafted ones do not."""

BLOCKS = 0.5
"""Part of a drafted rule's money on `blocks`, the rest on SHARES. Rules that decide every token have no blocks."""

WITH_BLOCKS = (0.08, 0.22, 0.14, 0.14, 0.12, 0.12, 0.09, 0.09)
WITHOUT_BLOCKS = (0.4, 0.12, 0.1, 0.1, 0.08, 0.08, 0.06, 0.06)
WHOLE = (0.86, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02)
"""Weights of SHARES: for rules that are bet on by blocks too, for those that are not, and for those never partial."""

NAMED, POOLED, CONTEXT = 0.5, 0.25, 0.25


@dataclass(frozen=True, slots=True)
class Bet:
    """`fault` is "" for a learner; `share` is the share of tokens that the bet takes to come from the rule;
    `block` K > 0: of the tokens drafted K at a time."""

    name: str
    fault: str
    share: float
    weight: float
    block: int = 0


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
        self._drafted = tuple(f for f in self.faults if not f.everywhere) if draft_known else ()
        self._blocks = BlockBets(len(self._drafted))
        pooled, context = pooled_learners(vocabulary, draft_known), context_learners(vocabulary)
        self._learners = pooled + context
        self.bets = self._named() + _learned(pooled, POOLED) + _learned(context, CONTEXT)
        weights = np.array([b.weight for b in self.bets])
        self.log_weights: Law = np.log(weights / weights.sum())

    def _named(self) -> list[Bet]:
        each = NAMED / max(len(self.faults), 1)
        shares = [
            Bet(f.name, f.name, share, each * weight * (1 - BLOCKS if f in self._drafted else 1.0))
            for f in self.faults
            for share, weight in zip(SHARES, self._share_weights(f), strict=True)
        ]
        blocks = [Bet(f.name, f.name, 1.0, each * BLOCKS / len(LENGTHS), k) for f in self._drafted for k in LENGTHS]
        return shares + blocks

    def _share_weights(self, fault: Rule) -> tuple[float, ...]:
        if not fault.partial:
            return WHOLE
        return WITH_BLOCKS if fault in self._drafted else WITHOUT_BLOCKS

    def factors(self, rows: Rows) -> Factors:
        """Factors of n tokens that all have p(x) > 0; the learners know them afterwards."""
        relative, chi2 = self._against_faults(rows)
        ratios = relative.first_accepted + relative.first_instead
        shares = np.broadcast_to(SHARES, (*ratios.shape, len(SHARES)))
        stakes = [(1 - shares + shares * ratios[:, :, None], shares, chi2)]
        if self._drafted:
            which = [j for j, f in enumerate(self.faults) if not f.everywhere]
            stakes.append((*self._blocks.factors(rows, relative.of(slice(None), which)), chi2[:, which]))
        named = [self._logs(*stake).reshape(len(rows), -1) for stake in stakes]
        learned = [learner.log_factors(rows, self.noise) for learner in self._learners]
        return Factors(np.concatenate([*named, *learned], axis=1), ratios, chi2)

    def _logs(self, factor: Law, share: Law, chi2: Law) -> Law:
        with np.errstate(divide="ignore"):
            logs: Law = np.log(factor)
        if self.noise > 0:
            logs -= np.log1p(self.noise * np.sqrt(chi2)[:, :, None] * share)
        return logs

    def _against_faults(self, rows: Rows) -> tuple[Relative, Law]:
        first, where = _distinct(rows)
        p = rows.p[first]
        step = Step(p, *(None if a is None else a[first] for a in (rows.q, rows.next_top)))
        out = np.zeros((4, len(rows), len(self.faults)))
        chi2 = np.zeros((len(rows), len(self.faults)))

        def relative(law: Law) -> Law:
            return np.divide(law, p, out=np.zeros_like(p), where=p > 0)

        for j, fault in enumerate(self.faults):
            if fault.needs is Needs.LOOKAHEAD and step.next_top is None:
                out[1::2, :, j] = 1.0
                continue
            outcome = fault.outcome(step)
            later = fault.later(step) if fault.p_min > 0 else outcome
            for i, law in enumerate((outcome.accepted, outcome.instead, later.accepted, later.instead)):
                out[i, :, j] = relative(law)[where, rows.x]
            if self.noise > 0:
                chi2[:, j] = np.einsum("nv,nv->n", p, (relative(outcome.law) - 1) ** 2)[where]
        return Relative(*out), chi2


def _learned(learners: Sequence[Learner], money: float) -> list[Bet]:
    names = [learner.name for learner in learners for _ in learner.kappas]
    return [Bet(name, "", 1.0, money / len(names)) for name in names]


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
