"""Which law do reported logprobs describe (before or after the samplers), and is it the same one at every position?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.contexts import Scored, score
from draftproof.checks.drafting import (
    Drafting,
    Reports,
    batches,
    drafted_places,
    drafting,
    why_inconclusive,
    without_drafts,
)
from draftproof.checks.prompts import ordinary, repeating
from draftproof.core.ask import Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, OracleRow, Probe
from draftproof.core.sampling import Sampling
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

FIT, FIT_NOISE, FAR_NOISE = 0.02, 8, 4
CONDITIONS = common.WARPED
_HEATED = [sampling for sampling in CONDITIONS if not sampling.top_k]


class Law(StrEnum):
    """What a value can be the logarithm of."""

    RAW = "the model's own law, before the samplers"
    TEMPERED = "the law at the request's temperature"
    PROCESSED = "the law after all samplers"
    OTHER = "none of these"


@dataclass(frozen=True, slots=True)
class Probed:
    """An answer under sampler settings that set the laws apart, and the oracle's (raw) row before each token."""

    answer: Completion
    tokens: tuple[Scored, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers at several temperatures and with top-k 2; `noise` in nats as in logprobs/rescored."""

    reports: Reports
    noise: float
    probed: tuple[Probed, ...]


def collect(probe: Probe) -> Evidence:
    answers = common.warped(probe)
    return Evidence(
        probe.facts.self_reports,
        probe.noise([ordinary(probe, 1)[0], repeating(probe)], batches(answers)),
        tuple(Probed(answer, score(probe, answer)) for answer in answers),
    )


def _predictions(scored: Scored, sampling: Sampling) -> Iterator[tuple[Law, float]]:
    """The token's value under each law. Processed values need the row's mass, so a cut row gives none; nor does it give the
    tempered ones, but how far apart two of them are.
    """
    raw = scored.true
    if raw is None:
        return
    yield Law.RAW, raw
    cut = scored.row.logprobs[: sampling.top_k] if sampling.top_k else scored.row.logprobs
    if not scored.row.complete and not sampling.top_k:
        yield from ((Law.TEMPERED, value) for value in _beside(scored, raw, sampling.temperature))
        return
    if sampling.temperature != 1:
        mass = math.fsum(math.exp(x / sampling.temperature) for x in scored.row.logprobs)
        yield Law.TEMPERED, raw / sampling.temperature - math.log(mass)
    mass = math.fsum(math.exp(x / sampling.temperature) for x in cut)
    yield Law.PROCESSED, raw / sampling.temperature - math.log(mass)


def _beside(scored: Scored, raw: float, temperature: float) -> Iterator[float]:
    """The tempered value as it follows from what the answer says of the likeliest other token that the oracle knows too."""
    for other in scored.token.alternatives or ():
        known = scored.of(TokenRecord(other.id, other.text, None, None, None))
        same = other.id == scored.token.id if other.id is not None else other.text == scored.token.text
        if same or known is None or other.logprob is None or temperature == 1:
            continue
        yield other.logprob + (raw - known) / temperature
        return


def _classify(probed: Probed, places: Sequence[int], noise: float) -> Law | None:
    """The one law that fits all values at these places; None if there are no values or the laws cannot be told apart.

    Values that one law fits as without noise are judged in spite of a large one, where it could not bring the others there.
    """
    tolerance = max(FIT, FIT_NOISE * noise)
    gaps: dict[Law, list[float]] = {}
    spread = 0.0
    for n in places:
        scored = probed.tokens[n]
        predictions = dict(_predictions(scored, probed.answer.ask.sampling))
        if scored.token.logprob is None or not scored.token.alternatives or Law.RAW not in predictions:
            continue
        spread = max(spread, *(abs(v - predictions[Law.RAW]) for v in predictions.values()))
        for law, value in predictions.items():
            gaps.setdefault(law, []).append(abs(scored.token.logprob - value))
    if not gaps:
        return None
    best = min(gaps, key=lambda law: max(gaps[law]))
    if max(gaps[best]) <= FIT and spread > max(2 * FIT, FAR_NOISE * noise):
        return best
    if max(gaps[best]) > tolerance:
        return Law.OTHER if Law.PROCESSED in gaps else None
    return best if spread > 2 * tolerance else None


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails if token 1 and later tokens describe different laws, or one that is none of the known; no alpha is spent."""
    noise = evidence.noise
    probed = [p for p in evidence.probed if p.answer.ok and p.tokens]
    classes = [(_classify(p, [0], noise), _classify(p, range(1, len(p.tokens)), noise)) for p in probed]
    rows = tuple((_condition(p.answer.ask.sampling), *pair) for p, pair in zip(probed, classes, strict=True))
    first, later = ({pair[i] for pair in classes} - {None} for i in (0, 1))
    mixed = any(a and b and a is not b for a, b in classes)
    tables = (Table("What a logprob is the logarithm of", ("condition", "token 1", "later tokens"), rows),)
    exchanges = tuple(p.answer.exchange for p in probed)
    if Law.OTHER in first | later or mixed:
        code = "UNITS" if Law.OTHER in first else "CLASS_MIX"
        summary = f"token 1 describes {_names(first)}; later tokens {_names(later)}"
        return Judgement(Verdict.FAIL, summary, (Finding(code, summary, exchanges),), tables=tables)
    if not first or not later:
        where = "after token 1 " if first else ""
        text = f"no values {where}from which the law could be told"
        return Judgement(Verdict.INCONCLUSIVE, text, tables=tables, missing="real values after token 1")
    bare = [t for p in probed for t in drafted_places(p.answer) if not t.alternatives]
    if bare:
        text = f"{len(bare)} tokens after the first have no values, so that nothing can be told of those"
        return Judgement(
            Verdict.INCONCLUSIVE, text, tables=tables, missing="logprobs of drafted tokens: repair those first"
        )
    state = drafting(evidence.reports, [p.answer for p in probed])
    missing = why_inconclusive(state)
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, tables=tables, missing="a prompt that drafts")
    where = "drafted ones included" if state is Drafting.SEEN else without_drafts(state)
    return Judgement(Verdict.PASS, f"every token ({where}) describes {_names(first)}", tables=tables)


def _condition(sampling: Sampling) -> str:
    return f"temperature {sampling.temperature:g}, top-k {sampling.top_k or 'off'}"


def _names(laws: set[Law | None]) -> str:
    return " and ".join(sorted(law.value for law in laws if law)) or "nothing that can be told"


def requests(facts: Facts, effort: Effort) -> int:
    return 1 if facts.countable else len(CONDITIONS) * common.SHORT


_ROW = OracleRow(tuple(range(5)), tuple("abcde"), tuple(math.log(x) for x in made.LAW), 2, complete=True)
_CUT = OracleRow(_ROW.ids[:4], _ROW.texts[:4], _ROW.logprobs[:4], 2, complete=False)


def _laws(sampling: Sampling) -> dict[Law, list[float]]:
    hot = [x ** (1 / sampling.temperature) for x in made.LAW]
    kept = [x if not sampling.top_k or i < sampling.top_k else 1e-30 for i, x in enumerate(hot)]
    return {
        Law.RAW: list(made.LAW),
        Law.TEMPERED: [x / sum(hot) for x in hot],
        Law.PROCESSED: [x / sum(kept) for x in kept],
    }


def _made(
    first: Law,
    later: Law,
    drafted: int | None = 5,
    claims: Reports = (),
    row: OracleRow = _ROW,
    conditions: Sequence[Sampling] = CONDITIONS,
) -> Evidence:
    probed = []
    for sampling in conditions:
        laws = _laws(sampling)
        tokens = [_token(laws, first if n == 0 else later, n % 2) for n in range(6)]
        answer = made.answer(tokens, sampling=sampling, drafted=drafted, accepted=1, claims=claims)
        probed.append(Probed(answer, tuple(Scored(t, row) for t in tokens)))
    return Evidence(made.LIVE_ON if drafted or claims else made.LIVE_OFF, 1e-6, tuple(probed))


def _token(laws: dict[Law, list[float]], law: Law, token: int) -> TokenRecord:
    return made.placeholder(token) if law is Law.OTHER else made.true_token(token, laws[law])


_HALF = TokenRecord(0, "a", (97,), math.log(0.9), made.alternatives(made.LAW, 3))

CHECK = Check(
    name="logprobs/units",
    claim="Reported logprobs describe one and the same law (raw, tempered or processed) at every position.",
    blind_to="Which law the server means to report where it documents none; small errors (logprobs/rescored sees those).",
    remedy="Do not mix the logprob of token 1 with those after it, or restart without speculation.",
    aspects=("logprobs",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    applies=lambda facts: "" if facts.routes and facts.max_alternatives else "this server gives no alternatives",
    examples=(
        Example("raw throughout", _made(Law.RAW, Law.RAW), Verdict.PASS),
        Example("after the samplers throughout", _made(Law.PROCESSED, Law.PROCESSED), Verdict.PASS),
        Example("raw, no speculation", _made(Law.RAW, Law.RAW, None), Verdict.PASS),
        Example("raw, speculation declined", _made(Law.RAW, Law.RAW, None, made.DECLINED), Verdict.PASS),
        Example("raw first, processed after it", _made(Law.RAW, Law.PROCESSED), Verdict.FAIL, ("CLASS_MIX",)),
        Example("processed first, raw after it", _made(Law.PROCESSED, Law.RAW), Verdict.FAIL, ("CLASS_MIX",)),
        Example("raw throughout, beside cut rows", _made(Law.RAW, Law.RAW, row=_CUT, conditions=_HEATED), Verdict.PASS),
        Example(
            "tempered throughout, beside cut rows",
            _made(Law.TEMPERED, Law.TEMPERED, row=_CUT, conditions=_HEATED),
            Verdict.PASS,
        ),
        Example(
            "raw first, tempered after it, beside cut rows",
            _made(Law.RAW, Law.TEMPERED, row=_CUT, conditions=_HEATED),
            Verdict.FAIL,
            ("CLASS_MIX",),
        ),
        Example(
            "a value of no known law",
            Evidence(
                made.LIVE_OFF,
                1e-6,
                (Probed(made.answer([_HALF] * 3, sampling=CONDITIONS[0]), (Scored(_HALF, _ROW),) * 3),),
            ),
            Verdict.FAIL,
            ("UNITS",),
        ),
        Example("placeholders after token 1", _made(Law.RAW, Law.OTHER), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, 0.0, ()), Verdict.INCONCLUSIVE),
    ),
)
