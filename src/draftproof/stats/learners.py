"""Bets that learn an unknown rule from the tokens already seen.

A learner sorts the tokens of a row into cells (by rank, by how the draft compares with the target, by id) and the rows
into groups (all, by position, by the last tokens ...). Before a token of group g is drawn it bets

    bet(x) proportional to p(x) * (N + kappa P) / (E + kappa P)

with N how often x's cell came up in g so far, E the sum of the cell's probabilities then, P its probability now, and
kappa how many tokens the null is worth. With one law p per group and one token per cell this is the Dirichlet(kappa p)
predictive, the mixture of Lindon and Malek 2022 (arXiv 2011.03567). Only past tokens enter, so every bet is a law fixed
before its token is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from draftproof.core.distribution import Law

Ints: TypeAlias = NDArray[np.int64]
Context: TypeAlias = tuple[int, ...]

KAPPAS = (10.0, 100.0, 1000.0)
MAX_CELLS = 64
_PAIRED = 8
_RATIO_EDGES = np.array([-2.0, -1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0, 2.0])
_SURPRISE_EDGES = np.array([0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0])


@dataclass(frozen=True, slots=True)
class Rows:
    """Tokens to bet on, in the order they were drawn.

    p: float64[n, vocab]; x: int[n]; q, next_top: like p, or None. `contexts` are all tokens before each x.
    `streams` numbers independent processes that share the arrays.
    """

    p: Law
    x: Ints
    q: Law | None
    next_top: Law | None
    contexts: Sequence[Context]
    streams: Ints

    def __len__(self) -> int:
        return len(self.x)


Cells: TypeAlias = Callable[[Rows], Ints]
Groups: TypeAlias = Callable[[Rows], list[Hashable]]


def ranks(law: Law) -> Ints:
    """int[n, vocab]: 0 for the most likely token of each row, ties by the lower id."""
    order = np.argsort(-law, axis=-1, kind="stable")
    out = np.empty_like(order)
    np.put_along_axis(out, order, np.arange(law.shape[-1])[None, :], -1)
    return out


def coarse(rank: Ints) -> Ints:
    """Ranks 0..15 as they are, then one cell per doubling: at most 64 cells whatever the vocabulary."""
    octave = np.floor(np.log2(np.maximum(rank, 16) / 16.0)).astype(np.int64)
    return np.minimum(np.where(rank < 16, rank, 16 + octave), MAX_CELLS - 1)


def target_rank(rows: Rows) -> Ints:
    return coarse(ranks(rows.p))


def draft_rank(rows: Rows) -> Ints:
    return target_rank(rows) if rows.q is None else coarse(ranks(rows.q))


def rank_pair(rows: Rows) -> Ints:
    """Rank under the target by rank under the draft, eight of each."""
    assert rows.q is not None
    return _PAIRED * np.minimum(ranks(rows.p), _PAIRED - 1) + np.minimum(ranks(rows.q), _PAIRED - 1)


def draft_ratio(rows: Rows) -> Ints:
    """How much likelier the token is under the draft than under the target, in ten classes."""
    assert rows.q is not None
    tiny = np.finfo(np.float64).tiny
    return np.searchsorted(_RATIO_EDGES, np.log(np.maximum(rows.q, tiny)) - np.log(np.maximum(rows.p, tiny)))


def residual_rank(rows: Rows) -> Ints:
    """Rank by p - q: 0 for the token that the target favours most over the draft."""
    assert rows.q is not None
    return coarse(ranks(rows.p - rows.q))


def certainty_ahead(rows: Rows) -> Ints:
    """The draft's highest probability after the token, in tenths; one cell where it is not known."""
    if rows.next_top is None:
        return np.zeros(rows.p.shape, dtype=np.int64)
    return np.clip((10 * rows.next_top).astype(np.int64), 0, 9)


def surprise(rows: Rows) -> Ints:
    """-log p in eleven classes."""
    return np.searchsorted(_SURPRISE_EDGES, -np.log(np.maximum(rows.p, np.finfo(np.float64).tiny)))


def identity(rows: Rows) -> Ints:
    """The token itself; in a large vocabulary its rank under the target, so that memory stays small."""
    n, vocabulary = rows.p.shape
    if vocabulary > MAX_CELLS:
        return target_rank(rows)
    return np.broadcast_to(np.arange(vocabulary), (n, vocabulary))


def everything(rows: Rows) -> list[Hashable]:
    return [0] * len(rows)


def whole(rows: Rows) -> list[Hashable]:
    return list(rows.contexts)


def position(rows: Rows) -> list[Hashable]:
    return [len(c) for c in rows.contexts]


def last(n: int) -> Groups:
    return lambda rows: [c[-n:] for c in rows.contexts]


@dataclass
class Counts:
    """N and E per group, rows of two growing arrays."""

    cells: int
    index: dict[Hashable, int] = field(default_factory=dict)
    seen: Law = field(default_factory=lambda: np.zeros((0, 0)))
    expected: Law = field(default_factory=lambda: np.zeros((0, 0)))

    def rows(self, keys: Sequence[Hashable]) -> Ints:
        index = self.index
        out = np.fromiter((index.setdefault(k, len(index)) for k in keys), dtype=np.int64, count=len(keys))
        if len(index) > len(self.seen):
            size = max(16, 2 * len(index))
            self.seen, self.expected = _grown(self.seen, size, self.cells), _grown(self.expected, size, self.cells)
        return out


def _grown(x: Law, rows: int, columns: int) -> Law:
    out = np.zeros((rows, columns))
    if x.size:
        out[: len(x)] = x
    return out


@dataclass
class Learner:
    """One way to sort tokens into cells and rows into groups, bet on at each of `kappas`."""

    name: str
    cells: Cells
    groups: Groups
    cell_count: int
    kappas: tuple[float, ...] = KAPPAS

    def __post_init__(self) -> None:
        self._counts = Counts(self.cell_count)

    def log_factors(self, rows: Rows, noise: float) -> Law:
        """float64[n, kappas]: log of bet(x)/p(x), less log(1 + noise sqrt(chi2)); learns the rows afterwards."""
        n, width = len(rows), self.cell_count
        cells = self.cells(rows)
        flat = (np.arange(n)[:, None] * width + cells).ravel()
        sums = np.asarray(np.bincount(flat, weights=rows.p.ravel(), minlength=n * width), dtype=np.float64)
        mass: Law = sums.reshape((n, width))
        cell = cells[np.arange(n), rows.x]
        hit: Law = np.zeros((n, width))
        hit[np.arange(n), cell] = 1.0
        keys: list[Hashable] = list(zip(rows.streams.tolist(), self.groups(rows), strict=True))
        seen, expected = self._past(self._counts.rows(keys), hit, mass)
        out = np.empty((n, len(self.kappas)))
        for k, kappa in enumerate(self.kappas):
            weight = kappa * mass
            lower = expected + weight
            tilt = np.divide(seen + weight, lower, out=np.ones_like(lower), where=lower > 0)
            total = np.einsum("nc,nc->n", mass, tilt)
            out[:, k] = np.log(tilt[np.arange(n), cell] / total)
            if noise > 0:
                chi2 = np.einsum("nc,nc->n", mass, tilt**2) / total**2 - mass.sum(axis=1)
                out[:, k] -= np.log1p(noise * np.sqrt(np.maximum(chi2, 0.0)))
        return out

    def _past(self, group: Ints, hit: Law, mass: Law) -> tuple[Law, Law]:
        """N and E of each row's group before the row; the counts then hold the rows too."""
        counts = self._counts
        order = np.argsort(group, kind="stable")
        ordered = group[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        sizes = np.diff(np.r_[starts, len(ordered)])
        past = []
        for values, total in ((hit, counts.seen), (mass, counts.expected)):
            sums = np.cumsum(values[order], axis=0)
            before = sums - values[order]
            inside = before - np.repeat(before[starts], sizes, axis=0) + total[ordered]
            out = np.empty_like(inside)
            out[order] = np.maximum(inside, 0.0)
            total[ordered[starts]] += sums[starts + sizes - 1] - before[starts]
            past.append(out)
        return past[0], past[1]


def pooled_learners(vocabulary: int, draft_known: bool) -> list[Learner]:
    """Learners over all tokens: what a rule does to high and low ranks, to tokens the draft prefers, at each position."""
    ranked, ratios = _coarse_cells(vocabulary), len(_RATIO_EDGES) + 1
    learners = [
        Learner("rank under the target", target_rank, everything, ranked),
        Learner("surprise under the target", surprise, everything, len(_SURPRISE_EDGES) + 1),
    ]
    if not draft_known:
        return [*learners, Learner("rank under the target at each position", target_rank, position, ranked)]
    return [
        *learners,
        Learner("rank under the draft", draft_rank, everything, ranked),
        Learner("draft against target", draft_ratio, everything, ratios),
        Learner("rank in the residual", residual_rank, everything, ranked),
        Learner("certainty of the draft after the token", certainty_ahead, everything, 10),
        Learner("rank under both", rank_pair, everything, _PAIRED**2),
        Learner("draft against target at each position", draft_ratio, position, ratios),
    ]


def context_learners(vocabulary: int) -> list[Learner]:
    """Learners per context, from no memory of the prefix to all of it: a fault of the joint law shows at some depth."""
    width = vocabulary if vocabulary <= MAX_CELLS else _coarse_cells(vocabulary)
    depths: list[tuple[str, Groups]] = [
        ("token", everything),
        ("token after the last 1", last(1)),
        ("token after the last 2", last(2)),
        ("token after the last 3", last(3)),
        ("token in its context", whole),
    ]
    return [Learner(name, identity, groups, width) for name, groups in depths]


def _coarse_cells(vocabulary: int) -> int:
    return int(coarse(np.array([vocabulary - 1]))[0]) + 1
