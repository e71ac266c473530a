"""Does a request get the same numbers and the same answer whatever the server did before?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example, Terms
from draftproof.checks.drafting import Reports, drafting, why_inconclusive
from draftproof.checks.prompts import SMALL_VOCABULARY, beginning, is_chat, ordinary, prose
from draftproof.checks.randomness.concurrency import requests_alone
from draftproof.checks.randomness.repeats import (
    COLUMNS,
    SMALL_DRIFT,
    Repeat,
    Weighed,
    compare,
    difference,
    drift,
    more_would_tell,
    noise_if_needed,
    spread,
    weigh,
)
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, OracleRow, Probe
from draftproof.core.sampling import GREEDY, NEUTRAL, Sampling
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

UNRELATED_TOKENS = {Effort.QUICK: 128, Effort.STANDARD: 384, Effort.DEEP: 768}
ROUNDS = {Effort.QUICK: 1, Effort.STANDARD: 2, Effort.DEEP: 4}
SEED = 9201
AGAIN, ANEW, AFTER = "its prompt from the cache", "its prompt worked out anew", "after a long unrelated request"
CONTROL = "worked out anew twice"
PARTLY, OTHERS = "a long prompt, its beginning from the cache", "another long prompt, for the noise of that"
LEAST_CONTEXT = 320
CACHE_NOISE = 0.05
"""The most noise in nats (RMS) that is taken for rounding where a prompt's beginning comes from the cache: a single value may
then move by one nat. What goes beyond is another context's number."""
MORE = 4
ENOUGH = 8
"""Accepted drafts before it says anything that fewer come after."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`repeats`: a greedy request and one with a seed, each uncached at first and again, by condition. `unrelated` is what came
    between. `noise` in nats, None where it was not needed. `partly`: a long greedy request worked out anew and with its beginning
    cached, and where that differs, another one.
    """

    reports: Reports
    repeats: tuple[Repeat, ...]
    unrelated: tuple[Completion, ...] = ()
    noise: float | None = None
    partly: tuple[Repeat, ...] = ()


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
    return Evidence(probe.facts.self_reports, tuple(repeats), tuple(unrelated), noise, tuple(_partly(probe, asks[0])))


def _partly(probe: Probe, greedy: Ask) -> Iterator[Repeat]:
    """A prompt with its beginning in the cache is evaluated in other batches than one worked out anew. Not for a small model, whose
    prompts are all short.
    """
    if _is_small(probe.facts) or (probe.facts.context or LEAST_CONTEXT) < LEAST_CONTEXT:
        return
    first, second = prose(probe)
    repeat = _cached_in_part(probe, PARTLY, greedy, first)
    yield repeat
    if repeat.again.ok and (difference(repeat.first, repeat.again) is not None or (drift(repeat) or 0) > SMALL_DRIFT):
        yield _cached_in_part(probe, OTHERS, greedy, second)


def _cached_in_part(probe: Probe, condition: str, greedy: Ask, prompt: Prompt) -> Repeat:
    """Asked for anew, then with the cache holding its beginning alone."""
    ask = replace(greedy, prompt=prompt)
    first = probe.ask(ask)
    probe.ask(Ask(beginning(prompt), 1, seed=SEED))
    return compare(probe, condition, first, probe.ask(replace(ask, extra=probe.facts.drafting)))


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
    than half of its drafts accepted. Where the beginning of a long prompt comes from the cache, the noise is that of another
    such prompt, at most CACHE_NOISE.
    """
    weighed = [weigh(c, evidence.repeats, evidence.noise) for c in (AGAIN, ANEW, AFTER)]
    control = weigh(CONTROL, evidence.repeats, evidence.noise)
    drifts = [w.drift for w in weighed if w.drift is not None]
    partly = weigh(PARTLY, evidence.partly, _cache_noise(evidence))
    before, after = _acceptance(evidence, AGAIN), _acceptance(evidence, AFTER)
    measured = {
        "largest logprob drift (nat)": max(drifts, default=None),
        "noise (nat)": evidence.noise,
        "logprob drift by a cached beginning (nat)": partly.drift,
        "noise of that (nat)": _cache_noise(evidence),
        "drafts accepted before": _shown(before),
        "drafts accepted after": _shown(after),
    }
    tables = (Table("One request, asked again", COLUMNS, tuple(w.row for w in (*weighed, partly, control) if w.n)),)
    if not all(w.n for w in weighed):
        return Judgement(Verdict.INCONCLUSIVE, "no answers to compare", (), (), measured, tables, "answers")
    weighed = [*weighed, partly] if partly.n else weighed
    findings = tuple(_departures(weighed, repeats_itself=not control.different))
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, findings, (), measured, tables)
    if control.different:
        text = "one request gets different answers even when nothing lies between and nothing is cached"
        return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, "answers that repeat")
    if any(w.undecided for w in weighed):
        text = "answers change with what came before, which numerical noise may explain or not"
        return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, "less numerical noise")
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
    caution = _caution(partly)
    text += f"; {caution}" if caution else ""
    return Judgement(Verdict.PASS, text, (), (), measured, tables, caution=caution)


def _cache_noise(evidence: Evidence) -> float | None:
    """RMS in nats; None where it was not needed or not told. Two prompts, so that one whose values hardly move is not all."""
    found = spread(r for r in evidence.partly if r.condition == OTHERS)
    return None if found is None else min(CACHE_NOISE, max(found, evidence.noise or 0.0))


def _caution(partly: Weighed) -> str:
    """What a pass must not hide: numbers that move by rounding."""
    moves = partly.drift or 0.0
    if moves <= SMALL_DRIFT and not partly.different:
        return ""
    text = f"logprobs move by up to {moves:.2g} nat with how much of a prompt was cached"
    return f"{text}, and greedy text with them" if partly.different else f"{text}; greedy text can change with them"


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
    return 2 + 3 + 3 * ROUNDS[effort] + (0 if _is_small(facts) else 6)


def _is_small(facts: Facts) -> bool:
    return facts.vocabulary is not None and facts.vocabulary <= SMALL_VOCABULARY


def _answer(ids: Sequence[int], sampling: Sampling = NEUTRAL, accepted: int | None = 9, moved: float = 0) -> Completion:
    tokens = [made.true_token(i) for i in ids]
    tokens = [replace(t, logprob=(t.logprob or 0.0) - moved) for t in tokens]
    return made.answer(tokens, sampling=sampling, drafted=12 if accepted is not None else None, accepted=accepted)


_IDS = tuple(n * n % 5 for n in range(20))
_OTHER = (*_IDS[:6], *(0,) * 14)


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


def _long(moved: float, noise: float | None = None, ids: Sequence[int] = _IDS, gap: float = 1.0) -> Evidence:
    """`moved` nats by a cached beginning, with `noise` nats of the same seen with another prompt."""
    first = _answer(_IDS, GREEDY)
    row = OracleRow((0, 1), ("a", "b"), (-0.5, -0.5 - gap), 2)
    pairs = [Repeat(PARTLY, first, _answer(ids, GREEDY, moved=moved), row)]
    if noise is not None:
        pairs.append(Repeat(OTHERS, first, _answer(_IDS, GREEDY, moved=noise)))
    return replace(_made(), partly=tuple(pairs))


CHECK = Check(
    name="randomness/history",
    claim="A request gets the same numbers and the same answer cached, uncached, and after other requests.",
    blind_to="Longer histories than were made; changes that are smaller than the stated noise.",
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
        Example("a cached beginning moves values as much as another one does", _long(0.1, 0.03), Verdict.PASS),
        Example("a cached beginning that is another text's", _long(2.0, 1.5), Verdict.FAIL, ("DRIFT",)),
        Example("it moves values where others stay", _long(0.1, 1e-4), Verdict.FAIL, ("DRIFT",)),
        Example("it changes greedy text at a near-tie", _long(0.1, 0.03, _OTHER, gap=0.05), Verdict.PASS),
        Example("it changes greedy text far from a tie", _long(0.1, 0.03, _OTHER, gap=1.0), Verdict.FAIL, ("HISTORY",)),
        Example("it moves values, no noise was told", _long(0.3), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, ()), Verdict.INCONCLUSIVE),
    ),
)
