"""Does a request get the same answer among others as alone, and nothing that belongs to another one?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Reports, drafting, why_inconclusive
from draftproof.checks.prompts import is_chat, private
from draftproof.checks.randomness.company import Timed, company, room, together
from draftproof.checks.randomness.repeats import (
    COLUMNS,
    Repeat,
    Weighed,
    compare,
    difference,
    emitted,
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

AT_ONCE = {Effort.QUICK: (4,), Effort.STANDARD: (4, 8), Effort.DEEP: (4, 8, 8, 8)}
TOKENS = 32
ALTERNATIVES = 3
SEED = 9001
MORE_ROUNDS = 2
"""After a difference: more answers tell a fault from a rare accident of rounding."""
WINDOW, LETTERS = 12, 4
"""So many tokens in a row, with so many different ones among them, belong to one request."""
SHARED = 0.5
"""What had company for less of its time than this had none."""
APART = "a server that works on two requests at once (llama-server: --parallel 2 or more), with nobody else asking it"
"""What it takes where requests were not at work at the same time."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`alone`: each request by itself. `rounds`: all at once. `repeats`: both side by side, and where they differ once more
    alone (condition "alone"). `markers`: the private word in each request's prompt. `noise`: in nats, None if not needed.
    """

    reports: Reports
    alone: tuple[Completion, ...]
    rounds: tuple[tuple[Timed, ...], ...]
    repeats: tuple[Repeat, ...]
    markers: tuple[str, ...]
    noise: float | None = None


def requests_alone(probe: Probe, n: int) -> list[tuple[str, Ask]]:
    """n requests with their private words, in turn at temperature 0 and at temperature 1 with a seed of its own.

    Without the prompt cache, so that the numeric path is the same each time.
    """
    alternatives, extra = min(ALTERNATIVES, probe.facts.max_alternatives), common.plain(probe)
    return [
        (word, Ask(prompt, TOKENS, alternatives, NEUTRAL if i % 2 else GREEDY, seed=SEED + i, extra=extra))
        for i, (word, prompt) in enumerate(private(probe, n))
    ]


def collect(probe: Probe) -> Evidence:
    sizes = [room(probe, n) for n in AT_ONCE[probe.effort]]
    words, asks = zip(*requests_alone(probe, max(sizes)), strict=True)
    alone = tuple(probe.once(asks))
    rounds: list[tuple[Timed, ...]] = []
    repeats: list[Repeat] = []
    for size in sizes:
        _round(probe, asks[:size], alone, rounds, repeats)
    differing = [i for i, ask in enumerate(asks) if _differs(ask, repeats)]
    if differing:
        repeats += [compare(probe, "alone", alone[i], probe.ask(asks[i])) for i in differing for _ in range(2)]
    prompts = [ask.prompt for ask in asks]
    noise = noise_if_needed(probe, repeats, prompts)
    if differing and more_would_tell(noise, TOKENS):
        for _ in range(MORE_ROUNDS):
            _round(probe, asks[: max(sizes)], alone, rounds, repeats)
    return Evidence(probe.facts.self_reports, alone, tuple(rounds), tuple(repeats), words, noise)


def _round(
    probe: Probe,
    asks: Sequence[Ask],
    alone: Sequence[Completion],
    rounds: list[tuple[Timed, ...]],
    repeats: list[Repeat],
) -> None:
    answers = together(probe, asks)
    rounds.append(answers)
    pairs = zip(alone, answers, strict=False)
    repeats += [compare(probe, f"{len(asks)} at once", first, timed.answer) for first, timed in pairs]


def _differs(ask: Ask, repeats: Sequence[Repeat]) -> bool:
    return any(_same(r.first.ask, ask) and difference(r.first, r.again) is not None for r in repeats if r.again.ok)


def _same(routed: Ask, ask: Ask) -> bool:
    return replace(routed, route=None) == replace(ask, route=None)


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails on text or a private word of another request, and on an answer that differs from the one alone beyond what the
    measured noise of batches explains: at temperature 0 a gap above max(6 noise, .05) nats, at temperature 1 more flipped
    draws than noise makes with a probability of 1e-9. Logprobs may drift by max(20 noise, .05).
    """
    conditions = list(dict.fromkeys(r.condition for r in evidence.repeats if r.condition != "alone"))
    weighed = [weigh(c, evidence.repeats, evidence.noise) for c in conditions]
    unstable = {r.first.ask.seed for r in weigh("alone", evidence.repeats, evidence.noise).different}
    foreign = tuple(_foreign(evidence, unstable))
    shared = _most_in_company(evidence.rounds)
    measured = {
        "requests at once": max(map(len, evidence.rounds), default=0),
        "share of time in company": min(shared.values(), default=0.0),
        "largest logprob drift (nat)": max((w.drift for w in weighed if w.drift is not None), default=None),
        "noise (nat)": evidence.noise,
        "acceptance alone": _acceptance(evidence.alone),
        "acceptance in company": _acceptance([t.answer for round_ in evidence.rounds for t in round_]),
    }
    tables = (Table("Answers in company against alone", COLUMNS, tuple(w.row for w in weighed)),)
    if not weighed or not sum(w.n for w in weighed):
        return Judgement(Verdict.INCONCLUSIVE, "no answers to compare", (), (), measured, missing="answers")
    findings = (*foreign, *_departures(weighed, unstable))
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, findings, (), measured, tables)
    if unstable or any(w.undecided for w in weighed):
        text = "some requests get another answer when they are asked again alone" if unstable else _unclear(weighed)
        missing = "answers that repeat when alone" if unstable else "less numerical noise"
        return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, missing)
    size, share = min(shared.items(), key=lambda item: item[1])
    if size < 2 or share < SHARED:
        text = f"{size} at once: none of the requests had company for more than {share:.0%} of its time, {SHARED:.0%} are needed"
        return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, APART)
    missing = why_inconclusive(drafting(evidence.reports, evidence.alone))
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, (), (), measured, tables, "a prompt that drafts")
    return Judgement(Verdict.PASS, _passed(weighed), (), (), measured, tables)


def _most_in_company(rounds: Sequence[Sequence[Timed]]) -> dict[int, float]:
    """By the number of requests at once: the share of its time that one of them had company, of the one that had most."""
    most: dict[int, float] = {}
    for round_ in rounds:
        most[len(round_)] = max(most.get(len(round_), 0.0), *(company(round_, i) for i in range(len(round_))))
    return most


def _departures(weighed: Sequence[Weighed], unstable: set[int | None]) -> Iterator[Finding]:
    for w in weighed:
        faults = [r for r in w.faults if r.first.ask.seed not in unstable]
        if faults:
            text = f"{w.condition}: {len(faults)} of {w.n} answers are not the ones that the same requests get alone"
            yield Finding("COMPANY", text, tuple(r.again.exchange for r in faults))
        if w.drift_is == "large":
            yield Finding("DRIFT", f"{w.condition}: logprobs move by up to {w.drift:.3f} nat from those alone")


def _foreign(evidence: Evidence, unstable: set[int | None]) -> Iterator[Finding]:
    """Words and runs of tokens of another request; runs say nothing of one whose answer is another each time, alone too."""
    for answers in evidence.rounds:
        for i, timed in enumerate(answers):
            mine, others = evidence.alone[i], [n for n in range(len(answers)) if n != i]
            if not timed.answer.ok or difference(mine, timed.answer) is None:
                continue
            runs = timed.answer.ask.seed not in unstable
            owner = next((n for n in others if _belongs(evidence, timed.answer, i, n, by_runs=runs)), None)
            if owner is not None:
                text = f"request {i + 1} of {len(answers)} at once got text of request {owner + 1}"
                yield Finding("FOREIGN", text, (timed.answer.exchange, answers[owner].answer.exchange))


def _belongs(evidence: Evidence, answer: Completion, mine: int, other: int, *, by_runs: bool) -> bool:
    marker = evidence.markers[other]
    if marker and marker in answer.text and marker not in evidence.alone[mine].text:
        return True
    if not by_runs:
        return False
    got = _windows(answer) - _windows(evidence.alone[mine])
    return bool(got & _windows(evidence.alone[other]))


def _windows(answer: Completion) -> set[tuple[int | str, ...]]:
    """Runs of tokens in the prompt and the answer that are not a mere repetition of few."""
    prompt = answer.ask.prompt if isinstance(answer.ask.prompt, tuple) else ()
    own = emitted(answer)
    runs = [part[n : n + WINDOW] for part in (prompt, own) for n in range(len(part) - WINDOW + 1)]
    return {tuple(run) for run in runs if len(set(run)) >= LETTERS}


def _acceptance(answers: Sequence[Completion]) -> float | None:
    drafted = sum(a.drafted or 0 for a in answers)
    return sum(a.accepted or 0 for a in answers) / drafted if drafted else None


def _unclear(weighed: Sequence[Weighed]) -> str:
    n = sum(len(w.unclear) for w in weighed)
    return f"{n} answers differ from those alone, which numerical noise may explain or not" if n else "logprobs drift"


def _passed(weighed: Sequence[Weighed]) -> str:
    ties = sum(len(w.ties) for w in weighed)
    largest = max((w.drift for w in weighed if w.drift is not None), default=None)
    return (
        f"{sum(w.n for w in weighed)} answers in company ({', '.join(w.condition for w in weighed)}) equal those alone"
        + (f", {ties} but for a near-tie" if ties else "")
        + ("" if largest is None else f"; logprobs within {largest:.1e} nat")
    )


def applies(facts: Facts) -> str:
    if facts.slots == 1:
        return "the server has one slot, so that no request has company"
    return "" if any(not is_chat(route) for route in facts.routes) else "no route takes plain prompts"


def requests(facts: Facts, effort: Effort) -> int:
    sizes = [min(n, facts.slots or n) for n in AT_ONCE[effort]]
    return max(sizes) + sum(sizes)


def _answer(ids: Sequence[int], sampling: Sampling, seed: int, drafted: int | None = 9) -> Completion:
    tokens = [made.true_token(i) for i in ids]
    return made.answer(tokens, sampling=sampling, seed=seed, drafted=drafted, accepted=3 if drafted else None)


def _made(
    *answers: Sequence[int], alone: Sequence[Sequence[int]] = (), again: Sequence[int] = (), noise: float = 0.0
) -> Evidence:
    """Two requests; `answers` are what they got together."""
    firsts = [_answer(ids, NEUTRAL, SEED + i) for i, ids in enumerate(alone or _ALONE)]
    got = [_answer(ids, NEUTRAL, SEED + i) for i, ids in enumerate(answers)]
    repeats = [Repeat("2 at once", a, b) for a, b in zip(firsts, got, strict=True)]
    if again:
        repeats.append(Repeat("alone", firsts[0], _answer(again, NEUTRAL, SEED)))
    rounds = (tuple(Timed(a, 0.0, 1.0) for a in got),)
    return Evidence(made.LIVE_ON, tuple(firsts), rounds, tuple(repeats), ("", ""), noise)


_ALONE = (tuple(n * n % 5 for n in range(20)), tuple((n * n + n // 3) % 5 for n in range(20)))
_LATE = (*_ALONE[0][:16], *(4 - i for i in _ALONE[0][16:]))
_SOUND = _made(*_ALONE)

CHECK = Check(
    name="randomness/concurrency",
    claim="A request gets the same answer among others as alone, and nothing of another request.",
    blind_to="More requests at once than were sent; whether the server worked on them in one batch.",
    remedy="Send one request at a time (one slot), or do not reproduce or compare answers of this server under load.",
    aspects=("text", "logprobs", "seeds"),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=applies,
    examples=(
        Example("equal", _SOUND, Verdict.PASS),
        Example("another's text", _made(_ALONE[1], _ALONE[1]), Verdict.FAIL, ("FOREIGN", "COMPANY")),
        Example("another answer than alone", _made(_LATE, _ALONE[1]), Verdict.FAIL, ("COMPANY",)),
        Example("the same, and noise that may explain it", _made(_LATE, _ALONE[1], noise=0.05), Verdict.INCONCLUSIVE),
        Example(
            "another answer, alone too",
            _made(_LATE, _ALONE[1], again=_LATE),
            Verdict.INCONCLUSIVE,
        ),
        Example(
            "one after the other",
            replace(
                _SOUND,
                rounds=(
                    tuple(replace(t, began_s=2.0 * i, ended_s=2.0 * i + 1) for i, t in enumerate(_SOUND.rounds[0])),
                ),
            ),
            Verdict.INCONCLUSIVE,
        ),
        Example(
            "nothing drafted",
            replace(_SOUND, alone=tuple(replace(a, drafted=None) for a in _SOUND.alone)),
            Verdict.INCONCLUSIVE,
        ),
        Example("nothing came", Evidence(made.LIVE_ON, (), (), (), ()), Verdict.INCONCLUSIVE),
    ),
)
