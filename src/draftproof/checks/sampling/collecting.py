"""Gathers samples until the answer is certain, or the effort's samples or seconds are spent."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks.drafting import Reports
from draftproof.checks.prompts import is_small
from draftproof.checks.sampling.assessment import SUSPECT, Assessment, assess
from draftproof.checks.sampling.laws import LawBook, PrefixRow, known_model
from draftproof.checks.sampling.streams import Collector, Shortest, Stream, conditions, context, drafting_in
from draftproof.client.noise import squared_difference
from draftproof.client.oracle import oracle_row
from draftproof.core.ask import Ask, Prompt, Scalar
from draftproof.core.probe import MANY_ROWS, Effort, OracleRow, Probe
from draftproof.core.terms import Terms

FIRST_BATCH = 64
DOUBLING = 512
"""Up to here the samples double with each batch; then they grow by a half, so that no audit goes far beyond what it needs."""
BY_COUNTS = 1024
"""Where only counts can decide, the second batch brings as many as the bound of a quick audit takes on a model of eight letters."""
MOST_LONG = 1024
"""Where only counts decide, further answers are as short as token 2 allows: by then longer ones have shown what they show. So are
those that are drawn when the time for longer ones is up.
"""
MOST_SAMPLES = {Effort.QUICK: 2048, Effort.STANDARD: 16384, Effort.DEEP: 131072}
LEAST_BY_COUNTS = {Effort.QUICK: 768, Effort.STANDARD: 4096, Effort.DEEP: 16384}
SECONDS = {Effort.QUICK: 45.0, Effort.STANDARD: 150.0, Effort.DEEP: 3600.0}
GRACE = 4 / 3
"""By how much the seconds may be exceeded where that brings the samples that the bound still lacks."""
SPARE = 1.15
"""More than the estimate of what is lacking, so that one batch is enough."""
KEPT = 1.5
"""So many times what is lacking takes is kept for it while all conditions go on: few samples tell too low a number (from 32 of them
2,900 where it was 3,500 in the end, 33,000 where it was 47,000).
"""
ORACLE_ROWS = {Effort.QUICK: 200, Effort.STANDARD: 2000, Effort.DEEP: 4000}
"""A row costs as much as some tokens, and where the vocabulary is large, most contexts are met once."""
NOISE_ALTERNATIVES = 50
LISTED = 100
"""Alternatives of a row, where the vocabulary is large: top-k keeps at most 19 of them (`streams.conditions`)."""
LEAST_DRAFTED = 30
"""Fewer drafted tokens show nothing about drafted tokens."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Samples under several conditions, and what their laws are worked out from.

    `known` names the countable model ("" = none: then `rows` are the one-token oracle's, per stream and prefix). `coupling` names
    the generator whose draws can be replayed. `noise`: RMS error of the laws' log-probabilities in nats. `ended_s`: after so many
    seconds the effort's time was up and sampling ended (0: it ended for another reason). `shortened_to`: how many tokens per answer
    the first condition had in the end (0: as many as all along). `answer_s`: seconds that a whole one takes (0: not measured).
    """

    reports: Reports
    noise: float
    vocabulary: int | None
    coupling: str
    known: str
    streams: tuple[Stream, ...]
    rows: tuple[PrefixRow, ...] = ()
    ended_s: float = 0.0
    shortened_to: int = 0
    answer_s: float = 0.0


def assessed(evidence: Evidence) -> Assessment:
    """What `collect` saw when it ended. Raises UsageError when the folder of the known model is gone."""
    known = known_model(evidence.known) if evidence.known else None
    return assess(known, evidence.streams, evidence.rows, evidence.vocabulary, evidence.noise, evidence.coupling)


def collect(probe: Probe) -> Evidence:
    """Samples in growing batches, until the answer is certain or the effort's samples or seconds are spent."""
    collectors = [Collector(condition) for condition in conditions(probe)]
    first = collectors[0]
    rows: list[PrefixRow] = []
    assessment: Assessment | None = None
    streams: list[Stream] = []
    began, total, noise, ended_s, shortest = time.monotonic(), 0, 0.0, 0.0, Shortest(0)
    batch = Batch(FIRST_BATCH if probe.samples is None else probe.samples)
    for number in itertools.count():
        # Seeds are for replaying draws; where those are not the known ones, the same prompt many times in one request is cheaper.
        replayed = assessment is None or assessment.coupling.holds
        if shortest.tokens and not replayed and (batch.first_only or may_be_short(total, probe)):
            first.shorten(shortest.tokens)
        _ask_batch(probe, collectors, batch, seeded=replayed or probe.facts.batch_draws == 1)
        total += batch.size
        for collector in collectors:
            collector.end_batch()
        streams = [c.stream() for c in collectors]
        if assessment is None:
            noise = _noise(probe, streams)
            assessment = Assessment(LawBook(probe.known, (), probe.facts.vocabulary, noise), probe.facts.coupling)
        new = [] if probe.known else _oracle_rows(probe, streams, rows, number)
        rows += new
        assessment.observe(streams, rows=new)
        if probe.samples is not None or total >= MOST_SAMPLES[probe.effort]:
            break
        if _is_decided(assessment, streams, total, probe):
            break
        took_s = time.monotonic() - began
        lacking = _lacking(assessment, streams, probe.terms)
        if not shortest.tokens and may_shorten(total, lacking, took_s, probe.effort):
            shortest = first.shortest(probe, drafting_in(probe.facts.self_reports, streams))
        coupled = assessment.coupling.holds
        batch = next_batch(total, lacking, took_s, probe.effort, coupled=coupled, alone_s=shortest.answer_s)
        if not batch.size:
            ended_s = took_s
            break
    return Evidence(
        probe.facts.self_reports,
        noise,
        probe.facts.vocabulary,
        probe.facts.coupling,
        probe.known.name if probe.known else "",
        tuple(streams),
        tuple(rows),
        ended_s,
        first.shortened_to,
        first.answer_s,
    )


def may_shorten(total: int, lacking: int, took_s: float, effort: Effort) -> bool:
    """Whether it is worth finding out how short further answers may be: `lacking` samples are to come, and in a quick audit they
    would come too late at the pace of the `total` ones so far.
    """
    return lacking > 0 and (effort is not Effort.QUICK or lacking > more_in_time(total, took_s, SECONDS[effort]))


def more_in_time(done: int, took_s: float, due_s: float) -> int:
    """How many more samples come before `due_s`, at the pace of the `done` ones that took `took_s` seconds."""
    return int(done * (due_s / took_s - 1))


def may_be_short(done: int, probe: Probe) -> bool:
    """Whether all answers may be as short as token 2 allows after `done` ones. In a quick audit only the last ones may."""
    return probe.effort is not Effort.QUICK and done >= MOST_LONG


@dataclass(frozen=True, slots=True)
class Batch:
    """How many samples to draw; `first_only`: all of them under the first condition, which gives the bound."""

    size: int
    first_only: bool = False


def next_batch(
    total: int, lacking: int, took_s: float, effort: Effort, *, coupled: bool, alone_s: float = 0.0
) -> Batch:
    """After `total` samples in `took_s` seconds: by their number alone as long as the effort's time allows, above `quick` no more
    than the bound by counts lacks.

    When it does not, what the bound by counts still lacks (`lacking` samples of the first condition, 0: not known), if
    that takes little longer; else none. alone_s: seconds that a further answer of the first condition takes, for which time is
    then kept (0: as long as all did, with their laws).
    """
    least = total // 2 if total >= DOUBLING else total
    left_s = GRACE * SECONDS[effort] - took_s
    in_time = more_in_time(total, took_s, SECONDS[effort])
    lacking_s = lacking * alone_s
    if alone_s and left_s > SPARE * lacking_s:
        in_time = min(in_time, max(0, more_in_time(total, took_s, GRACE * SECONDS[effort] - KEPT * lacking_s)))
    enough = math.ceil(SPARE * lacking)
    if in_time >= least:
        if effort is not Effort.QUICK and total >= MOST_LONG and 0 < enough < least:
            return Batch(enough, first_only=True)
        by_counts = min(max(total, BY_COUNTS - total), in_time)
        return Batch(least if coupled or total >= DOUBLING else by_counts)
    if not 0 < lacking * (alone_s or took_s / total) <= left_s:
        return Batch(0)
    return Batch(min(enough, int(left_s / (alone_s or took_s / total))), first_only=True)


def _lacking(assessment: Assessment, streams: Sequence[Stream], terms: Terms) -> int:
    """How many more samples of the first condition the bound asked for takes, where it is by counts; 0 where it is there."""
    bound = assessment.bound(streams, terms.pass_error)
    if bound is None or bound.kind != "counts" or bound.tv <= terms.target_tv:
        return 0
    return bound.missing(terms.target_tv)


def _ask_batch(probe: Probe, collectors: Sequence[Collector], batch: Batch, *, seeded: bool) -> None:
    """Each condition's share; what limited conditions do not take goes to the first. With `--samples` the first gets them all."""
    size = batch.size
    if batch.first_only:
        wanted = [size] + [0] * (len(collectors) - 1)
    elif probe.samples is not None:
        wanted = [size, *(min(FIRST_BATCH, math.ceil(size * c.condition.share)) for c in collectors[1:])]
    else:
        wanted = [min(c.room, math.ceil(size * c.condition.share / 8) * 8) for c in collectors]
        wanted[0] += max(0, size - sum(wanted))
    for collector, n in zip(collectors, wanted, strict=True):
        collector.more(probe, n, seeded=seeded)


def _noise(probe: Probe, streams: Sequence[Stream]) -> float:
    """The largest of: a batch against single rows; the prompt worked out anew against its cache, after the first tokens of an
    answer; the oracle against the known model.
    """
    found = [probe.noise([stream.prompt for stream in streams], MANY_ROWS)]
    places = [context(stream, stream.samples[0][:3]) if stream.samples else stream.prompt for stream in streams]
    cached = list(_rows(probe, places, ()))
    anew = _rows(probe, places, probe.facts.uncached)
    both = [(a, b) for a, b in zip(cached, anew, strict=True) if a is not None and b is not None]
    differences = [squared_difference(a, b) for a, b in both]
    errors: list[float] = []
    for place, row in zip(places, cached, strict=True):
        if row is not None and probe.known is not None and isinstance(place, tuple):
            law = probe.known.target(place)
            errors += [(x - law[i]) ** 2 for i, x in zip(row.ids, row.logprobs, strict=True)]
    found += [math.sqrt(math.fsum(squares) / len(squares)) for squares in (differences, errors) if squares]
    return max(found)


def _rows(probe: Probe, places: Sequence[Prompt], extra: tuple[tuple[str, Scalar], ...]) -> Iterator[OracleRow | None]:
    """One-token laws, asked anew; None where the server gave none. Together in one request only for a model of a few letters."""
    ask = Ask((), 1, min(probe.facts.max_alternatives, NOISE_ALTERNATIVES), seed=0, extra=extra)
    most = probe.facts.batch_prompts if is_small(probe) else 1
    groups = [places[start : start + most] for start in range(0, len(places), most)]
    for answer in probe.ask_many(replace(ask, prompt=some[0], also=tuple(some[1:])) for some in groups):
        row = answer.tokens[0] if answer.ok and answer.tokens else None
        yield None if row is None else oracle_row(row, answer.exchange, probe.facts.vocabulary)


def _oracle_rows(
    probe: Probe, streams: Sequence[Stream], known: Sequence[PrefixRow], batch: int = 0
) -> list[PrefixRow]:
    """Rows for the most visited prefixes, by depth: half of what may still be asked for each, so that a choice at one depth
    never depends on the tokens judged there.
    """
    have = {(r.stream, r.prefix) for r in known}
    left = ORACLE_ROWS[probe.effort] - len(have)
    deepest = max((len(s) for stream in streams for s in stream.samples), default=0)
    wanted: list[tuple[int, tuple[int, ...]]] = []
    for depth in range(deepest):
        visits = Counter((n, s[:depth]) for n, stream in enumerate(streams) for s in stream.samples if len(s) > depth)
        new = [key for key, _ in visits.most_common() if key not in have]
        chosen = new[: max(0, (left + 1) // 2)]
        left -= len(chosen)
        wanted += chosen
    listed = None if is_small(probe) else min(probe.facts.max_alternatives, LISTED)
    found = probe.oracle_many([context(streams[n], prefix) for n, prefix in wanted], listed)
    return [PrefixRow(n, prefix, row, batch) for (n, prefix), row in zip(wanted, found, strict=True)]


def _is_decided(assessment: Assessment, streams: Sequence[Stream], total: int, probe: Probe) -> bool:
    terms = probe.terms
    if assessment.later.impossible or assessment.later.max_log_e >= -math.log(terms.alpha / 2):
        return True
    bound = assessment.bound(streams, terms.pass_error)
    if bound is None or bound.tv > terms.target_tv or (bound.kind == "counts" and assessment.later.log_e >= SUSPECT):
        return False
    drafted = sum(s.drafted for s in streams)
    enough = bound.kind == "seeds" or total >= LEAST_BY_COUNTS[probe.effort]
    return enough and (drafted == 0 or drafted >= LEAST_DRAFTED)
