"""Bets that follow the blocks of a speculating server.

A server that drafts K tokens at a time decides up to K of them by its rule, and the next one, the bonus, by the target
alone. Which it is cannot be seen, but the tokens before tell: the bet keeps the probability of each place in the block
(the forward filter of a hidden Markov model, Rabiner 1989, section III.A) and stakes on the law that follows. Places are
weighed before the token is seen, so every bet is a law.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from draftproof.core.distribution import Law
from draftproof.stats.learners import Context, Ints, Rows

LENGTHS = (1, 2, 3, 4, 5, 8, 16)
"""K that are bet on, each alike."""

FIRST_PLACE = 0.9
"""Weight of the block's first place where an answer begins; the other places share the rest."""

RESTART = 0.02
"""Probability that the server begins a new block for reasons of its own: no draft, a budget, a pause."""

Places: TypeAlias = list[Law]
"""For each K float64[rules, K + 1] (or [n, rules, K + 1]): probability that the next token stands at each place, the bonus last."""


@dataclass(frozen=True, slots=True)
class Relative:
    """A rule's outcome at the observed token over p(x): float64[n, rules], at the first place of a block and at later ones."""

    first_accepted: Law
    first_instead: Law
    later_accepted: Law
    later_instead: Law

    def of(self, rows: Ints | slice, rules: list[int] | slice) -> Relative:
        parts = (self.first_accepted, self.first_instead, self.later_accepted, self.later_instead)
        return Relative(*(part[rows][:, rules] for part in parts))


@dataclass
class BlockBets:
    """Places in the block for `rules` rules and every K, carried from call to call for an answer that goes on."""

    rules: int
    _open: dict[int, tuple[Context, Places]] = field(default_factory=dict)

    def factors(self, rows: Rows, relative: Relative) -> tuple[Law, Law]:
        """float64[n, rules, lengths] each: bet(x)/p(x), and the probability that the token was decided by the rule."""
        factor = np.empty((len(rows), self.rules, len(LENGTHS)))
        ruled = np.empty_like(factor)
        depth = _depths(rows)
        here = np.flatnonzero(depth == 0)
        places = self._openings(rows, here)
        while len(here):
            for k, before in enumerate(places):
                ruled[here, :, k] = 1 - before[:, :, -1]
                factor[here, :, k], places[k] = _step(before, relative.of(here, slice(None)))
            self._keep(rows, here, places)
            goes_on = np.isin(here + 1, np.flatnonzero(depth > 0))
            here = here[goes_on] + 1
            places = [after[goes_on] for after in places]
        return factor, ruled

    def _openings(self, rows: Rows, here: Ints) -> Places:
        """Places where an answer begins, or where the last call left it."""
        places = [np.broadcast_to(_opening(k), (len(here), self.rules, k + 1)).copy() for k in LENGTHS]
        for n, i in enumerate(here.tolist()):
            context, left = self._open.get(int(rows.streams[i]), (None, []))
            if context == rows.contexts[i]:
                for k, kept in enumerate(left):
                    places[k][n] = kept
        return places

    def _keep(self, rows: Rows, here: Ints, places: Places) -> None:
        """Remember the last row of each stream."""
        streams, last = rows.streams, len(rows) - 1
        for n, i in enumerate(here.tolist()):
            if i == last or streams[i + 1] != streams[i]:
                context = (*rows.contexts[i], int(rows.x[i]))
                self._open[int(streams[i])] = (context, [after[n].copy() for after in places])


def _opening(length: int) -> Law:
    places = np.full(length + 1, (1 - FIRST_PLACE) / length)
    places[0] = FIRST_PLACE
    return places


def _depths(rows: Rows) -> Ints:
    """How many rows directly before this one belong to the same answer."""
    depth = [0] * len(rows)
    streams, x, contexts = rows.streams.tolist(), rows.x.tolist(), rows.contexts
    for i in range(1, len(depth)):
        if streams[i] == streams[i - 1] and contexts[i][:-1] == contexts[i - 1] and contexts[i][-1:] == (x[i - 1],):
            depth[i] = depth[i - 1] + 1
    return np.array(depth, dtype=np.int64)


def _step(places: Law, r: Relative) -> tuple[Law, Law]:
    """bet(x)/p(x), float64[n, rules], and the places afterwards."""
    first, bonus = places[:, :, 0], places[:, :, -1]
    later = np.maximum(1 - first - bonus, 0.0)
    back = first * r.first_instead + later * r.later_instead + bonus
    total = back + first * r.first_accepted + later * r.later_accepted
    scale = np.divide(1 - RESTART, total, out=np.zeros_like(total), where=total > 0)
    after = np.empty_like(places)
    np.multiply(places[:, :, 1:-1], (r.later_accepted * scale)[:, :, None], out=after[:, :, 2:])
    after[:, :, 1] = first * r.first_accepted * scale
    after[:, :, 0] = RESTART + back * scale
    after[total <= 0] = _opening(places.shape[2] - 1)
    return total, after
