"""Does every token come with a logprob, on every route, streamed or not?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Reports, drafting, why_inconclusive
from draftproof.checks.prompts import CALLING, TOOL, has_letters, is_chat, is_small
from draftproof.core.ask import Ask, Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import GREEDY
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

SLACK = 1
"""An end token may be counted without an entry, or have an entry without being counted."""
CALL_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers to prompts that force drafting, on every route, streamed and not, with alternatives and without; calls of a tool."""

    reports: Reports
    answers: tuple[Completion, ...]


def collect(probe: Probe) -> Evidence:
    whole = common.forced(probe, 0.0)
    routed = [whole[1], *common.elsewhere(probe)]
    streams = [replace(ask, stream=True) for ask in (*routed, *whole[3:])]
    cells = (*whole, *routed[1:], *streams, *common.streamed(probe)[:1])
    return Evidence(probe.facts.self_reports, (*probe.once(cells), *_calls(probe)))


def _calls(probe: Probe) -> list[Completion]:
    """A chat that must call a tool, and the same as a stream, if that was a call."""
    chat = next(filter(is_chat, probe.facts.routes), None)
    if chat is None or is_small(probe):
        return []
    ask = Ask(CALLING, CALL_TOKENS, common.alternatives(probe), GREEDY, seed=7, route=chat, tool=TOOL)
    whole = probe.once([ask])
    return whole + probe.once([replace(ask, stream=True)]) if whole[0].calls else whole


def _cell(answer: Completion) -> str:
    asked = f"{answer.ask.alternatives} alternatives" if answer.ask.alternatives else "no logprobs"
    asked = f"a tool, {asked}" if answer.ask.tool else asked
    return f"{answer.route}, {asked}, {'streamed' if answer.ask.stream else 'whole'}"


def _state(answer: Completion) -> str:
    """One word for a cell, and a reason where there is one."""
    if not answer.ok and 400 <= answer.status < 500:
        return "REFUSED"
    if not answer.ok:
        return "no call" if answer.ask.tool else "BROKEN"  # it may break on tools, with logprobs or without
    if not answer.ask.alternatives:
        return "ok"
    if answer.ask.tool and not answer.calls:
        return "no call"
    present = [t for t in answer.tokens if t.logprob is not None]
    if not present:
        return "DROPPED"
    emitted = _emitted(answer)
    short = emitted is not None and len(present) < emitted - SLACK
    absent = [t for t in answer.tokens if t.logprob is None]
    if answer.finish == "stop" and len(absent) <= SLACK:
        absent = []
    return "MISSING" if short or absent else "ok"


def _emitted(answer: Completion) -> int | None:
    """How many tokens were made. Of a call its text does not tell: only what was counted."""
    if answer.token_ids and not (answer.ask.tool and answer.completion_tokens):
        return len(answer.token_ids)
    return answer.completion_tokens


def _finding(answer: Completion, state: str) -> Finding:
    present = sum(t.logprob is not None for t in answer.tokens)
    emitted = _emitted(answer)
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
    answered = [a for a in evidence.answers if a.ok and a.ask.alternatives and _state(a) != "no call"]
    if findings:
        summary = f"{len(findings)} of {len(evidence.answers)} request forms: {findings[0].text}"
        return Judgement(Verdict.FAIL, summary, findings, tables=tables)
    missing = why_inconclusive(drafting(evidence.reports, answered)) if answered else "every request was refused"
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, tables=tables, missing="a prompt that drafts")
    told = f", {refused} refused with a clear error" if refused else ""
    return Judgement(Verdict.PASS, f"one logprob per token in {len(answered)} request forms{told}", tables=tables)


def requests(facts: Facts, effort: Effort) -> int:
    calls = 2 if any(map(is_chat, facts.routes)) and not has_letters(facts) else 0
    return len(facts.routes) + (1 if facts.grammar else 0) + calls


_TRUE = [made.true_token(t) for t in (0, 1, 0, 2)]
_ABSENT = TokenRecord(1, "b", None, None, None)
_OK = made.answer(_TRUE, drafted=4, accepted=1)


def _called(entries: int, *, of: int = 9, calls: tuple[str, ...] = (TOOL,), stream: bool = False) -> Completion:
    """A chat that was to call a tool: so many entries of its tokens."""
    answer = made.answer(_TRUE * 3, usage=of, stream=stream, route="/v1/chat/completions")
    ask, tokens = replace(answer.ask, tool=TOOL), answer.tokens[:entries]
    ids = tuple(t.id for t in tokens if t.id is not None)
    return replace(answer, ask=ask, text="", tokens=tokens, token_ids=ids or None, calls=calls)


CHECK = Check(
    name="logprobs/presence",
    claim="Every generated token has a logprob when one was asked for, whole or streamed, on every route, in calls of tools too.",
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
        Example(
            "a call of a tool whose tokens have no entries",
            Evidence(made.LIVE_ON, (_OK, _called(0))),
            Verdict.FAIL,
            ("DROPPED",),
        ),
        Example(
            "a call of a tool of which only the arguments have entries",
            Evidence(made.LIVE_ON, (_OK, _called(9), _called(5, stream=True))),
            Verdict.FAIL,
            ("MISSING",),
        ),
        Example(
            "complete calls of a tool",
            Evidence(made.LIVE_ON, (_OK, _called(9), _called(8, stream=True))),
            Verdict.PASS,
        ),
        Example(
            "an internal error with tools",
            Evidence(made.LIVE_ON, (_OK, replace(_called(0, calls=()), status=500, error="no tools here"))),
            Verdict.PASS,
        ),
        Example("no tool is called", Evidence(made.LIVE_ON, (_OK, _called(0, calls=()))), Verdict.PASS),
        Example("nothing drafted", Evidence(made.LIVE_ON, (made.answer(_TRUE),)), Verdict.INCONCLUSIVE),
    ),
)
