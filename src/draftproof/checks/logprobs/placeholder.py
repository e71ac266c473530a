"""Is a reported logprob a measurement, or a constant put in its place?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.contexts import entries_in_place
from draftproof.checks.drafting import (
    RESTART,
    Drafting,
    Reports,
    drafted_places,
    drafting,
    drafts,
    has_placeholder,
    why_inconclusive,
    without_drafts,
)
from draftproof.core.ask import Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Finding, Judgement, Verdict

BOOK_SEEDS = 16
BOOK_TOLERANCE = 1e-3
SENTINEL = -9998.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """`answers` to prompts that force drafting, all with alternatives asked; `seeded` are short answers to one prompt."""

    reports: Reports
    answers: tuple[Completion, ...]
    seeded: tuple[Completion, ...] = ()


def collect(probe: Probe) -> Evidence:
    """One request decides on a server that shows placeholders; the other routes are then asked once each.

    Temperature 0 is looked at where nothing was drafted at temperature 1: there are servers that draft at 0 only.
    """
    answers: list[Completion] = []
    for temperature in (1.0, 0.0):
        for ask in common.forced(probe, temperature):
            answers += probe.once([ask])
            if has_placeholder(answers[-1]):
                answers += probe.once(common.elsewhere(probe))
                return Evidence(probe.facts.self_reports, tuple(answers))
        if any(map(drafts, answers)):
            break
    answers += probe.once(common.elsewhere(probe))
    return Evidence(probe.facts.self_reports, tuple(answers), tuple(common.sampled(probe, BOOK_SEEDS)))


def _empty_lists(answers: Sequence[Completion]) -> Iterator[Finding]:
    by_route: dict[str, list[Completion]] = defaultdict(list)
    for answer in answers:
        by_route[answer.route].append(answer)
    for route, group in by_route.items():
        marked = [a for a in group if has_placeholder(a)]
        if not marked:
            continue
        later = [t for a in marked for t in drafted_places(a)]
        empty = [t for t in later if not t.alternatives]
        values = {t.logprob for t in empty}
        value = f"logprob {values.copy().pop()}" if len(values) == 1 else f"one of {len(values)} different logprobs"
        text = f"{route}: {len(empty)} of {len(later)} tokens after the first have {value} and no alternatives"
        yield Finding("PLACEHOLDER" if len(values) == 1 else "MISSING", text, tuple(a.exchange for a in marked))


def _degenerate(answers: Sequence[Completion]) -> Iterator[Finding]:
    values = [t.logprob for a in answers for t in a.tokens if t.logprob is not None]
    if (
        len(values) >= 8
        and all(v == 0 or v <= SENTINEL for v in values)
        and not any(t.alternatives for a in answers for t in a.tokens)
    ):
        text = f"all {len(values)} logprobs are 0 or a sentinel, and no token has alternatives"
        yield Finding("DEGENERATE", text, tuple(a.exchange for a in answers))


def _dutch_book(answers: Sequence[Completion]) -> Iterator[Finding]:
    """Claimed probabilities of different tokens at one prefix cannot add to more than 1: proof without a reference."""
    claimed: dict[tuple[object, ...], dict[object, float]] = defaultdict(dict)
    for answer in answers:
        prefix: tuple[object, ...] = ()
        for token in entries_in_place(answer):
            key: object = token.text if token.id is None else token.id
            if token.logprob is not None:
                claimed[prefix][key] = math.exp(token.logprob)
            prefix = (*prefix, key)
    worst = max(claimed.values(), key=lambda book: sum(book.values()), default={})
    total = sum(worst.values())
    if total > 1 + BOOK_TOLERANCE:
        text = f"{len(worst)} different tokens seen after one prefix claim probabilities that add to {total:.3f}"
        yield Finding("DUTCH_BOOK", text, tuple(a.exchange for a in answers))


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails on alternatives missing after a first token that has them, on sentinels, or on a Dutch book; no alpha is spent."""
    answers = [a for a in evidence.answers if a.ok and a.tokens]
    findings = (*_empty_lists(answers), *_degenerate(answers), *_dutch_book([a for a in evidence.seeded if a.ok]))
    state = drafting(evidence.reports, answers)
    tokens = sum(len(a.tokens) for a in answers)
    measured = {"tokens": tokens, "drafted": sum(a.drafted or 0 for a in answers), "drafting": state.value}
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, findings, measured=measured)
    if not tokens:
        return Judgement(
            Verdict.INCONCLUSIVE, "no logprobs came back", measured=measured, missing="an answer with logprobs"
        )
    missing = why_inconclusive(state)
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, measured=measured, missing="a prompt that drafts")
    seen = f"{measured['drafted']} drafted" if state is Drafting.SEEN else without_drafts(state)
    summary = f"{tokens} tokens, each with its own alternatives ({seen})"
    return Judgement(Verdict.PASS, summary, measured=measured)


def requests(facts: Facts, effort: Effort) -> int:
    return 0


_REAL = [made.true_token(t) for t in (0, 1, 0, 2)]
_CERTAIN = TokenRecord(0, "a", (97,), 0.0, made.alternatives((1.0, 0.0, 0.0), 3))
_DRAFTED = [made.true_token(0), made.placeholder(1), made.placeholder(2), made.true_token(1)]
_BARE = [TokenRecord(t, made.letter(t), None, v, None) for t, v in enumerate((0.0, -9999.0) * 4)]

CHECK = Check(
    name="logprobs/placeholder",
    claim="Every token's logprob is a measurement: it comes with alternatives when they were asked for.",
    blind_to="Wrong values that come with a list of alternatives (logprobs/rescored sees those).",
    remedy=RESTART,
    aspects=("logprobs",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    applies=lambda facts: "" if facts.routes else "no route of this server gives logprobs",
    examples=(
        Example(
            "llama-server with a draft model",
            Evidence(made.LIVE_ON, (made.answer(_DRAFTED, drafted=6, accepted=1),)),
            Verdict.FAIL,
            ("PLACEHOLDER",),
        ),
        Example(
            "one token of many",
            Evidence(made.LIVE_ON, (made.answer([*_REAL, made.placeholder(0), *_REAL], drafted=1, accepted=1),)),
            Verdict.FAIL,
            ("PLACEHOLDER",),
        ),
        Example(
            "only 0 and -9999, never a list",
            Evidence((), (made.answer(_BARE),)),
            Verdict.FAIL,
            ("DEGENERATE",),
        ),
        Example(
            "two tokens after one prefix, both claimed certain",
            Evidence((), (), tuple(made.answer([replace(_CERTAIN, id=i, text=made.letter(i))]) for i in range(2))),
            Verdict.FAIL,
            ("DUTCH_BOOK",),
        ),
        Example(
            "true logprobs under speculation",
            Evidence(made.LIVE_ON, (made.answer(_REAL, drafted=5, accepted=2),)),
            Verdict.PASS,
        ),
        Example(
            "an honestly certain token has a list",
            Evidence(made.LIVE_ON, (made.answer([*_REAL, _CERTAIN, _CERTAIN], drafted=5, accepted=2),)),
            Verdict.PASS,
        ),
        Example("no speculation", Evidence(made.LIVE_OFF, (made.answer(_REAL, drafted=None),)), Verdict.PASS),
        Example(
            "speculation is on, but this drafted nothing",
            Evidence(made.LIVE_ON, (made.answer(_REAL),)),
            Verdict.INCONCLUSIVE,
        ),
        Example(
            "speculation is on, but not for these requests, and each says why",
            Evidence(made.LIVE_ON, (made.answer(_REAL, claims=made.DECLINED),)),
            Verdict.PASS,
        ),
        Example(
            "placeholders in answers that deny their drafts",
            Evidence(made.LIVE_ON, (made.answer(_DRAFTED, claims=made.DECLINED),)),
            Verdict.FAIL,
            ("PLACEHOLDER",),
        ),
        Example(
            "speculation is on, not for these requests, and none says why",
            Evidence(made.LIVE_ON, (made.answer(_REAL, claims=made.UNEXPLAINED),)),
            Verdict.INCONCLUSIVE,
        ),
        Example(
            "one of two answers had a drafter, which drafted nothing",
            Evidence(made.LIVE_OFF, (made.answer(_REAL, claims=made.DECLINED), made.answer(_REAL, claims=made.IN_USE))),
            Verdict.INCONCLUSIVE,
        ),
        Example("nothing is known", Evidence((), (made.answer(_REAL),)), Verdict.INCONCLUSIVE),
        Example(
            "an end token without a list is no drafted token",
            Evidence(made.LIVE_ON, (made.answer([*_REAL, made.placeholder(4)], finish="stop", drafted=3),)),
            Verdict.PASS,
        ),
        Example("no answer", Evidence(made.LIVE_ON, ()), Verdict.INCONCLUSIVE),
    ),
)
