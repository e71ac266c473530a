"""Does the temperature of a request reach the tokens that are drafted?"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Drafting, Reports, why_inconclusive
from draftproof.checks.prompts import is_small, ordinary, repeating
from draftproof.checks.sampling.assessment import Assessment
from draftproof.checks.sampling.collecting import LEAST_DRAFTED, more_in_time
from draftproof.checks.sampling.drawn import Drawn
from draftproof.checks.sampling.laws import LawBook, PrefixRow, known_model
from draftproof.checks.sampling.streams import SHORT, Collector, Condition, Stream, context, drafting_in
from draftproof.checks.sampling.thermometer import Reading
from draftproof.client.coupling import predict
from draftproof.core.bounds import sureness
from draftproof.core.distribution import shape
from draftproof.core.facts import Facts
from draftproof.core.mt19937 import MT19937, draws_of
from draftproof.core.probe import MANY_ROWS, Effort, KnownModel, OracleRow, Probe
from draftproof.core.sampling import Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Statement, Table, Verdict

HOT = 2.0
TOKENS = 16
TOP_K, TOP_K_REPEATING = 8, 3
"""Where the vocabulary is large, the law at temperature 2 is known only of the tokens listed, so it is cut to few."""
FIRST_BATCH = 16
FEWEST = 4
SECONDS = {Effort.QUICK: 30.0, Effort.STANDARD: 60.0, Effort.DEEP: 1200.0}
MOST = {Effort.QUICK: 64, Effort.STANDARD: 128, Effort.DEEP: 256}
VISITS = 2
ROWS = {Effort.QUICK: 64, Effort.STANDARD: 400, Effort.DEEP: 2000}
GREEDY_BELOW = 0.2
MOST_BY_SEEDS, APART = 0.15, 10
"""By seeds: the largest total variation of a pass, and how many draws half the temperature must change to be told apart."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers at temperature 2 to an ordinary prompt and to one that repeats itself.

    `known` names the countable model ("" = none: then `rows` are the one-token oracle's). `noise`: RMS error of laws in nats.
    `coupling` names the generator whose draws can be replayed.
    `ended_s`: after so many seconds the effort's time was up (0: it ended for another reason).
    """

    reports: Reports
    noise: float
    known: str
    streams: tuple[Stream, ...]
    rows: tuple[PrefixRow, ...] = ()
    coupling: str = ""
    ended_s: float = 0.0


def conditions(probe: Probe) -> list[Condition]:
    """The first for drafters that always draft, the second for those that wake on repetition."""
    if is_small(probe):
        cut = repeated = Sampling(temperature=HOT)
    else:
        most = probe.facts.max_alternatives - 1
        cut = Sampling(temperature=HOT, top_k=min(TOP_K, most))
        repeated = Sampling(temperature=HOT, top_k=min(TOP_K_REPEATING, most))
    tokens = TOKENS if is_small(probe) else SHORT
    return [
        Condition(ordinary(probe, 1)[0], cut, tokens, 0.5, extra=probe.facts.drafting),
        Condition(repeating(probe), repeated, TOKENS, 0.5, extra=probe.facts.drafting),
    ]


def collect(probe: Probe) -> Evidence:
    """Growing batches, until the temperature is known well enough, or the effort's answers, rows or seconds are spent."""
    collectors = [Collector(c) for c in conditions(probe)]
    known = probe.known
    noise = probe.noise([c.condition.prompt for c in collectors], MANY_ROWS)
    rows: list[PrefixRow] = []
    done, size, began = 0, FIRST_BATCH, time.monotonic()
    while True:
        for collector in collectors:
            collector.more(probe, size)
        done += size
        streams = tuple(c.stream() for c in collectors)
        if known is None:
            rows += _rows(probe, streams, rows)
        name = known.name if known else ""
        evidence = Evidence(probe.facts.self_reports, noise, name, streams, tuple(rows), probe.facts.coupling)
        if done >= MOST[probe.effort] or len(rows) >= ROWS[probe.effort] or _is_decided(evidence, known, probe.terms):
            return evidence
        took_s = time.monotonic() - began
        size = next_size(done, took_s, SECONDS[probe.effort])
        if not size:
            return replace(evidence, ended_s=took_s)


def next_size(done: int, took_s: float, due_s: float) -> int:
    """After `done` answers in `took_s` seconds: as many again, or as many as still come in time; 0 where those are hardly any."""
    in_time = more_in_time(done, took_s, due_s)
    return min(done, in_time) if in_time >= FEWEST else 0


def _rows(probe: Probe, streams: Sequence[Stream], have: Sequence[PrefixRow]) -> list[PrefixRow]:
    """Rows for prefixes that came more than once, by depth: whether one is asked for never depends on the tokens judged there."""
    asked = {(r.stream, r.prefix) for r in have}
    visits = Counter(
        (n, s[:i]) for i in range(TOKENS) for n, one in enumerate(streams) for s in one.samples if len(s) > i
    )
    wanted = [key for key, times in visits.items() if times >= VISITS and key not in asked]
    chosen = wanted[: ROWS[probe.effort] - len(asked)]
    found = probe.oracle_many([context(streams[n], prefix) for n, prefix in chosen])
    return [PrefixRow(n, prefix, row) for (n, prefix), row in zip(chosen, found, strict=True)]


def _is_decided(evidence: Evidence, known: KnownModel | None, terms: Terms) -> bool:
    if _replayed(evidence, known, terms.pass_error) is not None:
        return True
    book = _drawn(evidence, known)
    if book.reading(later=True, error=terms.pass_error).log_e >= math.log(2 / terms.alpha):
        return True
    return not _too_wide(book.reading(later=True, error=terms.pass_error, drafted=True))


def _drawn(evidence: Evidence, known: KnownModel | None) -> Drawn:
    return Drawn(evidence.streams, evidence.rows, known, noise=evidence.noise, temperature=HOT)


def _replayed(evidence: Evidence, known: KnownModel | None, error: float) -> tuple[Statement, int] | None:
    """The bound from draws that are just those of their seeds at the temperature asked for, where at half of it enough of them
    would not be; and how many would not.
    """
    rows = evidence.rows
    vocabulary = len(rows[0].row.ids) if rows and rows[0].row.complete else None
    asked, colder = (Assessment(LawBook(known, rows, vocabulary, evidence.noise), evidence.coupling) for _ in range(2))
    asked.observe(evidence.streams)
    bound = asked.bound(evidence.streams, error)
    if bound is None or bound.kind != "seeds" or bound.tv > MOST_BY_SEEDS:
        return None
    colder.observe(
        [replace(s, sampling=replace(s.sampling, temperature=s.sampling.temperature / 2)) for s in evidence.streams]
    )
    apart = colder.coupling.mismatches - asked.coupling.mismatches
    return (bound.statement, apart) if apart >= APART else None


def _too_wide(reading: Reading) -> bool:
    return not (reading.low >= HOT / 2 and reading.high < math.inf)


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when bets on other temperatures, for tokens after the first, reach 2/alpha against the one asked for.

    Token 1, which is not drafted, is the control at the other half of alpha. Passes, in streams that drafted, only if the tokens
    are their seeds' own draws at that temperature and not at half of it, or if the temperatures that are not refuted at
    `terms.pass_error` lie above half of the one asked for and have an upper limit.
    """
    known = known_model(evidence.known) if evidence.known else None
    book = _drawn(evidence, known)
    first, later = (book.reading(later=after, error=terms.pass_error) for after in (False, True))
    held = book.reading(later=True, error=terms.pass_error, drafted=True)
    limit = math.log(2) - math.log(terms.alpha)
    statement = Statement(
        f"the temperature of tokens after the first lies in [{held.low:.2g}, {held.high:.2g}], {HOT:g} was asked for",
        held.n,
        "bets on a grid of temperatures (Ville's inequality), one temperature for all",
        terms.pass_error,
        {"low": held.low, "high": held.high, "log_e": later.log_e},
    )
    drafted = sum(s.drafted for s in evidence.streams)
    measured: dict[str, float | int | str | None] = {
        "tokens": later.n,
        "drafted": drafted,
        "temperature that fits best": later.best,
        "of token 1": first.best,
        "log e-value": later.log_e,
        "log e-value of token 1": first.log_e,
        "noise (nat)": evidence.noise,
    }
    rows = tuple((name, r.n, r.best, r.low, r.high) for name, r in (("1", first), ("later", held)))
    tables = (Table(f"Temperature, {HOT:g} asked for", ("token", "n", "best fit", "at least", "at most"), rows),)

    def say(
        verdict: Verdict, text: str, code: str = "", missing: str = "", more: tuple[Statement, ...] = ()
    ) -> Judgement:
        findings = (Finding(code, text),) if code else ()
        return Judgement(verdict, text, findings, (statement, *more), measured, tables, missing)

    if first.log_e >= limit:
        text = f"temperature {HOT:g} does not even reach token 1, which is drawn as if at {first.best:.2g}"
        return say(Verdict.FAIL, text, "IGNORED" if later.log_e >= limit else "BASELINE")
    if later.log_e >= limit:
        cold = "a share of them greedily" if later.mixed else f"as if at temperature {later.best:.2g}"
        cold = "greedily" if later.best < GREEDY_BELOW and not later.mixed else cold
        evidenced = f"(e-value exp({later.log_e:.0f}), {later.n} tokens)"
        text = f"tokens after the first are drawn {cold} where {HOT:g} was asked for {evidenced}"
        code = "GREEDY" if later.mixed or later.best < GREEDY_BELOW else "WRONG_TEMPERATURE"
        return say(Verdict.FAIL, text, code)
    late = f"; sampling ended after {evidence.ended_s:.0f} s, its time at this effort" if evidence.ended_s else ""
    if not later.n:
        text = f"no token after the first has a known law{late}"
        return say(Verdict.INCONCLUSIVE, text, missing="more answers at temperature 2 (a higher --effort)")
    state = drafting_in(evidence.reports, evidence.streams)
    stop = why_inconclusive(state)
    if state is Drafting.SEEN and drafted < LEAST_DRAFTED:
        stop = f"only {drafted} tokens were drafted"
    if stop:
        return say(Verdict.INCONCLUSIVE, stop, missing="prompts that draft at temperature 2")
    if by_seeds := _replayed(evidence, known, terms.pass_error):
        bound, apart = by_seeds
        text = f"{bound.n} tokens after the first are their seeds' own draws at temperature {HOT:g}"
        text += f"; {apart} of them would not be at {HOT / 2:g}"
        return say(Verdict.PASS, text, more=(bound,))
    if _too_wide(held):
        text = (
            f"the law is too peaked, or the tokens too few: any temperature in [{held.low:.2g}, {held.high:.2g}] fits"
            f"{late}"
        )
        return say(Verdict.INCONCLUSIVE, text, missing="more answers (a higher --effort), or a prompt of more entropy")
    if book.misfit() >= -math.log(terms.pass_error):
        text = f"tokens after the first follow no temperature; the best fit is {later.best:.2g}"
        return say(Verdict.INCONCLUSIVE, text, missing="the verdict of sampling/distribution")
    confidence = f"at {sureness(terms.pass_error)}"
    text = (
        f"{held.n} tokens after the first exclude temperatures below {held.low:.2g} and above {held.high:.2g} {confidence}, "
        f"{HOT:g} was asked for"
    )
    return say(Verdict.PASS, text)


def requests(facts: Facts, effort: Effort) -> int:
    return 2 * math.ceil(FIRST_BATCH / max(1, facts.batch_seeds)) + (0 if facts.countable else ROWS[effort])


def applies(facts: Facts) -> str:
    return "" if facts.routes and facts.max_alternatives > 2 else "the laws of single tokens need some alternatives"


_PREFIXES = [(), *((a,) for a in range(5))]
_PEAKED = (0.99999999, 2.5e-9, 2.5e-9, 2.5e-9, 2.5e-9)


def _made(
    drawn: float, first: float = HOT, law: Sequence[float] = made.LAW, n: int = 300, drafted: int = 300
) -> Evidence:
    """Two letters per answer, drawn at temperature `first` and `drawn` (0: greedily)."""
    seeds = range(1000, 1000 + n)
    u = draws_of(seeds, 2)
    laws = [shape(np.log(law), (), Sampling(temperature=t)) for t in (first, drawn)]
    tokens = [predict(p, u[:, i]).tokens.tolist() for i, p in enumerate(laws)]
    samples = tuple(zip(*tokens, strict=True))
    stream = Stream(made.PROMPT, Sampling(temperature=HOT), tuple(seeds), samples, drafted, drafted // 3)
    row = OracleRow(tuple(range(5)), tuple("abcde"), tuple(math.log(x) for x in law), 2, complete=True)
    rows = tuple(PrefixRow(0, prefix, row) for prefix in _PREFIXES)
    return Evidence(made.LIVE_ON, 1e-6, "", (stream,), rows)


def _noisy(drawn: float) -> Evidence:
    return replace(_made(drawn), noise=0.5, coupling=MT19937)


def _declined(evidence: Evidence) -> Evidence:
    return replace(evidence, streams=tuple(replace(s, effective=False) for s in evidence.streams))


def _other_law() -> Evidence:
    """The law's probabilities at that temperature, given to other tokens of nearly the same mean logprob."""
    evidence = _made(HOT)
    stream = evidence.streams[0]
    swapped = tuple(
        (a, {0: 1, 1: 0}.get(b, b) if n % 3 else 4 if b == 3 else b) for n, (a, b) in enumerate(stream.samples)
    )
    return replace(evidence, streams=(replace(stream, samples=swapped),))


CHECK = Check(
    name="sampling/temperature",
    claim="The temperature of a request reaches drafted tokens: a pass excludes half of it and less, and says what else.",
    blind_to="A smaller deviation than the pass states; other temperatures; a fault at a small share of the tokens "
    "(see sampling/distribution).",
    remedy="Do not sample from this server while it speculates: its text is less varied than asked for. "
    "Restart it without speculation.",
    aspects=("text",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=applies,
    statistical=True,
    examples=(
        Example("greedy after token 1", _made(0.0), Verdict.FAIL, ("GREEDY",)),
        Example("temperature 0.7 after token 1", _made(0.7), Verdict.FAIL, ("WRONG_TEMPERATURE",)),
        Example("the temperature is ignored", _made(0.0, first=0.0), Verdict.FAIL, ("IGNORED",)),
        Example("only token 1 is wrong", _made(HOT, first=0.0), Verdict.FAIL, ("BASELINE",)),
        Example("temperature 2", _made(HOT), Verdict.PASS),
        Example("temperature 2, drawn as the seeds say", replace(_made(HOT), coupling=MT19937), Verdict.PASS),
        Example("the same, too noisy to read otherwise", _noisy(HOT), Verdict.PASS),
        Example("too noisy to read, and another temperature", _noisy(1.0), Verdict.INCONCLUSIVE),
        Example("no speculation", replace(_made(HOT, drafted=0), reports=made.LIVE_OFF), Verdict.PASS),
        Example("speculation declined", _declined(_made(HOT, drafted=0)), Verdict.PASS),
        Example("a law too peaked to tell", _made(0.0, law=_PEAKED), Verdict.INCONCLUSIVE),
        Example("tokens of another law", _other_law(), Verdict.INCONCLUSIVE),
        Example("too few tokens", _made(HOT, n=10), Verdict.INCONCLUSIVE),
        Example("nothing drafted", _made(HOT, drafted=0), Verdict.INCONCLUSIVE),
        Example("hardly anything drafted", _made(HOT, drafted=5), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, 0.0, "", ()), Verdict.INCONCLUSIVE),
    ),
)
