"""The loop: draft, one pass of the target, judge token by token, emit each with its own numbers.

A `Generation` never calls the model. It says what to feed next and takes the rows, so that one thread can serve many of them
in one batch; `generate` drives a single one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from draftproof.core.candidates import Leading
from draftproof.core.coin import Coin, RngCoin
from draftproof.core.law import TokenLaw
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.engine.backend import Backend, ContextFull, Feed, Rows
from draftproof.engine.backend import Sequence as Memory
from draftproof.engine.draft.drafter import NOTHING, Drafter, Proposal
from draftproof.engine.draft.none import NoDrafter
from draftproof.engine.emit import LOGPROB_ONLY, Emitted, Origin, Report
from draftproof.engine.in_step import Reads, run_alone
from draftproof.engine.prompt import PromptReader
from draftproof.engine.shape import Constraint, Shaper
from draftproof.engine.stop import Finish, Stop, StopTokens
from draftproof.engine.verify import rejection
from draftproof.engine.verify.rule import Rule


@dataclass(frozen=True, slots=True)
class Job:
    """One answer to make. `max_tokens` >= 0. `stops` are sequences of token ids that end the answer, themselves included.

    `score_prompt`: the prompt's own tokens are reported too (`Generation.prompt_records`). With `max_tokens` 0 the prompt is read
    all the same, for the next one that begins like it.
    `batch`: the most prompt tokens that are fed at once; the cut is always alike, whatever is drafted later.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = NEUTRAL
    seed: int = 0
    stops: tuple[tuple[int, ...], ...] = ()
    ignore_eog: bool = False
    report: Report = LOGPROB_ONLY
    score_prompt: bool = False
    batch: int = 512


@dataclass(slots=True)
class Counters:
    """Counted from what was fed and emitted. `by_position[i]`: how often the i-th token of a draft was drafted, accepted."""

    emitted: int = 0
    passes: int = 0
    drafts: int = 0
    drafted_by_position: list[int] = field(default_factory=list)
    accepted_by_position: list[int] = field(default_factory=list)

    @property
    def drafted(self) -> int:
        return sum(self.drafted_by_position)

    @property
    def accepted(self) -> int:
        return sum(self.accepted_by_position)

    def count(self, drafted: int, accepted: int) -> None:
        """One verified draft."""
        self.drafts += 1
        grow = drafted - len(self.drafted_by_position)
        self.drafted_by_position += [0] * grow
        self.accepted_by_position += [0] * grow
        for i in range(drafted):
            self.drafted_by_position[i] += 1
            self.accepted_by_position[i] += i < accepted


class Generation:
    """`while not g.finish: emitted = g.take(extend(run_alone(g.feed())))`.

    The sequence may hold a prefix of the prompt already. Between two calls it holds a prefix of `context`; everything emitted
    but the last token, at most, is in it. The drafter is used, not owned. known: float32[vocab], the logits after the prompt,
    all of which the sequence holds: then `begin` comes first. Raises ContextFull when the prompt does not fit.
    """

    def __init__(
        self,
        backend: Backend,
        sequence: Memory,
        job: Job,
        *,
        drafter: Drafter | None = None,
        rule: Rule = rejection.RULE,
        n_max: int = 2**31,
        coin: Coin | None = None,
        constraint: Constraint | None = None,
        stop: Stop | None = None,
        known: Rows | None = None,
    ) -> None:
        if len(job.prompt) > backend.context:
            raise ContextFull(f"The prompt has {len(job.prompt)} tokens, the model holds {backend.context}.")
        self.job = job
        self.context = list(job.prompt)
        self.counters = Counters()
        nothing_to_read = known is not None and not job.score_prompt
        self.finish: Finish | None = Finish.LENGTH if nothing_to_read and not job.max_tokens else None
        self._backend = backend
        self._sequence = sequence
        self._drafter = drafter or NoDrafter()
        self._rule = rule
        self._n_max = n_max
        self._coin: Coin = coin or RngCoin(job.seed, first=len(job.prompt))
        self._shaper = Shaper(job.sampling, self._coin, self.context, constraint)
        alternatives = job.report.alternatives
        self._wanted = 0 if alternatives < 0 else max(alternatives, self._shaper.chain.leading)
        self._eog = frozenset() if job.ignore_eog else backend.eog
        self._stops: list[Stop] = [StopTokens(job.stops)] if job.stops else []
        if stop is not None:
            self._stops.append(stop)
        self._draft = NOTHING
        self._checkpoint: object = None
        self._held: Rows | None = None
        self._known = known
        self._prompt = PromptReader(
            sequence,
            job.prompt,
            batch=job.batch,
            scoring=job.score_prompt,
            report=job.report,
            known=known is not None,
        )

    @property
    def prompt_records(self) -> list[Emitted]:
        """The prompt's tokens but the first, when the job asks for them."""
        return self._prompt.records

    @property
    def can_begin(self) -> bool:
        """Whether the first token can be had by `begin`, before anything is fed."""
        return self._known is not None

    def begin(self) -> list[Emitted]:
        """The first token, from the logits after the prompt that were known: call it instead of the first `feed` and `take`."""
        assert self._known is not None
        row, self._known = self._known, None
        before = len(self.context)
        emitted = self._judge(row[None])
        self._settle(before, 0)
        return emitted

    def feed(self) -> Reads[Feed]:
        """The tokens that the model has to read next, once they are drafted. Call `take` with its rows before the next `feed`."""
        if self._held is not None:
            return Feed(self._sequence, self._draft.tokens)
        if self._prompt.reading:
            return self._prompt.feed()
        pending = tuple(self.context[self._sequence.length :])
        self._draft = yield from self._propose()
        if self._draft.tokens and self._backend.can_truncate:
            return Feed(self._sequence, (*pending, *self._draft.tokens), rows=1 + len(self._draft.tokens))
        return Feed(self._sequence, pending, rows=1)

    def _propose(self) -> Proposal:
        room = min(self.job.max_tokens - self.counters.emitted - 1, self._backend.context - len(self.context))
        k = min(self._n_max, room)
        return (yield from self._drafter.propose(self.context, k, self._coin)) if k > 0 else NOTHING

    def take(self, rows: Rows) -> list[Emitted]:
        """The tokens that follow from the rows of the last `feed`; none while the prompt is read or half a block is fed."""
        self.counters.passes += 1
        if self._prompt.reading:
            last = self._prompt.take(rows)
            if last is None:
                return []
            rows = last
        elif self._held is not None:
            rows = np.concatenate([self._held, rows])
        elif self._draft.tokens and not self._backend.can_truncate:
            # this memory cannot lose single tokens: remember it as it is before the draft goes in
            self._held = rows.copy()
            self._checkpoint = self._sequence.checkpoint()
            return []
        if not self.job.max_tokens:
            self.finish = Finish.LENGTH
            return []
        before = len(self.context)
        emitted = self._judge(rows)
        self._settle(before, sum(e.origin is Origin.ACCEPTED for e in emitted))
        return emitted

    def _judge(self, rows: Rows) -> list[Emitted]:
        emitted: list[Emitted] = []
        draft, rule = self._draft, self._rule
        for i, x in enumerate(draft.tokens):
            leading = self._leading(rows[i])
            p = self._shaper.law(rows[i], leading)
            decision = rule.decide(p, x, None if draft.q is None else draft.q[i], self._coin, len(self.context))
            origin = Origin.ACCEPTED if decision.accepted else Origin.RECOVERED
            emitted.append(self._emit(decision.token, origin, rows[i], p, leading))
            if self.finish or not decision.accepted:
                return emitted
        leading = self._leading(rows[-1])
        p = self._shaper.law(rows[-1], leading)
        token = rule.draw(p, self._coin, len(self.context))
        emitted.append(self._emit(token, Origin.BONUS if draft.tokens else Origin.PLAIN, rows[-1], p, leading))
        return emitted

    def _leading(self, row: Rows) -> Leading | None:
        """The largest logits, looked for once for the samplers and the report; None where neither wants them alone.

        Without a report the samplers look at the whole row themselves, and see NaN in it.
        """
        return Leading.of(row, self._wanted) if self._wanted else None

    def _emit(self, token: int, origin: Origin, row: Rows, p: TokenLaw, leading: Leading | None) -> Emitted:
        emitted = self.job.report.describe(token, origin, len(self.context), row, p, leading)
        self._shaper.advance(token)
        self.counters.emitted += 1
        self.finish = self._ended(token)
        return emitted

    def _ended(self, token: int) -> Finish | None:
        if token in self._eog:
            return Finish.EOG
        if any(stop.ends(token) for stop in self._stops):
            return Finish.STOP
        if self.counters.emitted >= self.job.max_tokens:
            return Finish.LENGTH
        return Finish.CONTEXT if len(self.context) > self._backend.context else None

    def _settle(self, before: int, accepted: int) -> None:
        """Drafted tokens that were not emitted leave the memory; the drafter learns what became of its draft."""
        draft, self._draft, self._held = self._draft, NOTHING, None
        if self._backend.can_truncate:
            self._sequence.truncate(min(before + accepted, self._sequence.length))
        elif accepted < len(draft.tokens):
            # the tokens accepted from this draft are read again with the next batch; they are not judged again
            self._sequence.restore(self._checkpoint)
        self._checkpoint = None
        if draft.tokens:
            self.counters.count(len(draft.tokens), accepted)
        self._drafter.observe(self.context, draft, accepted)


def generate(
    backend: Backend,
    job: Job,
    *,
    drafter: Drafter | None = None,
    rule: Rule = rejection.RULE,
    n_max: int = 2**31,
    coin: Coin | None = None,
    constraint: Constraint | None = None,
) -> Iterator[Emitted]:
    """One answer, token by token, on a sequence of its own. The sequence is closed when the iterator is."""
    sequence = backend.sequence()
    try:
        generation = Generation(
            backend, sequence, job, drafter=drafter, rule=rule, n_max=n_max, coin=coin, constraint=constraint
        )
        while not generation.finish:
            feed = run_alone(generation.feed())
            yield from generation.take(sequence.extend(feed.tokens, feed.rows))
    finally:
        sequence.close()
