"""What the samples say so far: evidence against the law, and how far from it the server can be."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from draftproof.checks.sampling.laws import LawBook, Laws, Prefix, PrefixRow
from draftproof.checks.sampling.streams import UNSEEDED, Stream, batch_ends
from draftproof.client.coupling import predict, predict_for
from draftproof.core.distribution import Law
from draftproof.core.mt19937 import MT19937, draws_of
from draftproof.core.probe import KnownModel
from draftproof.core.verdict import Statement
from draftproof.stats.coupling import coupling_bound
from draftproof.stats.equivalence import mean_tv_upper
from draftproof.stats.sequential import EProcess

SUSPECT = math.log(100)
"""An honest server ends above this in at most 1 of 100 audits, however often it was looked at: then more samples are drawn, and no
pass by counts is given, though it is far from a proof."""

COUPLED_SHARE = 0.1
"""Above this share of mismatches the server is called not coupled: its draws are not the ones replayed."""
COUPLED_LEAST = 30


def option(samples: float) -> str:
    """`--samples` with at least so many, as a round number with a quarter to spare: bounds vary by chance."""
    step = 10 ** max(1, math.floor(math.log10(max(samples, 1.0))) - 1)
    return f"--samples {math.ceil(1.25 * samples / step) * step}"


@dataclass
class Coupling:
    """Tokens beside the ones that the seeds should give. Token 1 is never speculated: it shows whether the replay is right."""

    control_tokens: int = 0
    control_mismatches: int = 0
    tokens: int = 0
    mismatches: int = 0

    @property
    def holds(self) -> bool:
        return (
            self.control_tokens >= COUPLED_LEAST
            and self.control_mismatches <= COUPLED_SHARE * self.control_tokens
            and self.tokens >= COUPLED_LEAST
            and self.mismatches <= COUPLED_SHARE * self.tokens
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """Total variation from the target's law is at most `tv`; `n` values went into it; `kind` is "seeds" or "counts"."""

    tv: float
    n: int
    kind: str
    statement: Statement

    def missing(self, target: float) -> int:
        """About how many more values a bound of `target` takes: it falls as 1/n by seeds, as 1/sqrt(n) by counts."""
        if not self.n:
            return 0
        power = 1 if self.kind == "seeds" else 2
        return max(1, math.ceil(self.n * (self.tv / target) ** power) - self.n)


class _New:
    """The samples `which` of a stream. `predictable`: those of them whose seeds have given just their tokens so far."""

    def __init__(self, number: int, stream: Stream, which: range, replayed: bool) -> None:
        self.number, self.stream, self.which = number, stream, which
        self.depth = max(len(stream.samples[i]) for i in which)
        self.predictable = {i for i in which if replayed and stream.seeds[i] != UNSEEDED}
        seeds = [max(stream.seeds[i], 0) for i in which]
        self.uniforms = draws_of(seeds, self.depth) if self.predictable else np.zeros((0, 0))


@dataclass
class Assessment:
    """Fed with streams as they grow, batch by batch; every sample is looked at once, with the laws there were at that time.

    The order is by batch, then by position, then by stream and sample: which prefixes have a law may depend on the tokens
    before in any stream of the batch, never on the token that is judged nor on those after it, so the products stay
    martingales whenever sampling ends. `later_log_e` and `first_log_e` hold them after each token, an array per step.
    """

    book: LawBook
    coupling_rule: str
    seen: dict[int, int] = field(default_factory=dict)
    coupling: Coupling = field(default_factory=Coupling)

    def __post_init__(self) -> None:
        self.later_log_e: list[Law] = []
        self.first_log_e: list[Law] = []
        self.counts: dict[int, dict[Prefix, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
        self._begin()

    def _begin(self) -> None:
        drafts = self.book.known is not None
        self.later = EProcess(self.book.cells, drafts, self.book.noise)
        self.first = EProcess(self.book.cells, drafts, self.book.noise)

    def observe(
        self, streams: Sequence[Stream], ends: Sequence[int] | None = None, rows: Sequence[PrefixRow] = ()
    ) -> None:
        """Takes in a batch: what is new in each stream, up to sample number `ends[i]` of stream i where given.

        rows: laws that the batch brought with it, for it and for those after it.
        """
        if self.book.add(rows):
            self._begin()  # nothing was judged without a law
        batch = []
        for number, stream in enumerate(streams):
            start, end = self.seen.get(number, 0), len(stream.samples) if ends is None else ends[number]
            if end > start:
                self.seen[number] = end
                batch.append(_New(number, stream, range(start, end), self.coupling_rule == MT19937))
        for position in range(max((new.depth for new in batch), default=0)):
            for new in batch:
                self._observe(new, position)

    def _observe(self, new: _New, position: int) -> None:
        stream = new.stream
        who = [i for i in new.which if len(stream.samples[i]) > position]
        if not who:
            return
        tokens = [(stream.samples[i][:position], stream.samples[i][position]) for i in who]
        laws = self.book.laws(new.number, stream, tokens)
        self._bet(new.number, stream, position, who, laws)
        if new.predictable:
            self._couple(new, position, who, laws)

    def _bet(self, number: int, stream: Stream, position: int, who: Sequence[int], laws: Laws) -> None:
        use = laws.usable
        if not use.any():
            return
        prefixes = [stream.samples[i][:position] for i, usable in zip(who, use, strict=True) if usable]
        log_e = (self.later if position else self.first).observe_many(
            laws.p[use],
            laws.x[use],
            slip=laws.slip[use],
            q=None if laws.q is None else laws.q[use],
            next_top=None if laws.next_top is None else laws.next_top[use],
            contexts=[(-1 - number, *prefix) for prefix in prefixes],
        )
        (self.later_log_e if position else self.first_log_e).append(log_e)
        if position == 1:
            for prefix, x in zip(prefixes, laws.x[use].tolist(), strict=True):
                self.counts[number][prefix][x] += 1

    def _couple(self, new: _New, position: int, who: Sequence[int], laws: Laws) -> None:
        predictable = new.predictable
        u = new.uniforms[[i - new.which.start for i in who], position]
        found = predict_for(new.stream.sampling, laws.p, u) if laws.by_id else predict(laws.p, u)
        for i, usable, x, expected in zip(
            who, laws.usable.tolist(), laws.x.tolist(), found.tokens.tolist(), strict=True
        ):
            if i not in predictable:
                continue
            same = x == expected
            if not usable or not same:
                predictable.discard(i)
            if not usable:
                continue
            if position == 0:
                self.coupling.control_tokens += 1
                self.coupling.control_mismatches += not same
            else:
                self.coupling.tokens += 1
                self.coupling.mismatches += not same

    def bound(self, streams: Sequence[Stream], error: float) -> Bound | None:
        """The smaller of the bound by seeds, where the server draws as replayed, and the one by counts; None: there is neither.

        Each is made at half of `error`, so that the choice between them costs nothing more.
        """
        bounds = [b for b in (self._by_seeds(error / 2), self._by_counts(streams, error / 2)) if b is not None]
        return min(bounds, key=lambda b: b.tv, default=None)

    def _by_seeds(self, error: float) -> Bound | None:
        if not self.coupling.holds:
            return None
        c = coupling_bound(self.coupling.mismatches, self.coupling.tokens, error)
        statement = c.statement("the server's answers and the target's own draws")
        return Bound(c.bound, self.coupling.tokens, "seeds", statement)

    def _by_counts(self, streams: Sequence[Stream], error: float) -> Bound | None:
        counted = self.counts.get(0)
        if not counted:
            return None
        prefixes = sorted(counted)
        cell = 0  # what was counted are cells, not tokens
        laws = self.book.laws(0, streams[0], [(prefix, cell) for prefix in prefixes])
        table = np.array([[counted[prefix][cell] for cell in range(self.book.cells)] for prefix in prefixes])
        used = (laws.p.max(axis=0) > 0) | (table.sum(axis=0) > 0)
        t = mean_tv_upper(table[:, used], laws.p[:, used], error)
        return Bound(t.bound, t.n, "counts", t.statement("token 2 given token 1 and the target's law"))


def assess(
    known: KnownModel | None,
    streams: Sequence[Stream],
    rows: Sequence[PrefixRow],
    vocabulary: int | None,
    noise: float,
    coupling_rule: str = "",
) -> Assessment:
    """The assessment that these streams had when sampling ended: fed batch by batch, each with the rows there were.

    Streams that tell no batches are taken as one, with all rows.
    """
    if not any(s.batches for s in streams):
        assessment = Assessment(LawBook(known, rows, vocabulary, noise), coupling_rule)
        assessment.observe(streams)
        return assessment
    assessment = Assessment(LawBook(known, (), vocabulary, noise), coupling_rule)
    brought: dict[int, list[PrefixRow]] = defaultdict(list)
    for row in rows:
        brought[row.batch].append(row)
    for number, ends in enumerate(batch_ends(streams)):
        assessment.observe(streams, ends, brought[number])
    return assessment
