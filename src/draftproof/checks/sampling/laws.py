"""The law that each sampled token should follow: exact for a countable model, from the one-token oracle otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from draftproof.checks.contexts import ceiling
from draftproof.checks.sampling.streams import Stream, context
from draftproof.core.distribution import Law, shape
from draftproof.core.probe import KnownModel, OracleRow
from draftproof.core.sampling import Sampling
from draftproof.countable.catalogue import servable
from draftproof.countable.files import open_pair

EDGE = 0.02
"""Which of two tokens top-k keeps is a matter of rounding if they are closer than this (nats), or than 20 times the noise: such
a context is left out, or its tokens near the edge are taken together."""
EDGE_NOISE = 20
LEAST_NOISE = 0.01
"""What noise a law by the oracle is taken to have at least: what is measured with one request at a time may be none at all, and
other tokens in the same batch still move a quantised model's values.
"""
SLIP, SLIP_EDGE = 0.001, 1.0
"""By an oracle, a token that top-k excludes by less than SLIP_EDGE nats may come, with at most this probability: a single one is no
proof."""

LOOK_AHEAD = 8000
"""Contexts after which the draft's next step is still worked out, nine times the work of the others."""

Prefix = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PrefixRow:
    """The oracle's row after `prefix` in the stream of that number; it was there from batch number `batch` on."""

    stream: int
    prefix: Prefix
    row: OracleRow
    batch: int = 0


@dataclass(frozen=True, slots=True)
class Laws:
    """Laws of n tokens over cells. `usable[i]` False: nothing can be said of token i.

    p: float64[n, cells]; q, next_top: the same of the draft and of its top probability after each token, or None; x: int[n].
    `by_id`: cells are token ids. Otherwise they are ranks; the last cell is for the rest (of a law that is not cut) or for
    the tokens near the edge of top-k, the one before it for tokens that top-k excludes without doubt. slip: float64[n], by how
    much more than p the last cell may have.
    """

    p: Law
    slip: Law
    q: Law | None
    next_top: Law | None
    x: NDArray[np.int64]
    usable: NDArray[np.bool_]
    by_id: bool


def known_model(name: str) -> KnownModel:
    """The countable model of that name or folder. Raises UsageError when the folder holds none (any more)."""
    built_in = next((pair for pair in servable() if pair.name == name), None)
    return built_in or open_pair(Path(name))


class LawBook:
    """Looks up the law of a token by its stream and prefix; every context is worked out once.

    The first rows say what a cell is; `add` takes further ones, which change no law that was there before.
    """

    def __init__(
        self, known: KnownModel | None, rows: Sequence[PrefixRow], vocabulary: int | None, noise: float
    ) -> None:
        self.known = known
        self._told = noise
        self._vocabulary = vocabulary
        self._rows: dict[tuple[int, Prefix], OracleRow] = {}
        self._p: dict[tuple[int, Prefix], Law | None] = {}
        self._slip: dict[tuple[int, Prefix], float] = {}
        self._q: dict[tuple[int, Prefix], Law] = {}
        self._next_top: dict[tuple[int, Prefix], Law] = {}
        self._shape(rows)
        self._take(rows)

    def _shape(self, rows: Sequence[PrefixRow]) -> None:
        complete = bool(rows) and all(r.row.complete for r in rows)
        self.by_id = self.known is not None or (complete and self._vocabulary is not None)
        self.noise = self._told if self.by_id else max(self._told, LEAST_NOISE)
        self.edge = edge_of(self.noise)
        self._widest = max((len(r.row.ids) for r in rows), default=1)
        whole = self._vocabulary if self.by_id and self._vocabulary else self._widest + 2
        self.cells = self.known.vocabulary if self.known else whole

    def add(self, rows: Sequence[PrefixRow]) -> bool:
        """Takes further rows. True: they are the first, and say what a cell is.

        Those at the start of an answer say so, for which others there are depends on the tokens that came. Longer lists
        are cut to theirs, and where cells are token ids a row that is not complete is none.
        """
        first = not self._rows and bool(rows) and self.known is None
        if first:
            self._shape([r for r in rows if not r.prefix] or rows)
        self._take(rows)
        return first

    def _take(self, rows: Sequence[PrefixRow]) -> None:
        for r in rows:
            key = (r.stream, r.prefix)
            if key in self._rows or (self.by_id and not r.row.complete):
                continue
            self._rows[key] = r.row if self.by_id else _cut(r.row, self._widest)
            self._p.pop(key, None)

    def laws(self, number: int, stream: Stream, tokens: Sequence[tuple[Prefix, int]]) -> Laws:
        """The laws of tokens, each given as (prefix, token number), of one stream."""
        prefixes = list(dict.fromkeys(prefix for prefix, _ in tokens))
        self._fill(number, stream, prefixes)
        found = [self._p[number, prefix] for prefix, _ in tokens]
        usable = np.array([p is not None for p in found], dtype=bool)
        filler = np.full(self.cells, 1 / self.cells)
        p = np.array([filler if row is None else row for row in found]).reshape(len(tokens), self.cells)
        x = np.array([self._cell(number, stream, prefix, token) for prefix, token in tokens], dtype=np.int64)
        keys = [(number, prefix) for prefix, _ in tokens]
        slip = np.array([self._slip.get(key, 0.0) for key in keys])
        if self.known is None:
            return Laws(p, slip, None, None, x, usable, self.by_id)
        q = np.array([self._q[key] for key in keys]).reshape(p.shape)
        if not all(key in self._next_top for key in keys):
            return Laws(p, slip, q, None, x, usable, self.by_id)
        return Laws(p, slip, q, np.array([self._next_top[key] for key in keys]).reshape(p.shape), x, usable, self.by_id)

    def _fill(self, number: int, stream: Stream, prefixes: Sequence[Prefix]) -> None:
        new = [prefix for prefix in prefixes if (number, prefix) not in self._p]
        if not new:
            return
        if self.known is None:
            for prefix in new:
                row = self._rows.get((number, prefix))
                law = self._p[number, prefix] = self._of_row(row, stream.sampling)
                if row is not None and law is not None and self._is_cut(row, stream.sampling):
                    self._slip[number, prefix] = max(0.0, SLIP - float(law[-1]))
            return
        contexts = [_ids(stream, prefix) for prefix in new]
        temperature = stream.sampling.temperature
        raw = self.known.target_many(contexts)
        drafts = np.exp(_tempered(self.known.draft_many(contexts), temperature))
        for prefix, c, logits, q in zip(new, contexts, raw, drafts, strict=True):
            clear = not _is_close(logits, stream.sampling.top_k, self.edge)
            self._p[number, prefix] = shape(logits, c, stream.sampling) if clear else None
            self._q[number, prefix] = q
        if len(self._next_top) + len(new) > LOOK_AHEAD:
            return
        after = [(*c, token) for c in contexts for token in range(self.cells)]
        tops = np.exp(_tempered(self.known.draft_many(after), temperature)).max(axis=-1).reshape(len(new), -1)
        self._next_top.update({(number, prefix): top for prefix, top in zip(new, tops, strict=True)})

    def _of_row(self, row: OracleRow | None, sampling: Sampling) -> Law | None:
        """The law over cells from an oracle row, or None when the row does not determine it."""
        if row is None:
            return None
        listed = np.array(row.logprobs)
        if self.by_id:
            if _is_close(listed, sampling.top_k, self.edge):
                return None
            logits = np.full(self.cells, -math.inf)
            logits[list(row.ids)] = listed
            return shape(logits, (), sampling)
        p = np.zeros(self.cells)
        if self._is_cut(row, sampling):
            clear = kept_for_sure(row.logprobs, sampling.top_k, self.edge)
            drawn = shape(listed, (), sampling)
            p[:clear] = drawn[:clear]
            p[-1] = drawn[clear:].sum()
        elif sampling == Sampling():
            p[: len(listed)] = np.exp(listed)
            p[-1] = max(0.0, 1 - p.sum())
        else:
            return None
        normalised: Law = p / p.sum()
        return normalised

    def _is_cut(self, row: OracleRow, sampling: Sampling) -> bool:
        """Whether cells are ranks, and top-k drops some that the row lists."""
        return not self.by_id and 0 < sampling.top_k < len(row.ids)

    def name(self, number: int, stream: Stream, prefix: Prefix, cell: int) -> str:
        """The token, or the tokens, of a cell after a prefix, in words."""
        row = self._rows.get((number, prefix))
        if self.known is not None or row is None:
            return self.spell(number, stream, prefix, cell)
        if self.by_id:
            return repr(row.texts[row.ids.index(cell)]) if cell in row.ids else f"token id {cell}"
        if cell < len(row.texts):
            return repr(row.texts[cell])
        cut = 0 < stream.sampling.top_k < len(row.ids)
        return "excluded by top-k" if cell == self.cells - 2 else "at the edge of top-k" if cut else "any other"

    def spell(self, number: int, stream: Stream, prefix: Prefix, token: int) -> str:
        """A token of a sample, by its text where that is known."""
        if self.known is not None:
            return getattr(self.known, "alphabet", "")[token : token + 1] or f"#{token}"
        if stream.names:
            return repr(stream.names[token])
        row = self._rows.get((number, prefix))
        if row is not None and token in row.ids:
            return repr(row.texts[row.ids.index(token)])
        return f"token id {token}"

    def below(self, number: int, stream: Stream, prefix: Prefix, token: int) -> str:
        """How far a token is from those that top-k keeps, in words; "" where the row does not tell."""
        row = self._rows.get((number, prefix))
        top_k = stream.sampling.top_k
        if row is None or stream.names or not 0 < top_k <= len(row.ids):
            return ""
        value = row.logprobs[row.ids.index(token)] if token in row.ids else ceiling(row)
        least = row.logprobs[top_k - 1]
        return (
            f"{'' if token in row.ids else 'at least '}{least - value:.2f} nat below the last that top-k {top_k} keeps"
        )

    def _cell(self, number: int, stream: Stream, prefix: Prefix, token: int) -> int:
        if self.by_id:
            return token
        row = self._rows.get((number, prefix))
        if row is None:
            return 0
        listed: Sequence[int | str] = row.texts if stream.names else row.ids
        wanted: int | str = stream.names[token] if stream.names else token
        at = listed.index(wanted) if wanted in listed else len(listed)
        top_k = stream.sampling.top_k
        if not 0 < top_k < len(listed):
            return at if at < len(listed) else self.cells - 1
        if at < kept_for_sure(row.logprobs, top_k, self.edge):
            return at
        least = row.logprobs[top_k - 1] - max(self.edge, SLIP_EDGE)
        value = row.logprobs[at] if at < len(listed) else ceiling(row)
        return self.cells - 1 if value >= least else self.cells - 2


def edge_of(noise: float) -> float:
    """How near two tokens must be, in nats, for rounding to decide which of them top-k keeps. noise: RMS, in nats."""
    return max(EDGE, EDGE_NOISE * noise)


def kept_for_sure(logprobs: Sequence[float], top_k: int, edge: float) -> int:
    """How many tokens top-k keeps without doubt: those that are `edge` above the first that it drops. logprobs: best first, more
    than top_k.
    """
    return sum(x >= logprobs[top_k] + edge for x in logprobs[:top_k])


def _cut(row: OracleRow, most: int) -> OracleRow:
    """A row's first `most` tokens; whether they are all is asked of the first rows only."""
    return replace(row, ids=row.ids[:most], texts=row.texts[:most], logprobs=row.logprobs[:most])


def _is_close(logprobs: Law, top_k: int, edge: float) -> bool:
    """Whether the last token that top-k keeps and the first that it drops are too close to tell apart."""
    if not 0 < top_k < len(logprobs):
        return False
    ordered = np.sort(logprobs)[::-1]
    return bool(ordered[top_k - 1] - ordered[top_k] < edge)


def _tempered(logprobs: Law, temperature: float) -> Law:
    """The draft samples at the request's temperature, with no other sampler."""
    scaled = logprobs / temperature
    normalised: Law = scaled - np.logaddexp.reduce(scaled, axis=-1, keepdims=True)
    return normalised


def _ids(stream: Stream, prefix: Prefix) -> tuple[int, ...]:
    ids = context(stream, prefix)
    assert isinstance(ids, tuple)
    return ids
