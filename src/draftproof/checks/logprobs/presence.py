"""Does every token come with a logprob, on every route, streamed or not?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example, Terms
from draftproof.checks.drafting import Reports, drafting, why_inconclusive
from draftproof.core.ask import Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

SLACK = 1
"""An end token may be counted without an entry, or have an entry without being counted."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers to prompts that force drafting: on every route, streamed and not, with alternatives and without."""

    reports: Reports
    answers: tuple[Completion, ...]


def collect(probe: Probe) -> Evidence:
    whole = common.forced(probe, 0.0)
    routed = [whole[1], *common.elsewhere(probe)]
    streams = [replace(ask, stream=True) for ask in (*routed, *whole[3:])]
    cells = (*whole, *routed[1:], *streams, *common.streamed(probe)[:1])
    return Evidence(probe.facts.self_reports, tuple(probe.once(cells)))


def _cell(answer: Completion) -> str:
    asked = f"{answer.ask.alternatives} alternatives" if answer.ask.alternatives else "no logprobs"
    return f"{answer.route}, {asked}, {'streamed' if answer.ask.stream else 'whole'}"


def _state(answer: Completion) -> str:
    """One word for a cell, and a reason where there is one."""
    if not answer.ok:
        return "REFUSED" if 400 <= answer.status < 500 else "BROKEN"
    if not answer.ask.alternatives:
        return "ok"
    present = [t for t in answer.tokens if t.logprob is not None]
    if not present:
        return "DROPPED"
    emitted = len(answer.token_ids) if answer.token_ids else answer.completion_tokens
    short = emitted is not None and len(present) < emitted - SLACK
    absent = [t for t in answer.tokens if t.logprob is None]
    if answer.finish == "stop" and len(absent) <= SLACK:
        absent = []
    return "MISSING" if short or absent else "ok"


def _finding(answer: Completion, state: str) -> Finding:
    present = sum(t.logprob is not None for t in answer.tokens)
    emitted = len(answer.token_ids) if answer.token_ids else answer.completion_tokens
    counts = f"{present} logprobs for {emitted or len(answer.tokens)} tokens"
    what = f"HTTP {answer.status}: {answer.error}" if not answer.ok else counts
    return Finding(state, f"{_cell(answer)}: {what}", (answer.exchange,))


def _findings(answers: tuple[Completion, ...]) -> Iterator[Finding]:
    for answer in answers:
        state = _state(answer)
        if state in ("BROKEN", "MISSING", "DROPPED"):
            yield _finding(answer, state)


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when a cell answers 5xx, or 200 with fewer logprobs than tokens; an honest refusal (4xx) is no fault."""
    findings = tuple(_findings(evidence.answers))
    rows = tuple((_cell(a), _state(a), len(a.tokens), a.drafted) for a in evidence.answers)
    tables = (Table("Logprobs per request form", ("request", "state", "entries", "drafted"), rows),)
    refused = sum(_state(a) == "REFUSED" for a in evidence.answers)
    answered = [a for a in evidence.answers if a.ok and a.ask.alternatives]
    if findings:
        summary = f"{len(findings)} of {len(evidence.answers)} request forms: {findings[0].text}"
        return Judgement(Verdict.FAIL, summary, findings, tables=tables)
    missing = why_inconclusive(drafting(evidence.reports, answered)) if answered else "every request was refused"
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, tables=tables, missing="a prompt that drafts")
    told = f", {refused} refused with a clear error" if refused else ""
    return Judgement(Verdict.PASS, f"one logprob per token in {len(answered)} request forms{told}", tables=tables)


def requests(facts: Facts, effort: Effort) -> int:
    return len(facts.routes) + (1 if facts.grammar else 0)


_TRUE = [made.true_token(t) for t in (0, 1, 0, 2)]
_ABSENT = TokenRecord(1, "b", None, None, None)
_OK = made.answer(_TRUE, drafted=4, accepted=1)

CHECK = Check(
    name="logprobs/presence",
    claim="Every generated token has a logprob when one was asked for, whole or streamed, on every route.",
    blind_to="Whether the values are right.",
    remedy="Use a request form that returns one logprob per token: the table of logprobs/presence (-v) lists those tried.",
    moot_after=("logprobs/placeholder", "logprobs/rescored"),
    aspects=("logprobs",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    applies=lambda facts: "" if facts.routes else "no route of this server gives logprobs",
    examples=(
        Example(
            "streamed drafted tokens without a logprob",
            Evidence(made.LIVE_ON, (_OK, made.answer([_TRUE[0], _ABSENT, _ABSENT, _TRUE[1]], stream=True))),
            Verdict.FAIL,
            ("MISSING",),
        ),
        Example(
            "one entry for four tokens",
            Evidence(made.LIVE_ON, (made.answer(_TRUE[:1], ids=(0, 1, 0, 2), drafted=4),)),
            Verdict.FAIL,
            ("MISSING",),
        ),
        Example(
            "the field is ignored",
            Evidence(made.LIVE_OFF, (made.answer((), ids=(0, 1, 0, 2)),)),
            Verdict.FAIL,
            ("DROPPED",),
        ),
        Example(
            "an internal error only with logprobs",
            Evidence(made.LIVE_ON, (made.answer((), status=500, error="internal error"),)),
            Verdict.FAIL,
            ("BROKEN",),
        ),
        Example("complete under speculation", Evidence(made.LIVE_ON, (_OK,)), Verdict.PASS),
        Example(
            "an end token without an entry",
            Evidence(made.LIVE_OFF, (made.answer(_TRUE, ids=(0, 1, 0, 2, 4), finish="stop"),)),
            Verdict.PASS,
        ),
        Example(
            "an honest refusal beside a good answer",
            Evidence(made.LIVE_ON, (_OK, made.answer((), status=400, error="logprobs cannot be streamed"))),
            Verdict.PASS,
        ),
        Example(
            "everything refused",
            Evidence(made.LIVE_ON, (made.answer((), status=400, error="no logprobs here"),)),
            Verdict.INCONCLUSIVE,
        ),
        Example("nothing drafted", Evidence(made.LIVE_ON, (made.answer(_TRUE),)), Verdict.INCONCLUSIVE),
    ),
)
