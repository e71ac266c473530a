"""Bets that follow the blocks of a speculating server.

A server that drafts K tokens at a time decides up to K of them by its rule, and the next one, the bonus, by the target
alone. Which it is cannot be seen, but the tokens before tell: the bet keeps the probability of each place in the block
(the forward filter of a hidden Markov model, Rabiner 1989, section III.A) and stakes on the law that follows. Places are
weighed before the token is seen, so every bet is a law.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from draftproof.core.distribution import Law
from draftproof.stats.learners import Context, Ints, Rows

LENGTHS = (1, 2, 3, 4, 5, 8, 16)
"""K that are bet on, each alike."""

FIRST_PLACE = 0.9
"""Weight of the block's first place where an answer begins; the other places share the rest."""

RESTART = 0.02
"""Probability that the server begins a new block for reasons of its own: no draft, a budget, a pause."""

REMEMBERED = 8192
"""Unfinished answers whose places are kept; one forgotten begins anew, which costs power and nothing else."""

_ENDS = np.cumsum(np.array(LENGTHS) + 1).tolist()
_SEGMENTS = [slice(end - k - 1, end) for k, end in zip(LENGTHS, _ENDS, strict=True)]
_OPENING = np.concatenate([[FIRST_PLACE] + [(1 - FIRST_PLACE) / k] * k for k in LENGTHS])


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
    """Places in the block for `rules` rules and every K, kept per unfinished answer, in whatever order answers grow.

    A place array is float64[rules, places]: for each K its K places and the bonus, one K after the other. It follows from the
    tokens of the answer alone, so answers with the same tokens share it.
    """

    rules: int
    _open: dict[tuple[int, Context], Law] = field(default_factory=dict)

    def factors(self, rows: Rows, relative: Relative) -> tuple[Law, Law]:
        """float64[n, rules, lengths] each: bet(x)/p(x), and the probability that the token was decided by the rule."""
        factor = np.empty((len(rows), self.rules, len(LENGTHS)))
        ruled = np.empty_like(factor)
        before = _predecessors(rows)
        place_of = np.full(len(rows), -1)
        here = np.flatnonzero(before < 0)
        places = self._openings(rows, here)
        while len(here):
            now, after = relative.of(here, slice(None)), np.empty_like(places)
            for k, segment in enumerate(_SEGMENTS):
                ruled[here, :, k] = 1 - places[:, :, segment.stop - 1]
                factor[here, :, k] = _step(places[:, :, segment], now, after[:, :, segment])
            place_of[here] = np.arange(len(here))
            following = np.flatnonzero(np.isin(before, here))
            last = ~np.isin(here, before[following])
            self._keep(rows, here[last], after[last])
            here, places = following, after[place_of[before[following]]]
        return factor, ruled

    def _openings(self, rows: Rows, here: Ints) -> Law:
        """float64[here, rules, places] where an answer begins, or where an earlier row left it."""
        opening = np.broadcast_to(_OPENING, (self.rules, len(_OPENING)))
        left = [self._open.get((int(rows.streams[i]), rows.contexts[i]), opening) for i in here.tolist()]
        return np.stack(left) if left else np.empty((0, *opening.shape))

    def _keep(self, rows: Rows, here: Ints, places: Law) -> None:
        """Remember where an answer may go on; the oldest are forgotten."""
        for i, after in zip(here.tolist(), places, strict=True):
            key = (int(rows.streams[i]), (*rows.contexts[i], int(rows.x[i])))
            self._open.pop(key, None)
            self._open[key] = after.copy()
        while len(self._open) > REMEMBERED:
            del self._open[next(iter(self._open))]


def _predecessors(rows: Rows) -> Ints:
    """For each row the row of the token before it in the same answer (or in one with the same tokens), or -1."""
    seen: dict[tuple[int, Context], int] = {}
    out = []
    for i, (stream, context, x) in enumerate(zip(rows.streams.tolist(), rows.contexts, rows.x.tolist(), strict=True)):
        out.append(seen.get((stream, context), -1))
        seen[stream, (*context, x)] = i
    return np.array(out, dtype=np.int64)


def _step(places: Law, r: Relative, after: Law) -> Law:
    """bet(x)/p(x), float64[n, rules], for one K; writes the places afterwards."""
    first, bonus = places[:, :, 0], places[:, :, -1]
    later = np.maximum(1 - first - bonus, 0.0)
    back = first * r.first_instead + later * r.later_instead + bonus
    total: Law = back + first * r.first_accepted + later * r.later_accepted
    scale = np.divide(1 - RESTART, total, out=np.zeros_like(total), where=total > 0)
    np.multiply(places[:, :, 1:-1], (r.later_accepted * scale)[:, :, None], out=after[:, :, 2:])
    after[:, :, 1] = first * r.first_accepted * scale
    after[:, :, 0] = RESTART + back * scale
    length = places.shape[2] - 1
    after[total <= 0] = [FIRST_PLACE] + [(1 - FIRST_PLACE) / length] * length
    return total
