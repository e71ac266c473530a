"""Does a request get exactly as many tokens as it asked for, and is it charged for exactly those?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Reports, drafting, why_inconclusive
from draftproof.core.ask import Ask, Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

BUDGETS = {Effort.QUICK: (1, 2, 3, 5, 8), Effort.STANDARD: (1, 2, 3, 4, 5, 6, 7, 8, 9, 17)}
"""Every remainder of a draft's usual length; at `quick` some."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers to prompts that force drafting, with budgets from 1 token to more than one draft."""

    reports: Reports
    answers: tuple[Completion, ...]


def collect(probe: Probe) -> Evidence:
    """What was asked already with one budget, and the request that was seen to draft with others."""
    asks = common.forced(probe, 0.0)
    answers = probe.once([*asks, *common.forced(probe, 1.0), *common.elsewhere(probe)])
    drafting_one = common.drafting_ask(asks, answers[: len(asks)])
    chosen = asks[:2] + asks[-1:] if probe.effort is Effort.DEEP else [drafting_one]
    budgets = [replace(ask, max_tokens=n) for ask in chosen for n in _budgets(probe.effort)]
    return Evidence(probe.facts.self_reports, (*answers, *probe.once(budgets)))


def _budgets(effort: Effort) -> tuple[int, ...]:
    return BUDGETS.get(effort, BUDGETS[Effort.STANDARD])


def _counts(answer: Completion) -> dict[str, int]:
    """As `common.counts_of`; an answer without any entry is what logprobs/presence is for."""
    counts = common.counts_of(answer)
    if not answer.tokens:
        counts.pop("logprob entries", None)
    return counts


def _faults(answer: Completion) -> Iterator[tuple[str, str]]:
    asked, counts = answer.ask.max_tokens, _counts(answer)
    told = ", ".join(f"{name} {n}" for name, n in counts.items())
    delivered = [n for name, n in counts.items() if name != "logprob entries"] or list(counts.values())
    if counts and max(counts.values()) > asked:
        yield "OVERRUN", f"asked for {asked} tokens: {told}"
    elif answer.finish == "length" and counts and min(delivered) < asked:
        yield "SHORT", f"stopped for length before the {asked} tokens asked for: {told}"
    elif len(set(counts.values())) > 1 and not (
        answer.finish == "stop" and max(counts.values()) - min(counts.values()) == 1
    ):
        yield "MISCOUNT", f"the counts of one answer disagree: {told}"


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when tokens delivered, logprob entries and usage differ from each other or from the budget (end token allowed)."""
    answers = [a for a in evidence.answers if a.ok]
    findings = tuple(Finding(code, f"{text} ({a.route})", (a.exchange,)) for a in answers for code, text in _faults(a))
    rows = tuple((a.ask.max_tokens, *_row(a)) for a in answers)
    columns = ("asked", "token ids", "usage", "logprob entries", "finish", "drafted")
    tables = (Table("Tokens per budget", columns, rows),)
    counted = [a for a in answers if _counts(a)]
    if findings:
        summary = f"{len(findings)} of {len(answers)} budgets are not kept or not counted: {findings[0].text}"
        return Judgement(Verdict.FAIL, summary, findings, tables=tables)
    if not counted:
        return Judgement(Verdict.INCONCLUSIVE, "no answer counts its tokens", missing="token ids, usage or logprobs")
    if not any(a.finish == "length" for a in counted):
        text = "every answer ended before its budget was used up"
        return Judgement(Verdict.INCONCLUSIVE, text, tables=tables, missing="a prompt with a longer answer")
    missing = why_inconclusive(drafting(evidence.reports, answers))
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, tables=tables, missing="a prompt that drafts")
    summary = f"{len(counted)} budgets of 1 to {max(a.ask.max_tokens for a in counted)} tokens kept and counted alike"
    return Judgement(Verdict.PASS, summary, tables=tables)


def _row(answer: Completion) -> tuple[int | str | None, ...]:
    counts = _counts(answer)
    return (*(counts.get(name) for name in ("token ids", "usage", "logprob entries")), answer.finish, answer.drafted)


def requests(facts: Facts, effort: Effort) -> int:
    return len(_budgets(effort)) * (3 if effort is Effort.DEEP else 1)


def _made(asked: int, delivered: int, usage: int, finish: str = "length", entries: int | None = None) -> Completion:
    tokens = [made.true_token(n % 3) for n in range(delivered if entries is None else entries)]
    answer = made.answer(
        tokens,
        ids=[n % 3 for n in range(delivered)],
        usage=usage,
        max_tokens=asked,
        finish=finish,
        drafted=3,
        accepted=1,
    )
    return replace(answer, ask=Ask(made.PROMPT, asked, 1))


CHECK = Check(
    name="stopping/budget",
    claim="A request gets exactly the number of tokens it asked for; usage and logprob entries agree with it.",
    blind_to="Stop strings and end tokens inside an accepted draft.",
    remedy="Count the tokens of an answer yourself; do not rely on usage or on the budget of this server.",
    aspects=("counters",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    examples=(
        Example(
            "an accepted draft overruns the budget",
            Evidence(made.LIVE_ON, (_made(3, 5, 5),)),
            Verdict.FAIL,
            ("OVERRUN",),
        ),
        Example(
            "the whole draft charged, less delivered",
            Evidence(made.LIVE_ON, (_made(5, 3, 5),)),
            Verdict.FAIL,
            ("SHORT",),
        ),
        Example(
            "a logprob entry is missing",
            Evidence(made.LIVE_ON, (_made(4, 4, 4, "stop", 2),)),
            Verdict.FAIL,
            ("MISCOUNT",),
        ),
        Example(
            "kept and counted",
            Evidence(made.LIVE_ON, tuple(_made(n, n, n) for n in BUDGETS[Effort.STANDARD])),
            Verdict.PASS,
        ),
        Example(
            "an end token counted but not delivered",
            Evidence(made.LIVE_ON, (_made(9, 4, 5, "stop"), _made(2, 2, 2))),
            Verdict.PASS,
        ),
        Example("all ended early", Evidence(made.LIVE_ON, (_made(9, 4, 4, "stop"),)), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, ()), Verdict.INCONCLUSIVE),
        Example(
            "nothing drafted",
            Evidence(made.LIVE_ON, (replace(_made(3, 3, 3), drafted=None, accepted=None),)),
            Verdict.INCONCLUSIVE,
        ),
    ),
)
