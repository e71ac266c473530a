"""Do both servers sample from one law, drafted tokens included?"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from draftproof.checks.check import Check, Example
from draftproof.checks.same.pair import PairProbe, as_pair, first_difference, keys, prompts
from draftproof.checks.same.seeds import seeded_pairs
from draftproof.checks.sampling.streams import LONG, SHORT, STORY_TOP_K, Stream
from draftproof.core.ask import Ask, Prompt
from draftproof.core.bounds import at_most
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Statement, Verdict
from draftproof.stats.coupling import coupling_bound
from draftproof.stats.equivalence import FEW_CELLS, two_sample_tv_upper
from draftproof.stats.homogeneity import Homogeneity, homogeneity

FIRST_ROUND = 64
MOST_ROUNDS = 14
MOST_SAMPLES = {Effort.QUICK: 2048, Effort.STANDARD: 16384, Effort.DEEP: 131072}
LEAST_PAIRS = 400
BOUNDED = (1, 2)
"""Places whose law is bounded by counts: the first that can have been drafted, where cells are still few."""

Answer: TypeAlias = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Sampled:
    """Answers of both servers to one prompt with one sampler, each with seeds of its own."""

    first: tuple[Answer, ...]
    second: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """`rounds` of samples, the same prompts in each, the first one cut to few tokens. `agreement`: of answers of both with equal
    seeds, (how many part, tokens compared).
    """

    rounds: tuple[tuple[Sampled, ...], ...]
    agreement: tuple[int, int] = (0, 0)


def collect(probe: Probe) -> Evidence:
    """Rounds that double, until the laws are told apart, or their distance is bounded, or the effort's samples are spent."""
    pair = as_pair(probe)
    compared = [first_difference(p) for p in seeded_pairs(pair) if p.ok]
    agreement = sum(place is not None for place, _ in compared), sum(n for _, n in compared)
    if pair.second is None:
        return Evidence((tuple(_beside_recorded(pair)),), agreement)
    rounds: list[tuple[Sampled, ...]] = []
    size = FIRST_ROUND
    while size <= MOST_SAMPLES[pair.effort] and len(rounds) < MOST_ROUNDS:
        rounds.append(tuple(_round(pair, size)))
        evidence = Evidence(tuple(rounds), agreement)
        found, bound = homogeneity(_draws(evidence)), _bound(evidence, pair.terms.pass_error)
        if found.log_e >= -math.log(pair.terms.alpha) or (
            bound is not None and _tv(bound) <= pair.terms.target_tv and found.pairs >= LEAST_PAIRS
        ):
            break
        size *= 2
    return Evidence(tuple(rounds), agreement)


def _conditions(pair: PairProbe) -> list[tuple[Prompt, Sampling, int, float]]:
    repeating, first, second = prompts(pair, 2)
    return [
        (first, Sampling(top_k=STORY_TOP_K), SHORT, 0.6),
        (second, Sampling(temperature=0.7), LONG, 0.2),
        (repeating, Sampling(), LONG, 0.2),
    ]


def _round(pair: PairProbe, size: int) -> Iterator[Sampled]:
    assert pair.second is not None
    for prompt, sampling, tokens, share in _conditions(pair):
        n = math.ceil(size * share)
        yield Sampled(*(_samples(p, pair.seeds(n)[0], prompt, sampling, tokens, n) for p in (pair, pair.second)))


def _samples(probe: Probe, seed: int, prompt: Prompt, sampling: Sampling, tokens: int, n: int) -> tuple[Answer, ...]:
    ids = probe.facts.token_ids and isinstance(prompt, tuple)
    ask = Ask(prompt, tokens, 0 if ids else min(1, probe.facts.max_alternatives), sampling, seed, count=n)
    return tuple(keys(a, ids) for a in probe.ask_many([ask]) if a.ok)


def _beside_recorded(pair: PairProbe) -> Iterator[Sampled]:
    """As many samples of the first server as are recorded of the other, under each recorded condition."""
    for stream in pair.recorded.streams:
        n = min(len(stream.samples), MOST_SAMPLES[pair.effort])
        if n:
            then = tuple(_named(stream, sample) for sample in stream.samples[:n])
            now = _samples(pair, pair.seeds(n)[0], stream.prompt, stream.sampling, max(map(len, then)), n)
            yield Sampled(now, then)


def _named(stream: Stream, sample: tuple[int, ...]) -> Answer:
    return tuple(stream.names[i] for i in sample) if stream.names else sample


def _draws(evidence: Evidence) -> list[list[tuple[Sequence[Answer], Sequence[Answer]]]]:
    return [[(s.first, s.second) for s in conditions] for conditions in evidence.rounds]


def _bound(evidence: Evidence, error: float) -> Statement | None:
    """The better of two bounds on total variation, each at half of `error`: by equal seeds, by counts."""
    parted, tokens = evidence.agreement
    by_seeds = coupling_bound(parted, tokens, error / 2).statement("the two servers") if tokens else None
    found = [s for s in (by_seeds, _by_counts(evidence, error / 2)) if s is not None]
    return min(found, key=_tv, default=None)


def _by_counts(evidence: Evidence, error: float) -> Statement | None:
    """Of the first condition, at the first places that can have been drafted; the error is shared among places and rounds."""
    sampled = [conditions[0] for conditions in evidence.rounds if conditions]
    bounds = []
    for place in BOUNDED:
        counts = [Counter(a[place] for s in sampled for a in side(s) if len(a) > place) for side in (_first, _second)]
        cells = sorted(counts[0] | counts[1], key=str)
        if not cells or len(cells) >= FEW_CELLS:
            return None
        mine, other = ([c[cell] for cell in cells] for c in counts)
        bounds.append(two_sample_tv_upper(mine, other, error / len(BOUNDED) / MOST_ROUNDS))
    worst = max(bounds, key=lambda b: b.bound)
    return worst.statement(
        f"the two servers' laws of token {BOUNDED[0] + 1} and of token {BOUNDED[-1] + 1} after one prompt"
    )


def _first(sampled: Sampled) -> tuple[Answer, ...]:
    return sampled.first


def _second(sampled: Sampled) -> tuple[Answer, ...]:
    return sampled.second


def _tv(statement: Statement) -> float:
    return statement.values["bound"]


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when bets on pairs of draws multiply to 1/alpha; passes when total variation is bounded by the target."""
    found = homogeneity(_draws(evidence))
    bound = _bound(evidence, terms.pass_error)
    statement = found.statement("samples of the two servers")
    statements = (statement,) if bound is None else (statement, bound)
    answers = sum(len(s.first) + len(s.second) for conditions in evidence.rounds for s in conditions)
    tv = None if bound is None else _tv(bound)
    measured = {"answers": answers, "pairs": found.pairs, "log e": found.log_e, "total variation at most": tv}
    if found.log_e >= -math.log(terms.alpha):
        text = f"{answers} samples: one law is refuted, {_odds(found)} to 1"
        return Judgement(Verdict.FAIL, text, (Finding("DIFFERENT_LAW", text),), statements, measured)
    if tv is not None and tv <= terms.target_tv:
        text = f"total variation at most {at_most(tv)} ({bound.method if bound else ''}), {found.pairs} pairs of draws"
        return Judgement(Verdict.PASS, text, statements=statements, measured=measured)
    reached = "no bound" if tv is None else f"total variation at most {at_most(tv, 3)}"
    text = f"{found.pairs} pairs of draws show no difference; {reached} where {terms.target_tv} is asked"
    return Judgement(
        Verdict.INCONCLUSIVE, text, statements=statements, measured=measured, missing=_missing(tv, answers, terms)
    )


def _odds(found: Homogeneity) -> str:
    return f"{math.exp(found.log_e):.2g}" if found.log_e < 600 else "10^260 or more"


def _missing(tv: float | None, answers: int, terms: Terms) -> str:
    """A bound by counts falls with the square root of the number of answers."""
    if tv is None or not answers:
        return "a sampler that leaves few tokens, or equal seeds on both servers"
    return (
        f"about {math.ceil(answers * ((tv / terms.target_tv) ** 2 - 1)):,} more samples, or equal seeds on both servers"
    )


def requests(facts: Facts, effort: Effort) -> int:
    return math.ceil(2 * MOST_SAMPLES[effort] / facts.batch_seeds)


def _draw(law: Sequence[float], n: int, seed: int) -> tuple[Answer, ...]:
    rng = random.Random(seed)
    return tuple(tuple(rng.choices(range(len(law)), law, k=3)) for _ in range(n))


def _of(first: Sequence[float], second: Sequence[float], n: int, agreement: tuple[int, int] = (0, 0)) -> Evidence:
    return Evidence(((Sampled(_draw(first, n, 1), _draw(second, n, 2)),),), agreement)


_LAW = (0.5, 0.3, 0.2)

CHECK = Check(
    name="same/law",
    claim="Both servers sample from one law, at drafted tokens too.",
    blind_to="Prompts and samplers that were not asked; differences smaller than the bound.",
    remedy="Do not pool samples of the two; `draftproof check` tells which of them samples the model's law.",
    aspects=(),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    statistical=True,
    examples=(
        Example("another law", _of(_LAW, (0.2, 0.3, 0.5), 1000), Verdict.FAIL, ("DIFFERENT_LAW",)),
        Example("one law, by counts", _of(_LAW, _LAW, 3000), Verdict.PASS),
        Example("one law, by equal seeds", _of(_LAW, _LAW, 300, (0, 400)), Verdict.PASS),
        Example("few samples", _of(_LAW, _LAW, 100), Verdict.INCONCLUSIVE),
        Example("no samples", Evidence(()), Verdict.INCONCLUSIVE),
    ),
)
