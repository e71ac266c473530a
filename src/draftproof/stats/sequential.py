"""The e-process over tokens: evidence that a server does not draw from the law it should, valid at every moment.

Each bet is a law fixed before the token is seen; its wealth is multiplied by bet(x)/p(x). Under a sound server the weighted
sum E of all wealths is a nonnegative supermartingale that starts at 1, so P(E ever reaches 1/alpha) <= alpha whatever the
stopping rule (Ville 1939; Ramdas et al. 2023, arXiv 2210.01948, section 3). Bets: the named rules of `faults`, each at
several shares of the tokens, and the learners of `learners` for rules that nobody named.

Where one cell may come with any probability up to a limit, its tokens are left out of these bets, which are then on the law of
the others, and whether it comes too often is bet on apart (`slips`): the product of both is a supermartingale too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from draftproof.core.distribution import Law
from draftproof.stats.bets import Bets, Factors
from draftproof.stats.faults import FAULTS, Rule
from draftproof.stats.learners import Context, Ints, Rows
from draftproof.stats.shares import share_upper_bound
from draftproof.stats.slips import Slips

_CHUNK = 2048


@dataclass(frozen=True, slots=True)
class Leader:
    """One explanation of the tokens. `fault` is False for a learner: the rule has no name here. `weight` in [0, 1].

    `share` of the tokens came from the rule; `block` K > 0: all those drafted, K at a time.
    """

    name: str
    fault: bool
    share: float
    block: int
    weight: float


@dataclass(frozen=True, slots=True)
class ImpossibleToken:
    """A token of probability 0, with the tokens before it."""

    token: int
    context: Context


class EProcess:
    """Evidence against "every token is drawn from p", in nats: `log_e` now, `max_log_e` at its best.

    vocabulary: number of tokens, or of cells (the most likely tokens, and all others as one). `draft_known`: q comes with every
    token. `noise`: RMS error of log p in nats, measured on the server. `faults`: the rules to bet on.
    Reject at false-alarm probability alpha when `max_log_e` >= log(1/alpha). Tokens of p = 0 are listed in `impossible`, which
    refutes p without any error probability, and change nothing else.
    """

    def __init__(self, vocabulary: int, draft_known: bool, noise: float = 0.0, faults: Sequence[Rule] = FAULTS) -> None:
        self.vocabulary = vocabulary
        self.draft_known = draft_known
        self.noise = noise
        self.tokens = 0
        self.max_log_e = 0.0
        self.impossible: list[ImpossibleToken] = []
        self._bets = Bets(vocabulary, draft_known, noise, faults)
        self._wealth: Law = self._bets.log_weights.copy()
        self._slips = Slips()
        self._by_position: dict[int, Law] = {}
        self._ratios: list[Law] = []
        self._root_chi2: Law = np.zeros(len(self._bets.faults))

    @property
    def log_e(self) -> float:
        return self._by_bets + self._slips.log_e

    @property
    def _by_bets(self) -> float:
        return float(logsumexp(self._wealth))

    @property
    def slips_lead(self) -> bool:
        """Whether tokens that may come seldom say more against p than all others."""
        return self._slips.log_e > self._by_bets

    def observe(
        self,
        p: ArrayLike,
        x: int,
        *,
        q: ArrayLike | None = None,
        next_top: ArrayLike | None = None,
        context: Context = (),
    ) -> float:
        """Log E after one token: `observe_many` with one row, p and q float[vocabulary]."""
        rows = [None if a is None else np.asarray(a, dtype=np.float64)[None, :] for a in (p, q, next_top)]
        assert rows[0] is not None
        return float(self.observe_many(rows[0], [x], q=rows[1], next_top=rows[2], contexts=[context])[0])

    def observe_many(
        self,
        p: ArrayLike,
        x: ArrayLike,
        *,
        q: ArrayLike | None = None,
        next_top: ArrayLike | None = None,
        contexts: Sequence[Context] | None = None,
        slip: ArrayLike = 0.0,
    ) -> Law:
        """float64[n]: log E after each of n tokens, in the order they were drawn.

        p, q: float[n, vocabulary], laws of target and draft; x: int[n]; next_top[i, v]: the draft's highest probability
        after v (None: rules that look ahead are not bet on). contexts: the tokens before each x, prompt included or
        not, the same way throughout. Equal contexts must mean equal p for learning to help; nothing else rests on it.
        slip: float or float[n], how much the last cell may have beyond p, at the cost of the others (0: it has what p says).
        Raises ValueError for shapes that do not fit, laws that do not sum to 1, or a draft that is missing.
        """
        rows = make_rows(self.vocabulary, self.draft_known, p, x, q, next_top, contexts)
        slips: Law = np.broadcast_to(np.asarray(slip, dtype=np.float64), len(rows))
        may_slip = slips > 0
        slipped = may_slip & (rows.x == self.vocabulary - 1)
        by_slips = self._slips.observe(np.where(may_slip, rows.p[:, -1] + slips, 0.0), slipped)
        if may_slip.any():
            rows = replace(rows, p=_without_last(rows.p, may_slip))
        log_e = np.empty(len(rows))
        for start in range(0, len(rows), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            log_e[chunk] = self._observe(select(rows, chunk), slipped[chunk])
        log_e += by_slips
        self.max_log_e = max(self.max_log_e, float(log_e.max(initial=0.0)))
        return log_e

    def _observe(self, rows: Rows, slipped: NDArray[np.bool_]) -> Law:
        """Log of the wealth after each token, without what slips show."""
        possible = rows.p[np.arange(len(rows)), rows.x] > 0
        self.tokens += len(rows)
        self.impossible += [
            ImpossibleToken(int(rows.x[i]), rows.contexts[i]) for i in np.flatnonzero(~possible & ~slipped).tolist()
        ]
        before, log_e = self._by_bets, np.empty(len(rows))
        if possible.any():
            factors = self._bets.factors(select(rows, possible))
            wealth = self._wealth + np.cumsum(factors.logs, axis=0)
            self._wealth = wealth[-1]
            log_e[possible] = logsumexp(wealth, axis=1)
            self._remember(select(rows, possible), factors)
        return _carried(log_e, possible, before)

    def _remember(self, rows: Rows, factors: Factors) -> None:
        self._ratios.append(factors.ratios)
        self._root_chi2 += np.sqrt(factors.chi2).sum(axis=0)
        positions = np.array([len(c) for c in rows.contexts])
        for at in np.unique(positions).tolist():
            before = self._by_position.get(at, self._bets.log_weights)
            self._by_position[at] = before + factors.logs[positions == at].sum(axis=0)

    def position_log_e(self) -> dict[int, float]:
        """Log of the e-value of the tokens at each position (number of tokens before), each valid alone; their mean is one too."""
        return {at: float(logsumexp(wealth)) for at, wealth in sorted(self._by_position.items())}

    def leading(self, k: int = 3) -> list[Leader]:
        """The k explanations with the largest posterior weight (prior: the bets' weights), shares of one rule taken together."""
        weights = np.exp(self._wealth - self._by_bets)
        total: dict[tuple[str, bool], float] = {}
        best: dict[tuple[str, bool], tuple[float, float, int]] = {}
        for bet, weight in zip(self._bets.bets, weights.tolist(), strict=True):
            key = (bet.name, bool(bet.fault))
            total[key] = total.get(key, 0.0) + weight
            best[key] = max(best.get(key, (-1.0, 0.0, 0)), (weight, bet.share, bet.block))
        ordered = sorted(total, key=lambda key: -total[key])[:k]
        return [Leader(name, fault, *best[name, fault][1:], total[name, fault]) for name, fault in ordered]

    def share_bounds(self, error: float) -> dict[str, float]:
        """Upper bound on the share of tokens that came from each named rule (`shares.share_upper_bound`).

        Each bound alone is wrong with probability at most `error`; divide it by the number of bounds that must hold together.
        """
        faults = self._bets.faults
        ratios = np.concatenate(self._ratios) if self._ratios else np.zeros((0, len(faults)))
        return {
            f.name: share_upper_bound(ratios[:, j], error, self.noise, float(self._root_chi2[j]))
            for j, f in enumerate(faults)
        }


def parallel_log_e(rows: Rows, draft_known: bool, noise: float = 0.0, faults: Sequence[Rule] = FAULTS) -> Law:
    """float64[n]: log E after each token of many independent audits at once, each numbered by `rows.streams`.

    The same numbers as one `EProcess` per stream; for planning, calibration and benches. Every p(x) must be positive.
    """
    bets = Bets(rows.p.shape[1], draft_known, noise, faults)
    wealth: dict[int, Law] = {}
    out = np.empty(len(rows))
    for start in range(0, len(rows), _CHUNK):
        chunk = select(rows, slice(start, start + _CHUNK))
        logs = bets.factors(chunk).logs
        order = np.argsort(chunk.streams, kind="stable")
        borders = np.flatnonzero(np.diff(chunk.streams[order])) + 1
        for members in np.split(order, borders):
            stream = int(chunk.streams[members[0]])
            grown = wealth.get(stream, bets.log_weights) + np.cumsum(logs[members], axis=0)
            wealth[stream] = grown[-1]
            logs[members] = grown
        out[start : start + _CHUNK] = logsumexp(logs, axis=1)
    return out


def make_rows(
    vocabulary: int,
    draft_known: bool,
    p: ArrayLike,
    x: ArrayLike,
    q: ArrayLike | None,
    next_top: ArrayLike | None,
    contexts: Sequence[Context] | None,
) -> Rows:
    """Checked arrays of one stream. Raises ValueError as `EProcess.observe_many` says."""
    tokens: Ints = np.asarray(x, dtype=np.int64)
    n = len(tokens)
    laws = {
        name: None if a is None else np.asarray(a, dtype=np.float64)
        for name, a in (("p", p), ("q", q), ("next_top", next_top))
    }
    for name, law in laws.items():
        if law is not None and law.shape != (n, vocabulary):
            raise ValueError(f"{name} has shape {law.shape}, expected {(n, vocabulary)}")
        if law is not None and name != "next_top":
            _check_law(name, law)
    if draft_known and laws["q"] is None:
        raise ValueError("the draft is known, but q is missing")
    if n and (tokens.min() < 0 or tokens.max() >= vocabulary):
        raise ValueError(f"tokens must lie in 0..{vocabulary - 1}")
    known: Sequence[Context] = [()] * n if contexts is None else contexts
    if len(known) != n:
        raise ValueError(f"{len(known)} contexts for {n} tokens")
    assert laws["p"] is not None
    draft = (laws["q"], laws["next_top"]) if draft_known else (None, None)
    return Rows(laws["p"], tokens, *draft, known, np.zeros(n, dtype=np.int64))


def _check_law(name: str, law: Law) -> None:
    if not np.isfinite(law).all() or (law < 0).any():
        raise ValueError(f"{name} must be finite and nonnegative")
    off = np.abs(law.sum(axis=1) - 1).max(initial=0.0)
    if off > 1e-6:
        raise ValueError(f"{name} must sum to 1; it is off by {off:.2g}")


def select(rows: Rows, which: slice | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Rows:
    """The rows of a slice or a boolean mask."""
    laws = [None if a is None else a[which] for a in (rows.q, rows.next_top)]
    contexts = (
        rows.contexts[which]
        if isinstance(which, slice)
        else [c for c, keep in zip(rows.contexts, which.tolist(), strict=True) if keep]
    )
    return Rows(rows.p[which], rows.x[which], laws[0], laws[1], contexts, rows.streams[which])


def _without_last(p: Law, which: NDArray[np.bool_]) -> Law:
    """The laws of some rows given that the last cell does not come."""
    out = p.copy()
    out[which, -1] = 0.0
    out[which] /= out[which].sum(axis=1, keepdims=True)
    return out


def _carried(values: Law, known: np.ndarray[tuple[int], np.dtype[np.bool_]], otherwise: float) -> Law:
    """Values where known; elsewhere the last known one before, or `otherwise` at the start."""
    if known.all():
        return values
    last = np.maximum.accumulate(np.where(known, np.arange(len(values)), -1))
    return np.where(last >= 0, values[np.maximum(last, 0)], otherwise)
