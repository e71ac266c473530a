"""Do the counts of tokens and drafts add up, in an answer, between its parts, and with the server's totals?"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import (
    Drafting,
    Reports,
    drafting,
    drafts,
    has_placeholder,
    tokens_per_step,
    why_inconclusive,
)
from draftproof.checks.self_report import totals as named
from draftproof.checks.self_report.totals import Totals, moved, read_totals
from draftproof.core.ask import Ask, Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Cell, Finding, Judgement, Table, Verdict

STOPS = {Effort.QUICK: (2, 3), Effort.STANDARD: (2, 3, 4, 6), Effort.DEEP: (2, 3, 4, 5, 6, 7, 8, 9)}
"""After how many tokens a stop string ends the answer: few, so that an accepted draft that goes on beyond it stands out."""
SETTLE_S, TRIES = 0.5, 3

Moved = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Stopped:
    """An answer whose stop string is complete with token `at` (None: no stop string was sent)."""

    answer: Completion
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """`answers` to prompts that force drafting; `counted`: those between two readings of the totals, which `moved` so much."""

    reports: Reports
    answers: tuple[Completion, ...]
    counted: tuple[Stopped, ...]
    moved: Moved = ()


def collect(probe: Probe) -> Evidence:
    asks = common.forced(probe, 0.0)
    answers = probe.once(asks)
    base = max(answers, key=lambda a: (drafts(a), a.accepted or 0))
    ask = base.ask if drafts(base) else asks[-1]
    before = read_totals(probe)
    counted = [Stopped(probe.ask(ask)), *_stopped(probe, ask, base)]
    after = _settled(probe, before, counted)
    return Evidence(probe.facts.self_reports, tuple(answers), tuple(counted), tuple(moved(before, after).items()))


def _stopped(probe: Probe, ask: Ask, base: Completion) -> Iterator[Stopped]:
    """The same answer, ended by a stop string that is its own beginning: so it is complete with a known token."""
    texts = [t.text for t in base.tokens]
    for at in STOPS[probe.effort]:
        stop = "".join(texts[:at])
        if len(texts) > at and base.text.startswith(stop) and stop.strip() and "\ufffd" not in stop:
            yield Stopped(probe.ask(replace(ask, extra=(*ask.extra, ("stop", stop)))), at)


def _settled(probe: Probe, before: Totals, counted: Sequence[Stopped]) -> Totals:
    """The totals afterwards; read again for a while where they lag behind the answers."""
    tokens = sum(s.answer.completion_tokens or 0 for s in counted)
    after = read_totals(probe)
    for _ in range(TRIES):
        if named.TOKENS not in after or moved(before, after)[named.TOKENS] >= tokens:
            break
        time.sleep(SETTLE_S)
        after = read_totals(probe)
    return after


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when more drafts are accepted than were made or than fit into the answer (its first token is no draft, and every
    draft brings one token of the target's), when counts of the same thing disagree, when drafting is seen and the count
    stands at 0, or when usage goes beyond a stop string.
    """
    answers = [a for a in (*evidence.answers, *(s.answer for s in evidence.counted)) if a.ok]
    totals = dict(evidence.moved)
    findings = tuple(_findings(answers, evidence, totals))
    steps = tokens_per_step(answers)
    measured: dict[str, Cell] = {"tokens per step": steps, "answers": len(answers)}
    tables = (Table("Counts of each answer", _COLUMNS, tuple(_row(s) for s in _all(evidence))),)
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, findings, (), measured, tables)
    if not answers:
        return Judgement(Verdict.INCONCLUSIVE, "no answer", (), (), measured, tables, "answers")
    state = drafting(evidence.reports, answers)
    counts = sum(a.drafted is not None for a in answers)
    if state is Drafting.SEEN and not counts and not totals.get(named.DRAFTED):
        return Judgement(Verdict.NOT_APPLICABLE, "the server counts no drafts", (), (), measured, tables)
    missing = why_inconclusive(state)
    if missing and not totals.get(named.DRAFTED):
        return Judgement(Verdict.INCONCLUSIVE, missing, (), (), measured, tables, "a prompt that drafts")
    compared = "; they move the server's totals by as much" if _comparable(evidence, totals) else ""
    length = f", {steps:.1f} tokens per step" if steps else ""
    return Judgement(
        Verdict.PASS, f"the counts of {len(answers)} answers add up{length}{compared}", (), (), measured, tables
    )


def _findings(answers: Sequence[Completion], evidence: Evidence, totals: Totals) -> Iterator[Finding]:
    for answer in answers:
        yield from (Finding(code, f"{text} ({answer.route})", (answer.exchange,)) for code, text in _of_answer(answer))
    for stopped in evidence.counted:
        yield from _of_stop(stopped)
    exchanges = tuple(s.answer.exchange for s in evidence.counted)
    yield from (Finding(code, text, exchanges) for code, text in _of_totals(evidence, totals))


def emitted(answer: Completion) -> int | None:
    """Tokens of the answer by its own count, None where it gives none."""
    if answer.completion_tokens is not None:
        return answer.completion_tokens
    return None if answer.token_ids is None else len(answer.token_ids)


def _of_answer(answer: Completion) -> Iterator[tuple[str, str]]:
    drafted, accepted, tokens = answer.drafted, answer.accepted, emitted(answer)
    steps = _claim(answer, "drafts")
    if drafted is not None and accepted is not None and accepted > drafted:
        yield "OVERCOUNTED", f"{accepted} of {drafted} drafts are said to be accepted"
    if accepted and tokens is not None and accepted > tokens - 1:
        yield "OVERCOUNTED", f"{accepted} accepted drafts in an answer of {tokens} tokens, whose first is none"
    elif accepted is not None and tokens is not None and isinstance(steps, int) and accepted + steps > tokens:
        yield (
            "OVERCOUNTED",
            f"{steps} drafts and {accepted} accepted tokens do not fit into an answer of {tokens} tokens",
        )
    for name, count in (("drafted", drafted), ("accepted", accepted)):
        said, parts = _claim(answer, name), _claim(answer, f"{name}_by_position")
        if isinstance(said, int) and count is not None and said != count:
            yield "DISAGREE", f"one answer says {count} and {said} tokens {name}"
        if isinstance(parts, list) and count is not None and sum(parts) != count:
            yield "DISAGREE", f"{name} by position are {parts}, together not {count}"
    if drafted == 0 and has_placeholder(answer):
        yield "UNCOUNTED", "tokens came without alternatives, as drafted ones do, and the count of drafts is 0"


def _claim(answer: Completion, name: str) -> object:
    """What an answer's `speculation` says under a name; a list where it is one of numbers."""
    value = dict(answer.claims).get(f"speculation.{name}")
    if isinstance(value, str) and value.startswith("["):
        found: object = json.loads(value)
        return found if isinstance(found, list) and all(isinstance(x, int) for x in found) else None
    return value


def _of_stop(stopped: Stopped) -> Iterator[Finding]:
    answer, at = stopped.answer, stopped.at
    if not answer.ok or at is None or answer.finish != "stop" or answer.text:
        return
    tokens = answer.completion_tokens
    if tokens is not None and tokens > at:
        text = f"usage says {tokens} tokens although a stop string was complete with token {at}"
        yield Finding("OVERCHARGED", text, (answer.exchange,))


def _of_totals(evidence: Evidence, totals: Totals) -> Iterator[tuple[str, str]]:
    drafted, accepted = totals.get(named.DRAFTED), totals.get(named.ACCEPTED)
    if drafted is not None and accepted is not None and accepted > drafted:
        yield "OVERCOUNTED", f"/metrics: accepted tokens grew by {accepted:g}, drafted ones by {drafted:g}"
    parts = totals.get(named.BY_POSITION)
    if accepted is not None and parts is not None and parts != accepted:
        yield "DISAGREE", f"/metrics: accepted tokens grew by {accepted:g}, and by position by {parts:g}"
    if not _comparable(evidence, totals):
        return
    steps, tokens = totals.get(named.DRAFTS), totals[named.TOKENS]
    if steps is not None and accepted is not None and steps + accepted > tokens:
        yield "OVERCOUNTED", f"/metrics: {steps:g} drafts and {accepted:g} accepted tokens for {tokens:g} tokens"
    counted = [s.answer for s in evidence.counted if s.answer.ok]
    for name, sums in (
        (named.DRAFTED, [a.drafted for a in counted]),
        (named.ACCEPTED, [a.accepted for a in counted]),
    ):
        total, told = totals.get(name), sum(x or 0 for x in sums)
        if total is not None and any(x is not None for x in sums) and total != told:
            yield "DISAGREE", f"/metrics: {name} tokens grew by {total:g}, the answers say {told}"


def _comparable(evidence: Evidence, totals: Totals) -> bool:
    """Whether nobody else was served meanwhile: the total of tokens grew by just those of the answers."""
    tokens = sum(s.answer.completion_tokens or 0 for s in evidence.counted)
    return tokens > 0 and totals.get(named.TOKENS) == tokens


_COLUMNS = ("stop after", "usage", "drafted", "accepted", "drafts", "finish")


def _all(evidence: Evidence) -> list[Stopped]:
    return [*map(Stopped, evidence.answers), *evidence.counted]


def _row(stopped: Stopped) -> tuple[Cell, ...]:
    answer, steps = stopped.answer, _claim(stopped.answer, "drafts")
    told = steps if isinstance(steps, int) else None
    return stopped.at, emitted(answer), answer.drafted, answer.accepted, told, answer.finish


def requests(facts: Facts, effort: Effort) -> int:
    return (4 if facts.grammar else 2) + 2 + 1 + len(STOPS[effort])


_TOKENS = [made.true_token(n % 3) for n in range(12)]


def _answer(drafted: int | None = 12, accepted: int | None = 4, said: str = "[3, 1]", steps: int = 7) -> Completion:
    claims = (
        ("speculation.drafted", drafted),
        ("speculation.accepted", accepted),
        ("speculation.accepted_by_position", said),
        ("speculation.drafts", steps),
    )
    return made.answer(_TOKENS, drafted=drafted, accepted=accepted, claims=claims)


def _made(
    answer: Completion, totals: Sequence[float] = (18, 14, 5), usage: int = 6, stop_accepted: int = 1
) -> Evidence:
    """One answer of 12 tokens, and it again up to a stop string after token 6."""
    stopped = replace(
        made.answer((), n=0, ids=range(6), usage=usage, finish="stop", drafted=2, accepted=stop_accepted), text=""
    )
    names = (named.TOKENS, named.DRAFTED, named.ACCEPTED)
    counted = (Stopped(answer), Stopped(stopped, 6))
    return Evidence(made.LIVE_ON, (answer,), counted, tuple(zip(names, map(float, totals), strict=True)))


_NONE = made.answer(_TOKENS)

CHECK = Check(
    name="self_report/accounting",
    claim="Counts of drafted, accepted and generated tokens add up, agree in all places, and end where the answer ends.",
    blind_to="Drafts that are not counted anywhere; accepted ones beyond a stop string that are fewer than the tokens before "
    "it; totals while others use the server.",
    remedy="Do not compute speed-ups or bills from the counts found wrong.",
    aspects=("counters",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    examples=(
        Example("they add up", _made(_answer()), Verdict.PASS),
        Example("others use the server", _made(_answer(), (40, 20, 9)), Verdict.PASS),
        Example("no speculation", Evidence(made.LIVE_OFF, (_NONE,), (Stopped(_NONE),)), Verdict.PASS),
        Example("more accepted than drafted", _made(_answer(3, 4), (18, 5, 5)), Verdict.FAIL, ("OVERCOUNTED",)),
        Example(
            "drafts after a stop string count as accepted",
            _made(_answer(), (18, 14, 10), stop_accepted=6),
            Verdict.FAIL,
            ("OVERCOUNTED",),
        ),
        Example("more steps than tokens", _made(_answer(steps=9)), Verdict.FAIL, ("OVERCOUNTED",)),
        Example("positions do not add up", _made(_answer(said="[4, 1]")), Verdict.FAIL, ("DISAGREE",)),
        Example("totals of another size", _made(_answer(), (18, 14, 9)), Verdict.FAIL, ("DISAGREE",)),
        Example(
            "charged beyond the stop string", _made(_answer(), (21, 14, 5), usage=9), Verdict.FAIL, ("OVERCHARGED",)
        ),
        Example(
            "a count that never moves",
            Evidence(made.LIVE_ON, (made.answer([*_TOKENS, made.placeholder(0)], drafted=0, accepted=0),), ()),
            Verdict.FAIL,
            ("UNCOUNTED",),
        ),
        Example(
            "drafting without any count",
            Evidence(made.LIVE_ON, (made.answer([*_TOKENS, made.placeholder(0)]),), ()),
            Verdict.NOT_APPLICABLE,
        ),
        Example("nothing drafted", Evidence(made.LIVE_ON, (_NONE,), (Stopped(_NONE),)), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, (), ()), Verdict.INCONCLUSIVE),
    ),
)
