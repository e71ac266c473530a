"""The same requests with speculation and without, where a request can switch it off."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks.contexts import ceiling
from draftproof.checks.drafting import Reports, batches, effective
from draftproof.checks.prompts import is_small, ordinary, repeating
from draftproof.checks.randomness.repeats import difference
from draftproof.checks.sampling.assessment import Assessment, Bound, assess
from draftproof.checks.sampling.collecting import (
    LEAST_DRAFTED,
    MOST_SAMPLES,
    SECONDS,
    SPARE,
    may_be_short,
    more_in_time,
)
from draftproof.checks.sampling.laws import LawBook, PrefixRow
from draftproof.checks.sampling.streams import LONG, SHORT, STORY_TOP_K, UNSEEDED, Stream, drafting_in, shortest
from draftproof.checks.self_report.speculation_switch import working
from draftproof.client.oracle import lawful, oracle_row
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.probe import Effort, OracleRow, Probe
from draftproof.core.sampling import Sampling
from draftproof.core.terms import Terms
from draftproof.stats.coupling import compare, coupling_bound

FIRST_BATCH, FIRST_LARGE = 32, 16
DOUBLING = 256
"""Batches double up to here; then they grow by a quarter."""
ALTERNATIVES = 20
ENOUGH = {Effort.QUICK: 512, Effort.STANDARD: 8192, Effort.DEEP: 65536}
"""So many are drawn in any case, unless all is clear before; then more only while they can still give the bound."""
COUPLED_SHARE = 0.1
"""Above this share of seeds whose answers differ, the two conditions are held to draw independently."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One request with speculation and without."""

    on: Completion
    off: Completion


@dataclass(frozen=True, slots=True)
class Evidence:
    """`switch`: the field that was seen to switch speculation off ("" = none). `pairs`: greedy answers.

    `on`, `off`: answers at temperature 1; the seeds of `off` are the first of `on`. `rows`: the laws that the answers without
    speculation tell of, per prefix. `noise`: RMS difference in nats of laws by one row and by a batch of rows.
    `ended_s`: after so many seconds the effort's time was up and sampling ended (0: it ended for another reason).
    `shortened_to`: how many tokens the answers with speculation had in the end (0: as many as all along).
    """

    reports: Reports
    switch: str
    value: Scalar = None
    noise: float = 0.0
    vocabulary: int | None = None
    pairs: tuple[Pair, ...] = ()
    on: Stream | None = None
    off: Stream | None = None
    rows: tuple[PrefixRow, ...] = ()
    ended_s: float = 0.0
    shortened_to: int = 0


def collect(probe: Probe) -> Evidence:
    """Greedy pairs; then seeds in both conditions, and where they give other answers, further ones with speculation alone."""
    switch = working(probe)
    if switch is None:
        return Evidence(probe.facts.self_reports, "")
    asks = common.forced(probe, 0.0)[:2]
    off_asks = [replace(ask, extra=(*ask.extra, switch)) for ask in asks]
    pairs = [Pair(on, probe.ask(ask)) for on, ask in zip(probe.once(asks), off_asks, strict=True)]
    on, off, seeds = _arms(probe, switch)
    noise = probe.noise([a.prompt for a in asks], batches([*(p.on for p in pairs), *on.answers]))

    reports, vocabulary = probe.facts.self_reports, probe.facts.vocabulary
    so_far = Evidence(reports, *switch, noise, vocabulary, tuple(pairs), on.stream(), off.stream())
    assessment = Assessment(LawBook(None, (), vocabulary, noise), "")
    done, began, by_seeds = len(seeds), time.monotonic(), False
    while True:
        if by_seeds or not off.answers:
            off.more(probe, seeds)
        new = off.told(vocabulary)
        with_draft, without = on.end_batch(), off.end_batch()
        so_far = replace(so_far, on=with_draft, off=without, rows=(*so_far.rows, *new))
        assessment.observe([with_draft], rows=new)
        found = bound(so_far, probe.terms.pass_error, assessment)
        if _is_decided(with_draft, assessment, found, probe.terms):
            return so_far
        size = next_size(done, lacking(so_far, found, probe.terms.target_tv), probe)
        if size <= 0:
            return so_far
        took_s = time.monotonic() - began
        beyond = done >= ENOUGH[probe.effort] and not probe.samples
        if beyond and size > more_in_time(done, took_s, SECONDS[probe.effort]):
            return replace(so_far, ended_s=took_s)
        by_seeds = coupled(so_far)
        if not by_seeds and not so_far.shortened_to and may_be_short(done, probe):
            tokens = shortest(probe, on.ask, drafting_in(reports, [with_draft])).tokens
            on.ask = replace(on.ask, max_tokens=tokens)
            so_far = replace(so_far, shortened_to=tokens)
        done += size
        seeds = probe.seeds(size)
        if by_seeds:
            on.more(probe, seeds)
        else:
            on.unseeded(probe, size)


def next_size(done: int, more: int, probe: Probe) -> int:
    """How many samples to draw after `done` ones: by their number, then as many as the bound lacks (`more`, 0: no number is known
    to bring it); 0 where no more can help.
    """
    size = done if done < DOUBLING else done // 4
    if probe.samples is not None:
        return min(size, probe.samples - done)
    if done < ENOUGH[probe.effort]:
        return size
    possible = 0 < more <= MOST_SAMPLES[probe.effort] - done
    return min(size, math.ceil(SPARE * more)) if possible else 0


def lacking(evidence: Evidence, found: Bound | None, target: float) -> int:
    """About how many more samples with speculation bring the bound to `target`; 0 where no number is known to."""
    if evidence.on is None or found is None or not found.n or found.tv >= 1:
        return 0
    return math.ceil(found.missing(target) * len(evidence.on.samples) / found.n)


def _is_decided(on: Stream, assessment: Assessment, found: Bound | None, terms: Terms) -> bool:
    if not on.samples or (found is not None and found.tv <= terms.target_tv):
        return True
    return bool(assessment.later.impossible) or assessment.later.max_log_e >= math.log(2 / terms.alpha)


def _arms(probe: Probe, switch: tuple[str, Scalar]) -> tuple[_Drawn, _Drawn, range]:
    """Both conditions, with a prompt that drafts; the first answers with speculation are there, `range` are their seeds.

    A small model drafts and samples freely on text that repeats itself; a large one has more to choose from on ordinary text,
    if its drafter is awake there.
    """
    repeated = Ask(repeating(probe), LONG, 0, Sampling(top_k=STORY_TOP_K), extra=probe.facts.drafting)
    short = replace(repeated, max_tokens=SHORT)
    asks = [short, repeated] if is_small(probe) else [replace(short, prompt=ordinary(probe, 1)[0]), repeated]
    for ask in asks:
        on, seeds = _Drawn(ask), probe.seeds(FIRST_BATCH if is_small(probe) else FIRST_LARGE)
        on.more(probe, seeds)
        if on.stream().drafted >= LEAST_DRAFTED:
            break
    off = _Drawn(replace(ask, alternatives=min(ALTERNATIVES, probe.facts.max_alternatives), extra=(*ask.extra, switch)))
    return on, off, seeds


class _Drawn:
    """Answers to one request by many seeds."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.answers: list[Completion] = []
        self.seeds: list[int] = []
        self.batches: list[int] = []
        self._told: set[tuple[int, ...]] = set()

    def more(self, probe: Probe, seeds: range) -> None:
        self._take(probe, replace(self.ask, seed=seeds[0], count=len(seeds)))

    def unseeded(self, probe: Probe, n: int) -> None:
        """n further answers, which some servers give many at a time."""
        self._take(probe, replace(self.ask, count=n))

    def _take(self, probe: Probe, ask: Ask) -> None:
        for answer in probe.ask_many([ask]):
            if answer.ok and answer.token_ids:
                self.answers.append(answer)
                self.seeds.append(UNSEEDED if answer.ask.seed is None else answer.ask.seed)

    def end_batch(self) -> Stream:
        """All answers so far; what comes from here on is another batch."""
        self.batches.append(len(self.answers))
        return self.stream()

    def told(self, vocabulary: int | None) -> list[PrefixRow]:
        """The first law that this batch told after each prefix of which no batch before told one."""
        start = self.batches[-1] if self.batches else 0
        new = []
        for answer in self.answers[start:]:
            for n, token in enumerate(answer.tokens):
                prefix = (answer.token_ids or ())[:n]
                if prefix not in self._told and token.alternatives:
                    self._told.add(prefix)
                    row = lawful(oracle_row(token, answer.exchange, vocabulary))
                    new.append(PrefixRow(0, prefix, row, len(self.batches)))
        return new

    def stream(self) -> Stream:
        samples = tuple(a.token_ids or () for a in self.answers)
        drafted, accepted = (sum(getattr(a, name) or 0 for a in self.answers) for name in ("drafted", "accepted"))
        said = effective(self.answers)
        seeds, ends = tuple(self.seeds), tuple(self.batches)
        return Stream(self.ask.prompt, self.ask.sampling, seeds, samples, drafted, accepted, (), said, ends)


def _compared(evidence: Evidence) -> tuple[int, int, int]:
    """(answers that differ, tokens compared, answers compared) of the seeds that both conditions were given."""
    assert evidence.on is not None
    assert evidence.off is not None
    with_draft = dict(zip(evidence.on.seeds, evidence.on.samples, strict=True))
    both = [
        (with_draft[s], sample)
        for s, sample in zip(evidence.off.seeds, evidence.off.samples, strict=True)
        if s in with_draft
    ]
    found = [compare(*samples) for samples in both]
    return sum(m for m, _ in found), sum(n for _, n in found), len(found)


def coupled(evidence: Evidence) -> bool:
    """Whether a seed gives the same answer in both conditions, save rare exceptions."""
    differ, _, answers = _compared(evidence)
    return answers > 0 and differ <= COUPLED_SHARE * answers


def bound(evidence: Evidence, error: float, assessment: Assessment | None = None) -> Bound | None:
    """How far the tokens with speculation can be from those without: by equal seeds, else by counts against the law told without.

    assessment: of `evidence.on`, where it is at hand. None where neither bound is possible.
    """
    if evidence.on is None or evidence.off is None:
        return None
    if coupled(evidence):
        differ, tokens, _ = _compared(evidence)
        by_seeds = coupling_bound(differ, tokens, error / 2)
        return Bound(by_seeds.bound, tokens, "seeds", by_seeds.statement("speculation on and off"))
    return (assessment or assessed(evidence, evidence.on)).bound([evidence.on], error)


def assessed(evidence: Evidence, stream: Stream) -> Assessment:
    """The tokens of a stream held against the laws that were told without speculation."""
    return assess(None, [stream], evidence.rows, evidence.vocabulary, evidence.noise)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token of a greedy answer that differs: `gap` nats lie between both tokens in the law told without speculation.

    None where that law is not told, or one of the answers ends there.
    """

    pair: Pair
    position: int
    gap: float | None


def first_difference(pair: Pair) -> Difference | None:
    """None where the answers are equal."""
    place = difference(pair.on, pair.off)
    if place is None:
        return None
    tokens, told = (pair.on.token_ids or ())[place:], pair.off.tokens[place:]
    row = oracle_row(told[0], pair.off.exchange, None) if told and told[0].alternatives else None
    return Difference(pair, place, _gap(row, tokens[0]) if row and tokens else None)


def _gap(row: OracleRow, token: int) -> float:
    value = row.logprobs[row.ids.index(token)] if token in row.ids else ceiling(row)
    return row.logprobs[0] - value


def moved(pair: Pair) -> Iterator[float]:
    """Differences of the logprobs of equal tokens after equal tokens, where both answers have measured them."""
    for a, b in zip(pair.on.tokens, pair.off.tokens, strict=False):
        if a.id != b.id:
            return
        if a.alternatives and b.alternatives and a.logprob is not None and b.logprob is not None:
            yield abs(a.logprob - b.logprob)
