"""Does a request get the same numbers and the same answer whatever the server did before?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Reports, drafting, why_inconclusive
from draftproof.checks.prompts import is_chat, ordinary
from draftproof.checks.randomness import partly
from draftproof.checks.randomness.concurrency import requests_alone
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
from draftproof.core.ask import Ask, Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import GREEDY, NEUTRAL, Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

UNRELATED_TOKENS = {Effort.QUICK: 128, Effort.STANDARD: 384, Effort.DEEP: 768}
ROUNDS = {Effort.QUICK: 1, Effort.STANDARD: 2, Effort.DEEP: 4}
SEED = 9201
AGAIN, ANEW, AFTER = "its prompt from the cache", "its prompt worked out anew", "after a long unrelated request"
CONTROL = "worked out anew twice"
MORE = 4
ENOUGH = 8
"""Accepted drafts before it says anything that fewer come after."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`repeats`: a greedy request and one with a seed, each uncached at first and again, by condition. `unrelated` is what came
    between. `noise` in nats, None where it was not needed. `cached`: a long greedy request worked out anew and with its beginning
    cached, and where that moves something, with less of it.
    """

    reports: Reports
    repeats: tuple[Repeat, ...]
    unrelated: tuple[Completion, ...] = ()
    noise: float | None = None
    cached: tuple[Repeat, ...] = ()


def collect(probe: Probe) -> Evidence:
    asks = [ask for _, ask in requests_alone(probe, 2)]
    cached = [replace(ask, extra=probe.facts.drafting) for ask in asks]
    firsts, drawn = probe.once(asks), asks[1]
    repeats = _again(probe, AGAIN, firsts, cached)
    repeats.append(compare(probe, ANEW, firsts[1], probe.ask(drawn)))
    unrelated = []
    for n in range(ROUNDS[probe.effort]):
        unrelated.append(probe.ask(_unrelated(probe, n)))
        repeats += _again(probe, AFTER, firsts, cached)
    differ = any(r.again.ok and difference(r.first, r.again) is not None for r in repeats)
    noise = noise_if_needed(probe, repeats, [*(a.prompt for a in asks), *ordinary(probe, 1)])
    if differ:
        repeats += _again(probe, CONTROL, [probe.ask(drawn)] * 2, [drawn] * 2)
    if differ and more_would_tell(noise, drawn.max_tokens):
        for n in range(MORE):
            repeats += _again(probe, AGAIN, firsts[1:], cached[1:])
            repeats += _again(probe, ANEW, firsts[1:], asks[1:])
            unrelated.append(probe.ask(_unrelated(probe, n)))
            repeats += _again(probe, AFTER, firsts[1:], cached[1:])
    return Evidence(
        probe.facts.self_reports, tuple(repeats), tuple(unrelated), noise, tuple(partly.collect(probe, asks[0]))
    )


def _again(probe: Probe, condition: str, firsts: Sequence[Completion], asks: Sequence[Ask]) -> list[Repeat]:
    return [compare(probe, condition, first, probe.ask(ask)) for first, ask in zip(firsts, asks, strict=True)]


def _unrelated(probe: Probe, n: int) -> Ask:
    """A long request that shares nothing with the others."""
    prompts = ordinary(probe, 5)[1:]
    size = UNRELATED_TOKENS[probe.effort]
    most = probe.facts.context // 2 if probe.facts.context else size
    return Ask(prompts[n % len(prompts)], min(size, most), 0, NEUTRAL, seed=SEED + n)


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when logprobs drift by more than max(20 noise, .05) nats; when the answer changes by more than noise explains (at
    temperature 0 a gap above max(6 noise, .05), with a seed a probability below 1e-9); when the same greedy answer has less
    than half of its drafts accepted; when a cached beginning moves a value of a long prompt by more than 1 nat.
    """
    weighed = [weigh(c, evidence.repeats, evidence.noise) for c in (AGAIN, ANEW, AFTER)]
    control = weigh(CONTROL, evidence.repeats, evidence.noise)
    drifts = [w.drift for w in weighed if w.drift is not None]
    cached = partly.Cached.of(evidence.cached)
    before, after = _acceptance(evidence, AGAIN), _acceptance(evidence, AFTER)
    measured = {
        "largest logprob drift (nat)": max(drifts, default=None),
        "noise (nat)": evidence.noise,
        "logprob drift by a cached beginning (nat)": cached.largest,
        "drafts accepted before": _shown(before),
        "drafts accepted after": _shown(after),
    }
    rows = (*(w.row for w in (*weighed, control) if w.n), *([cached.row] if cached.n else []))
    tables = (Table("One request, asked again", COLUMNS, rows),)
    if not all(w.n for w in weighed):
        return Judgement(Verdict.INCONCLUSIVE, "no answers to compare", (), (), measured, tables, "answers")
    findings = tuple(_departures(weighed, repeats_itself=not control.different))
    if cached.is_fault:
        text = f"{partly.PARTLY}, values move by up to {cached.largest:.2g} nat, more than rounding does"
        asked = dict.fromkeys(a.exchange for r in evidence.cached for a in (r.first, r.again))
        findings = (*findings, Finding("DRIFT", text, tuple(asked)))
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, findings, (), measured, tables)
    if control.different:
        text = "one request gets different answers even when nothing lies between and nothing is cached"
        return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, "answers that repeat")
    if any(w.undecided for w in weighed):
        text = "answers change with what came before, which numerical noise may explain or not"
        return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, "less numerical noise")
    if cached.unclear:
        text = f"{cached.caution}, which may be rounding or a wrong cache"
        return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, "a cache of 32 bits, or logprobs")
    if fallen := _fallen(before, after):
        return Judgement(Verdict.FAIL, fallen.text, (fallen,), (), measured, tables)
    missing = why_inconclusive(drafting(evidence.reports, [r.again for r in evidence.repeats]))
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, (), (), measured, tables, "a prompt that drafts")
    ties = sum(len(w.ties) for w in weighed)
    text = (
        f"{sum(w.n for w in weighed)} answers, cached, uncached and after other work, are the same"
        + (f" ({ties} but for a near-tie)" if ties else "")
        + (f"; logprobs within {max(drifts):.1e} nat" if drifts else "")
    )
    text += f"; {cached.caution}" if cached.caution else ""
    return Judgement(Verdict.PASS, text, (), (), measured, tables, caution=cached.caution)


def _departures(weighed: Sequence[Weighed], *, repeats_itself: bool) -> list[Finding]:
    found = []
    for w in weighed:
        if w.drift_is == "large":
            found.append(Finding("DRIFT", f"{w.condition}, logprobs move by up to {w.drift:.3f} nat"))
        if w.faults and repeats_itself:
            text = f"{w.condition}, the same request gets another answer ({len(w.faults)} of {w.n} times)"
            found.append(Finding("HISTORY", text, tuple(r.again.exchange for r in w.faults)))
    return found


def _acceptance(evidence: Evidence, condition: str) -> tuple[int, int] | None:
    """Accepted and drafted tokens of the greedy request's repeats that gave the same answer."""
    same = [
        r.again
        for r in evidence.repeats
        if r.condition == condition
        and r.first.ask.sampling.greedy
        and r.again.drafted is not None
        and difference(r.first, r.again) is None
    ]
    return (sum(a.accepted or 0 for a in same), sum(a.drafted or 0 for a in same)) if same else None


def _fallen(before: tuple[int, int] | None, after: tuple[int, int] | None) -> Finding | None:
    """A finding when less than half of the share of drafts is accepted afterwards. It costs speed and no number."""
    if before is None or after is None or before[0] < ENOUGH or not after[1]:
        return None
    if 2 * after[0] * before[1] >= before[0] * after[1]:
        return None
    text = f"{AFTER}, {_shown(after)} drafts of the same answer are accepted, {_shown(before)} before"
    return Finding("ACCEPTANCE_FELL", text)


def _shown(counts: tuple[int, int] | None) -> str | None:
    return None if counts is None else f"{counts[0]} of {counts[1]}"


def requests(facts: Facts, effort: Effort) -> int:
    return 2 + 3 + 3 * ROUNDS[effort] + (5 if partly.applies(facts) else 0)


def _answer(
    ids: Sequence[int],
    sampling: Sampling = NEUTRAL,
    accepted: int | None = 9,
    moved: float = 0,
    law: Sequence[float] = made.LAW,
) -> Completion:
    tokens = [made.true_token(i, law) for i in ids]
    tokens = [replace(t, logprob=(t.logprob or 0.0) - moved) for t in tokens]
    return made.answer(tokens, sampling=sampling, drafted=12 if accepted is not None else None, accepted=accepted)


_IDS = tuple(n * n % 5 for n in range(20))
_OTHER = (*_IDS[:6], *(0,) * 14)
_TIE = (0.375, 0.375, 0.125, 0.0625, 0.0625)


def _made(
    after: Completion | None = None, greedy_after: Completion | None = None, noise: float = 0.0, control: bool = False
) -> Evidence:
    greedy, drawn = _answer(_IDS, GREEDY), _answer(_IDS)
    repeats = [
        Repeat(AGAIN, greedy, greedy),
        Repeat(AGAIN, drawn, drawn),
        Repeat(ANEW, drawn, drawn),
        Repeat(AFTER, greedy, greedy_after or greedy),
        Repeat(AFTER, drawn, after or drawn),
    ]
    if control:
        repeats.append(Repeat(CONTROL, drawn, _answer(_OTHER)))
    return Evidence(made.LIVE_ON, tuple(repeats), (), noise)


def _long(
    moved: float, again: float | None = None, ids: Sequence[int] = _IDS, law: Sequence[float] = made.LAW
) -> Evidence:
    """A cached beginning moves the tokens' values by `moved` nats, less of it by `again`; `ids`: the text that comes then."""
    first = _answer(_IDS, GREEDY, law=law)
    pairs = [Repeat(partly.PARTLY, first, _answer(ids, GREEDY, moved=moved, law=law))]
    if again is not None:
        pairs.append(Repeat(partly.ELSEWHERE, first, _answer(ids, GREEDY, moved=again, law=law)))
    return replace(_made(), cached=tuple(pairs))


CHECK = Check(
    name="randomness/history",
    claim="A request gets the same numbers and the same answer cached, uncached, and after other requests.",
    blind_to="Longer histories than were made; changes that are smaller than the stated noise, so a cached prompt of which a "
    "single token is wrong.",
    remedy="Switch the prompt cache off where numbers must repeat, and start the server anew where drafts no longer pay.",
    aspects=("text", "logprobs", "seeds"),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=lambda facts: "" if any(not is_chat(r) for r in facts.routes) else "no route takes plain prompts",
    spoils={"ACCEPTANCE_FELL": ()},
    examples=(
        Example("the same", _made(), Verdict.PASS),
        Example("another answer afterwards", _made(_answer(_OTHER)), Verdict.FAIL, ("HISTORY",)),
        Example("logprobs move", _made(_answer(_IDS, moved=0.3)), Verdict.FAIL, ("DRIFT",)),
        Example(
            "hardly a draft is accepted any more",
            _made(greedy_after=_answer(_IDS, GREEDY, accepted=1)),
            Verdict.FAIL,
            ("ACCEPTANCE_FELL",),
        ),
        Example("they move, and so does the noise", _made(_answer(_IDS, moved=0.3), noise=0.05), Verdict.PASS),
        Example("noise may explain the answer", _made(_answer(_OTHER), noise=0.05), Verdict.INCONCLUSIVE),
        Example("nothing repeats at all", _made(_answer(_OTHER), control=True), Verdict.INCONCLUSIVE),
        Example(
            "nothing drafted",
            Evidence(
                made.LIVE_ON,
                tuple(Repeat(c, *(2 * (_answer(_IDS, accepted=None),))) for c in (AGAIN, ANEW, AFTER)),
            ),
            Verdict.INCONCLUSIVE,
        ),
        Example("a cached beginning moves nothing", _long(0.0), Verdict.PASS),
        Example("a cached beginning moves values by rounding", _long(0.1, 0.0), Verdict.PASS),
        Example("and greedy text at a tie", _long(0.1, 0.0, _OTHER, _TIE), Verdict.PASS),
        Example("and greedy text at no tie", _long(0.1, 0.0, _OTHER), Verdict.INCONCLUSIVE),
        Example("another text's cache", _long(2.0, 1.9), Verdict.FAIL, ("DRIFT",)),
        Example("only with less of it cached", _long(0.1, 2.0), Verdict.FAIL, ("DRIFT",)),
        Example("both cached beginnings agree, and not with the prompt", _long(0.3, 0.299), Verdict.INCONCLUSIVE),
        Example("more than rounding was seen to do", _long(0.7, 0.1), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, ()), Verdict.INCONCLUSIVE),
    ),
)
