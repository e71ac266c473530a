"""Does an answer end before its stop string, in its text, its tokens and its counts, and at the model's own end token?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Reports, drafting, why_inconclusive
from draftproof.checks.prompts import is_chat, is_small
from draftproof.checks.stopping import endings
from draftproof.checks.stopping.endings import Endings
from draftproof.checks.stopping.trials import Trial, diverged, faults, kept, limits
from draftproof.core.ask import Ask, Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import GREEDY, NEUTRAL
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

WIDTHS = range(2, 7)
"""How many tokens a stop string is made of: the fewest that stand nowhere before it."""

STARTS = {
    Effort.QUICK: ((1, 3), (5,), (2, 4)),
    Effort.STANDARD: ((1, 2, 3, 4), (2, 5, 9), (1, 2, 3, 4, 6, 9)),
}
"""Tokens before the stop string: in greedy answers to an ordinary prompt and to the one that forces the longest drafts, which may
soon repeat themselves, and in an answer at temperature 1.
"""

ONE_WORD = "What is the capital of France? Answer with one word."
ONE_WORD_TOKENS = 48
SLACK = 1
"""An end token may be counted without an entry, or have an entry without being counted."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`greedy` trials at temperature 0; `seeded` ones at temperature 1, with the free answer asked `again` where texts differ;
    `ended` an answer that the model itself should end; `endings` what is known of end tokens.
    """

    reports: Reports
    greedy: tuple[Trial, ...]
    seeded: tuple[Trial, ...] = ()
    again: Completion | None = None
    ended: Completion | None = None
    endings: Endings = endings.NOTHING


def collect(probe: Probe) -> Evidence:
    asks = common.forced(probe, 0.0)
    starts = _starts(probe.effort)
    greedy = [
        trial
        for free, places in zip(probe.once([asks[0], asks[-1]]), starts[:2], strict=True)
        for trial in _trials(probe, free, places)
    ]
    free = probe.once(common.forced(probe, 1.0)[:1])[0]
    seeded = _trials(probe, free, starts[2]) if probe.facts.seeds else []
    again = probe.ask(free.ask) if any(map(diverged, seeded)) else None
    ended = _ended(probe)
    found = endings.collect(probe, ended)
    return Evidence(probe.facts.self_reports, tuple(greedy), tuple(seeded), again, ended, found)


def _starts(effort: Effort) -> tuple[Sequence[int], ...]:
    return STARTS[Effort.QUICK if effort is Effort.QUICK else Effort.STANDARD]


def _trials(probe: Probe, free: Completion, starts: Sequence[int]) -> list[Trial]:
    stops = dict.fromkeys(stop for n in starts if (stop := _stop_at(free, n)))
    return [Trial(stop, free, probe.ask(replace(free.ask, stop=(stop,)))) for stop in stops]


def _stop_at(free: Completion, start: int) -> str:
    """A text of whole tokens that an answer holds first after `start` tokens or soon after, and not at its end; or ""."""
    texts = [t.text for t in free.tokens]
    if not free.ok or "".join(texts) != free.text:
        return ""
    for n in range(start, len(texts)):
        for width in WIDTHS:
            stop = "".join(texts[n : n + width])
            if n + width < len(texts) and free.text.find(stop) == len("".join(texts[:n])):
                return stop
    return ""


def _ended(probe: Probe) -> Completion | None:
    chat = next(filter(is_chat, probe.facts.routes), None)
    if chat is None or is_small(probe):
        return None
    return probe.ask(Ask(ONE_WORD, ONE_WORD_TOKENS, 1, GREEDY, seed=7, route=chat))


def _faults_of_end(ended: Completion) -> Iterator[tuple[str, str]]:
    counts = common.counts_of(ended)
    if ended.finish == "stop" and counts and max(counts.values()) - min(counts.values()) > SLACK:
        told = ", ".join(f"{name} {n}" for name, n in counts.items())
        yield "MISCOUNT", f"the counts of an answer that the model ended disagree: {told}"


def _disturbed(evidence: Evidence) -> Iterator[Trial]:
    """Trials in which the seed, which gives the free text every time, gave another one before a stop string."""
    again = evidence.again
    for trial in evidence.seeded:
        if again is not None and trial.answer.ok and diverged(trial) and again.text == trial.free.text:
            yield trial


def _findings(evidence: Evidence, trials: Sequence[Trial], *, keeps: bool) -> Iterator[Finding]:
    for trial in trials:
        for code, text in faults(trial, keeps=keeps):
            yield Finding(code, text, (trial.answer.exchange,))
    if evidence.ended is not None and evidence.ended.ok:
        for code, text in _faults_of_end(evidence.ended):
            yield Finding(code, text, (evidence.ended.exchange,))
    for trial in _disturbed(evidence):
        text = f"the same seed gives one text again and again, and another one before the stop string {trial.stop!r}"
        yield Finding("DISTURBED", text, (trial.answer.exchange,))
    yield from endings.passed(evidence.endings)


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when text, token ids, logprob entries or usage go past the stop string or the end token, or when text before it is
    lost.

    The tokens of the stop string itself may be counted or not. An answer that differs from the one without a stop string
    before the string begins says nothing.
    """
    trials = [*evidence.greedy, *evidence.seeded]
    answered = [t for t in trials if t.answer.ok]
    decided = [t for t in answered if not diverged(t)]
    keeps = bool(decided) and all(map(kept, decided))
    findings = tuple(_findings(evidence, trials, keeps=keeps))
    tables = (_table(trials),) if trials else ()
    if findings:
        wrong = len({f.exchanges for f in findings})
        looked = len(trials) + len(evidence.endings.answers)
        summary = f"{wrong} of {looked} answers end in the wrong way: {findings[0].text}"
        return Judgement(Verdict.FAIL, summary, findings, tables=tables)
    if trials and not answered:
        return Judgement(Verdict.NOT_APPLICABLE, f"stop strings are refused: {trials[0].answer.error}", tables=tables)
    if not decided:
        text = "no answer reached its stop string on the way of the answer without one"
        return Judgement(Verdict.INCONCLUSIVE, text, tables=tables, missing="answers that repeat at temperature 0")
    missing = why_inconclusive(drafting(evidence.reports, [a for t in trials for a in (t.free, t.answer)]))
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, tables=tables, missing="a prompt that drafts")
    habit = "after" if keeps else "before"
    summary = f"{len(decided)} answers end {habit} their stop strings, and so do their tokens and counts"
    return Judgement(Verdict.PASS, summary, tables=tables)


def _table(trials: Sequence[Trial]) -> Table:
    columns = ("stop string", "tokens before", "complete", "token ids", "usage", "logprob entries", "finish", "drafted")
    rows = []
    for t in trials:
        counts = common.counts_of(t.answer)
        shown = (counts.get(name) for name in ("token ids", "usage", "logprob entries"))
        rows.append((repr(t.stop), *limits(t), *shown, t.answer.finish, t.answer.drafted))
    return Table("Tokens at stop strings", columns, tuple(rows))


def requests(facts: Facts, effort: Effort) -> int:
    again, ended = 1, 0 if facts.countable else 1
    return sum(map(len, _starts(effort))) + again + ended + endings.MOST


_IDS = (0, 1, 0, 2, 3, 1, 2, 0)
_FREE = made.answer([made.true_token(i) for i in _IDS], sampling=GREEDY, drafted=6, accepted=4)
_SEEDED = replace(_FREE, ask=replace(_FREE.ask, sampling=NEUTRAL))


def _stopped(
    stop: str, text: str, entries: int, ids: int, usage: int, finish: str = "stop", free: Completion = _FREE
) -> Trial:
    answer = replace(
        free,
        ask=replace(free.ask, stop=(stop,)),
        text=text,
        tokens=free.tokens[:entries],
        token_ids=_IDS[:ids],
        completion_tokens=usage,
        finish=finish,
    )
    return Trial(stop, free, answer)


def _of(*trials: Trial) -> Evidence:
    return Evidence(made.LIVE_ON, trials)


_END = 4


def _ending(*ids: int, forced: int = _END, made: tuple[int, ...] = (_END,)) -> Endings:
    """A sampled answer that the model ended, and one upon which a token was forced."""
    answer = replace(_SEEDED, token_ids=ids, finish="stop")
    bias = replace(GREEDY, logit_bias=((forced, endings.FORCED),))
    finish = "stop" if len(made) < 2 else "length"
    return Endings((answer,), (replace(_FREE, ask=replace(_FREE.ask, sampling=bias), token_ids=made, finish=finish),))


_GOOD = _stopped("cd", "aba", 5, 5, 5)
_DROPS = _stopped("cd", "aba", 3, 5, 5)
_OTHER = _stopped("cd", "ada", 4, 4, 4)
_UNDRAFTED = replace(
    _GOOD,
    free=replace(_FREE, drafted=None, accepted=None),
    answer=replace(_GOOD.answer, drafted=None, accepted=None),
)

CHECK = Check(
    name="stopping/stop_string",
    claim="An answer ends before its stop string: text, token ids, logprob entries and usage do not go past it. No token comes "
    "after an end token.",
    blind_to="Stop strings that end inside a token, several at once; end tokens where no sampled answer ended, or where the "
    "server tells no token ids.",
    remedy="Cut text and logprobs at the stop string yourself, and do not rely on usage of answers that a stop string ended.",
    aspects=("text", "counters"),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    applies=lambda facts: "" if facts.routes else "this server names no tokens, so that no stop string can be placed",
    examples=(
        Example("ignored", _of(_stopped("cd", _FREE.text, 8, 8, 8, "length")), Verdict.FAIL, ("STOP_PASSED",)),
        Example(
            "text cut, ids and logprobs of the whole draft returned",
            _of(_stopped("cd", "aba", 7, 7, 5)),
            Verdict.FAIL,
            ("STOP_PASSED",),
        ),
        Example("the whole draft charged", _of(_stopped("cd", "aba", 5, 5, 7)), Verdict.FAIL, ("MISCOUNT",)),
        Example("a token before the stop lost", _of(_stopped("cd", "ab", 5, 5, 5)), Verdict.FAIL, ("TEXT_LOST",)),
        Example("an entry lost with the stop word", _of(_stopped("cd", "aba", 2, 5, 5)), Verdict.FAIL, ("MISCOUNT",)),
        Example("called a cut", _of(_stopped("cd", "aba", 5, 5, 5, "length")), Verdict.FAIL, ("WRONG_FINISH",)),
        Example(
            "left in the text only where it ends a draft",
            _of(_GOOD, _stopped("db", "abacdb", 6, 6, 6)),
            Verdict.FAIL,
            ("STOP_PASSED",),
        ),
        Example(
            "an internal error",
            _of(replace(_GOOD, answer=made.answer((), status=500, error="stop"))),
            Verdict.FAIL,
            ("BROKEN",),
        ),
        Example(
            "a stop string that changes what is drawn before it",
            replace(_of(_GOOD), seeded=(_stopped("cd", "ada", 5, 5, 5, free=_SEEDED),), again=_SEEDED),
            Verdict.FAIL,
            ("DISTURBED",),
        ),
        Example(
            "an ending with more charged than made",
            replace(_of(_GOOD), ended=replace(_FREE, finish="stop", completion_tokens=11)),
            Verdict.FAIL,
            ("MISCOUNT",),
        ),
        Example(
            "the rest of a draft after the end token",
            replace(_of(_GOOD), endings=_ending(0, 1, _END, 2, 3)),
            Verdict.FAIL,
            ("END_PASSED",),
        ),
        Example("an answer that its end token ends", replace(_of(_GOOD), endings=_ending(0, 1, _END)), Verdict.PASS),
        Example(
            "a forced token that ends nothing",
            replace(_of(_GOOD), endings=_ending(0, 1, 2, forced=1, made=(1, 0))),
            Verdict.PASS,
        ),
        Example("kept, the stop's own tokens counted", _of(_GOOD), Verdict.PASS),
        Example("kept, the stop's own entries left out", _of(_DROPS), Verdict.PASS),
        Example("a server that leaves it in the text", _of(_stopped("cd", "abacd", 5, 5, 5)), Verdict.PASS),
        Example(
            "a seed that gives another text each time",
            replace(
                _of(_GOOD),
                seeded=(_stopped("cd", "ada", 5, 5, 5, free=_SEEDED),),
                again=replace(_SEEDED, text="bbbbbbbb"),
            ),
            Verdict.PASS,
        ),
        Example(
            "an end token counted but not delivered",
            replace(_of(_GOOD), ended=replace(_FREE, finish="stop", completion_tokens=9)),
            Verdict.PASS,
        ),
        Example(
            "refused",
            _of(replace(_GOOD, answer=made.answer((), status=400, error="no stop strings"))),
            Verdict.NOT_APPLICABLE,
        ),
        Example("another text at temperature 0", _of(_OTHER), Verdict.INCONCLUSIVE),
        Example("no place for a stop string", _of(), Verdict.INCONCLUSIVE),
        Example("nothing drafted", _of(_UNDRAFTED), Verdict.INCONCLUSIVE),
    ),
)
