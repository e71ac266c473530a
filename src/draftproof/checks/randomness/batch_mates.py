"""Does the answer of a seed depend on how a request beside it is sampled?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Reports, drafting, why_inconclusive
from draftproof.checks.prompts import private
from draftproof.checks.randomness.company import Timed, accompanied, company, room, together
from draftproof.checks.randomness.concurrency import APART, SHARED, applies, requests_alone
from draftproof.checks.randomness.repeats import (
    COLUMNS,
    Repeat,
    Weighed,
    compare,
    difference,
    more_would_tell,
    noise_if_needed,
    weigh,
)
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

MATES = (("beside an unfiltered request", NEUTRAL), ("beside a request with top_k 1", Sampling(top_k=1)))
COUNT = {Effort.QUICK: 1, Effort.STANDARD: 3, Effort.DEEP: 7}
ROUNDS = {Effort.QUICK: 1, Effort.STANDARD: 2, Effort.DEEP: 4}
LONGER = 2
"""The others go on for longer, so that the request has company up to its end."""
ALONE = "alone, asked again"
MORE_ROUNDS = 2
MOST_AGAIN = 24
"""How often one mate is asked for again where its answers end before the request's own."""
TRIES = 2
"""So often are mates asked for again and again, to give the request company for long enough."""
SEED = 9101


@dataclass(frozen=True, slots=True)
class Evidence:
    """One request with a seed at temperature 1: `alone`, and in `repeats` beside others, by their kind. `rounds` are all
    answers of one moment, the request's own first. `noise` in nats, None where it was not needed.
    """

    reports: Reports
    alone: Completion
    repeats: tuple[Repeat, ...]
    rounds: tuple[tuple[Timed, ...], ...]
    noise: float | None = None


def collect(probe: Probe) -> Evidence:
    _, ask = requests_alone(probe, 2)[1]
    count = room(probe, 1 + COUNT[probe.effort]) - 1
    others = [prompt for _, prompt in private(probe, min(count + 2, 8)) if prompt != ask.prompt][:count]
    alone = probe.once([ask])[0]
    repeats: list[Repeat] = []
    rounds: list[tuple[Timed, ...]] = []
    for _ in range(ROUNDS[probe.effort]):
        _beside(probe, ask, others, alone, repeats, rounds)
    differ = any(r.again.ok and difference(r.first, r.again) is not None for r in repeats)
    noise = noise_if_needed(probe, repeats, [ask.prompt, *others])
    if differ:
        repeats += [compare(probe, ALONE, alone, probe.ask(ask)) for _ in range(2)]
    if differ and more_would_tell(noise, ask.max_tokens):
        for _ in range(MORE_ROUNDS):
            _beside(probe, ask, others, alone, repeats, rounds)
    return Evidence(probe.facts.self_reports, alone, tuple(repeats), tuple(rounds), noise)


def _beside(
    probe: Probe,
    ask: Ask,
    others: Sequence[Prompt],
    alone: Completion,
    repeats: list[Repeat],
    rounds: list[tuple[Timed, ...]],
) -> None:
    """Once beside each kind of mate, which have the prompts `others`; where they end too early, again beside ever new ones."""
    for kind, sampling in MATES:
        mates = [Ask(p, LONGER * ask.max_tokens, 0, sampling, SEED + i) for i, p in enumerate(others)]
        answers = together(probe, [ask, *mates])
        for _ in range(TRIES):
            if not mates or company(answers, 0) >= SHARED:
                break
            answers = accompanied(probe, ask, mates, MOST_AGAIN)
        rounds.append(answers)
        repeats.append(compare(probe, kind, alone, answers[0].answer))


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails, naming the kind of mate, when the answer beside it is another one than alone, and more draws differ than the
    measured noise of batches makes with a probability of 1e-9.
    """
    weighed = [weigh(kind, evidence.repeats, evidence.noise) for kind, _ in MATES]
    control = weigh(ALONE, evidence.repeats, evidence.noise)
    kind, share = min(_most_in_company(evidence).items(), key=lambda item: item[1])
    measured = {"share of time in company": share, "noise (nat)": evidence.noise}
    tables = (Table("The answer of a seed beside others", COLUMNS, tuple(w.row for w in (*weighed, control) if w.n)),)
    if not all(w.n for w in weighed):
        return Judgement(Verdict.INCONCLUSIVE, "no answers to compare", (), (), measured, tables, "answers")
    if control.different:
        text = "the request gets another answer when it is asked again alone"
        return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, "answers that repeat when alone")
    findings = tuple(map(_finding, (w for w in weighed if w.faults)))
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, findings, (), measured, tables)
    if any(w.unclear for w in weighed):
        text = "the answer differs beside others, which numerical noise may explain or not"
        return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, "less numerical noise")
    if share < SHARED:
        text = f"{kind} the request was for {share:.0%} of its time at most, {SHARED:.0%} are needed"
        return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, APART)
    at_work = [t.answer for round_ in evidence.rounds for t in round_]
    missing = why_inconclusive(drafting(evidence.reports, [evidence.alone, *at_work]))
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, (), (), measured, tables, "a prompt that drafts")
    text = f"the answer is the same {' and '.join(kind for kind, _ in MATES)}"
    return Judgement(Verdict.PASS, text, (), (), measured, tables)


def _most_in_company(evidence: Evidence) -> dict[str, float]:
    """By kind of mate: the share of its time that the request had company, in the round in which it had most."""
    most = {kind: 0.0 for kind, _ in MATES}
    kinds = [r.condition for r in evidence.repeats if r.condition != ALONE]
    for kind, round_ in zip(kinds, evidence.rounds, strict=True):
        most[kind] = max(most[kind], company(round_, 0))
    return most


def _finding(w: Weighed) -> Finding:
    text = f"{w.condition} the seed gives another answer than alone ({len(w.faults)} of {w.n} times)"
    return Finding("MATE", text, tuple(r.again.exchange for r in w.faults))


def requests(facts: Facts, effort: Effort) -> int:
    return 1 + ROUNDS[effort] * len(MATES) * (1 + min(COUNT[effort], (facts.slots or 4) - 1))


_IDS = tuple(n * n % 5 for n in range(20))
_OTHER = (*_IDS[:3], *(0,) * 17)


def _answer(ids: Sequence[int]) -> Completion:
    return made.answer([made.true_token(i) for i in ids], drafted=9, accepted=3)


def _made(unfiltered: Sequence[int], top_k: Sequence[int], again: Sequence[int] = (), noise: float = 0.0) -> Evidence:
    alone = _answer(_IDS)
    repeats = [Repeat(kind, alone, _answer(ids)) for (kind, _), ids in zip(MATES, (unfiltered, top_k), strict=True)]
    rounds = tuple((Timed(r.again, 0.0, 1.0), Timed(_answer(_OTHER), 0.0, 2.0)) for r in repeats)
    if again:
        repeats.append(Repeat(ALONE, alone, _answer(again)))
    return Evidence(made.LIVE_ON, alone, tuple(repeats), rounds, noise)


def _undrafted(evidence: Evidence) -> Evidence:
    def bare(answer: Completion) -> Completion:
        return replace(answer, drafted=None, accepted=None)

    rounds = tuple(tuple(replace(t, answer=bare(t.answer)) for t in round_) for round_ in evidence.rounds)
    return replace(evidence, alone=bare(evidence.alone), rounds=rounds)


_SOUND = _made(_IDS, _IDS)

CHECK = Check(
    name="randomness/batch_mates",
    claim="The answer of a seed does not depend on how the requests beside it are sampled.",
    blind_to="Other kinds of requests beside it; whether the server worked on them in one batch.",
    remedy="Where a seed must repeat, send one request at a time, or the same samplers with every request.",
    aspects=("seeds",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=applies,
    examples=(
        Example("the same", _SOUND, Verdict.PASS),
        Example("top_k 1 spreads to its mate", _made(_IDS, _OTHER), Verdict.FAIL, ("MATE",)),
        Example("any mate shifts the draws", _made(_OTHER, _OTHER), Verdict.FAIL, ("MATE",)),
        Example("noise may explain it", _made(_IDS, _OTHER, noise=0.05), Verdict.INCONCLUSIVE),
        Example("another answer, alone too", _made(_IDS, _OTHER, again=_OTHER), Verdict.INCONCLUSIVE),
        Example(
            "one after the other",
            replace(_SOUND, rounds=tuple((a, replace(b, began_s=1.5)) for a, b in _SOUND.rounds)),
            Verdict.INCONCLUSIVE,
        ),
        Example("nothing drafted", _undrafted(_SOUND), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, _answer(_IDS), (), ()), Verdict.INCONCLUSIVE),
    ),
)
