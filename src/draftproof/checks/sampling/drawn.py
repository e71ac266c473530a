"""At which temperature were the tokens of an answer drawn, and at any one at all?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from draftproof.checks.sampling.laws import PrefixRow, edge_of, kept_for_sure
from draftproof.checks.sampling.streams import Stream, context
from draftproof.checks.sampling.thermometer import Reading, read
from draftproof.core.distribution import Law, shape
from draftproof.core.probe import KnownModel, OracleRow
from draftproof.core.sampling import Sampling
from draftproof.stats.sequential import EProcess


class Drawn:
    """Streams for which `temperature` was asked, beside the laws at temperature 1 of the tokens that could come.

    `known`: the model that has these laws; None: `rows` are the one-token oracle's. `noise`: RMS error of laws in nats.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        rows: Sequence[PrefixRow],
        known: KnownModel | None,
        *,
        noise: float,
        temperature: float,
    ) -> None:
        self._streams = streams
        self._by_prefix = {(r.stream, r.prefix): r.row for r in rows}
        self._known = known
        self._noise, self._edge = noise, edge_of(noise)
        self._asked = temperature

    def reading(self, *, later: bool, error: float, drafted: bool = False) -> Reading:
        """Of all tokens after the first, or of the first ones. `drafted`: only of streams that drafted, where one did."""
        streams = list(enumerate(self._streams))
        if drafted and any(s.drafted for _, s in streams):
            streams = [(n, s) for n, s in streams if s.drafted]
        visits = [visit for n, stream in streams for visit in self._visits(n, stream, later)]
        return read(visits, self._asked, self._noise, error)

    def misfit(self) -> float:
        """Evidence in nats, by bets on any other law, against the tokens after the first being drawn at the temperature asked for.

        Tokens after one context are exchangeable: they are betted on in an order that is shuffled by a fixed seed.
        """
        visits = [visit for n, stream in enumerate(self._streams) for visit in self._visits(n, stream, True)]
        cells = max((len(law) for law, _ in visits), default=0)
        if cells < 2:
            return 0.0
        shuffle = np.random.default_rng(0)
        laws, tokens, contexts = [np.zeros((0, cells))], [np.zeros(0, dtype=np.int64)], []
        for number, (logprobs, counts) in enumerate(visits):
            tokens.append(shuffle.permutation(np.repeat(np.arange(len(counts)), counts.astype(np.int64))))
            p = np.zeros(cells)
            p[: len(logprobs)] = shape(logprobs, (), Sampling(temperature=self._asked))
            laws.append(np.tile(p, (len(tokens[-1]), 1)))
            contexts += [(number,)] * len(tokens[-1])
        process = EProcess(cells, draft_known=False, noise=self._noise)
        process.observe_many(np.concatenate(laws), np.concatenate(tokens), contexts=contexts)
        return process.max_log_e

    def _visits(self, n: int, stream: Stream, later: bool) -> Iterator[tuple[Law, Law]]:
        came: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for sample in stream.samples:
            for i in range(1 if later else 0, len(sample) if later else min(1, len(sample))):
                came[sample[:i]][sample[i]] += 1
        for counted, cells in zip(came.values(), self._cells(n, stream, list(came)), strict=True):
            if cells is None:
                continue
            logprobs, tokens = cells
            counts = np.array([float(counted[x]) for x in tokens])
            if counts.any():
                yield logprobs, counts

    def _cells(
        self, n: int, stream: Stream, prefixes: Sequence[tuple[int, ...]]
    ) -> Iterable[tuple[Law, Sequence[int]] | None]:
        """Per prefix the log-probabilities of the tokens that could come, and their numbers; None where they are not known."""
        if self._known is not None:
            contexts = [c for c in (context(stream, p) for p in prefixes) if isinstance(c, tuple)]
            laws = self._known.target_many(contexts) if contexts else ()
            return [(law, range(len(law))) for law in laws]
        return [self._listed(self._by_prefix.get((n, p)), stream) for p in prefixes]

    def _listed(self, row: OracleRow | None, stream: Stream) -> tuple[Law, Sequence[int]] | None:
        kept = 0 if row is None else self._sure(row, stream.sampling.top_k)
        if row is None or kept < 2:
            return None
        numbers = {name: number for number, name in enumerate(stream.names)}
        tokens = [numbers.get(t, -1) for t in row.texts[:kept]] if stream.names else list(row.ids[:kept])
        return np.array(row.logprobs[:kept]), tokens

    def _sure(self, row: OracleRow, top_k: int) -> int:
        """How many tokens are sure to be among those that could come. The others are left out: these keep their odds."""
        if not top_k:
            return len(row.ids) if row.complete else 0
        if len(row.ids) <= top_k:
            return 0
        return kept_for_sure(row.logprobs, top_k, self._edge)
