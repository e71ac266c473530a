"""Can the reported numbers be log-probabilities at all?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Reports, drafting, why_inconclusive
from draftproof.core.ask import Ask, Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import GREEDY, NEUTRAL, Sampling
from draftproof.core.terms import Terms
from draftproof.core.tokens import Alternative, TokenRecord
from draftproof.core.verdict import Finding, Judgement, Verdict

ROUNDING = 1e-6
MASS = 1e-3
CHANGE = 0.05
"""Nats by which a value may move with the number of alternatives, beside four times its own noise."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers with alternatives, at temperature 0, 1, others, and 1 with a top-k not longer than the list.

    `repeated` are two equal greedy requests, `varied` the same with other numbers of alternatives.
    """

    reports: Reports
    vocabulary: int | None
    answers: tuple[Completion, ...]
    repeated: tuple[Completion, ...] = ()
    varied: tuple[Completion, ...] = ()


def collect(probe: Probe) -> Evidence:
    greedy = common.forced(probe, 0.0)
    asks = [*greedy, *common.forced(probe, 1.0), *common.elsewhere(probe)]
    numbers = [n for n in (1, 20) if n <= probe.facts.max_alternatives and n != greedy[0].alternatives]
    short = replace(greedy[0], max_tokens=2)
    return Evidence(
        probe.facts.self_reports,
        probe.facts.vocabulary,
        answers=(*probe.once(asks), *common.warped(probe)),
        repeated=(*probe.once(greedy[:1]), probe.ask(short)),
        varied=tuple(probe.ask(replace(short, alternatives=n)) for n in numbers),
    )


def _same(token: TokenRecord, entry: Alternative) -> bool:
    return token.id == entry.id if token.id is not None and entry.id is not None else token.text == entry.text


def _faults_of(token: TokenRecord, ask: Ask, vocabulary: int | None) -> Iterator[tuple[str, str]]:
    entries = token.alternatives or ()
    values = [e.logprob for e in entries if e.logprob is not None]
    if any(v > ROUNDING for v in [*values, token.logprob or 0.0]):
        yield "UNITS", f"a value above 0: {max([*values, token.logprob or 0.0]):.4g}"
    if not entries:
        return
    total = math.fsum(math.exp(min(v, 700.0)) for v in values)
    if total > 1 + MASS:
        yield "MASS", f"the listed probabilities add to {total:.4f}"
    if any(a < b - ROUNDING for a, b in pairwise(values)):
        yield "ORDER", "the list is not in descending order"
    names = [(e.id, e.text) if e.id is None else e.id for e in entries]
    if len(set(names)) < len(names):
        yield "DUPLICATE", f"an alternative is listed twice among {len(names)}"
    chosen = next((e for e in entries if _same(token, e)), None)
    asked = ask.alternatives
    expected = min(asked, vocabulary or asked)
    # A list by text alone holds tokens of one text once: pieces of characters, which have none of their own.
    alike = any(e.id is None and (not e.text or "\ufffd" in e.text) for e in entries)
    if len(entries) not in (expected, expected + 1) and not (alike and len(entries) < expected):
        yield "COUNT", f"asked for {asked} alternatives, got {len(entries)}"
    elif (
        len(entries) == expected + 1 and expected and chosen is not None and any(_same(token, e) for e in entries[:-1])
    ):
        yield "COUNT", f"asked for {asked} alternatives, got {len(entries)} with the chosen one among the first {asked}"
    yield from _faults_of_chosen(token, values, chosen, ask)


def _faults_of_chosen(
    token: TokenRecord, values: list[float], chosen: Alternative | None, ask: Ask
) -> Iterator[tuple[str, str]]:
    if token.logprob is None or not values:
        return
    if chosen is not None and chosen.logprob is not None and abs(chosen.logprob - token.logprob) > MASS:
        yield "CHOSEN", f"the chosen token's logprob {token.logprob:.4f} differs from its entry {chosen.logprob:.4f}"
    if chosen is None and token.logprob > values[-1] + MASS:
        yield "CHOSEN", f"the chosen token ({token.logprob:.4f}) is likelier than a listed one but is not listed"
    if (
        0 < ask.sampling.top_k <= len(values)
        and token.logprob < values[ask.sampling.top_k - 1] - MASS
        and not ask.grammar
    ):
        yield (
            "ALIEN",
            f"top-k {ask.sampling.top_k} was asked, and a token of logprob {token.logprob:.2f} beyond it was drawn",
        )
    if ask.sampling == GREEDY and not ask.grammar and token.logprob < max(values) - MASS:
        yield "NOT_GREEDY", f"at temperature 0 a token of {token.logprob:.4f} was chosen over one of {max(values):.4f}"


def _copied(answer: Completion) -> bool:
    """Whether different tokens in a row carry one and the same list: alternatives of another position."""
    lists = [t.alternatives for t in answer.tokens if t.alternatives and len(t.alternatives) > 1]
    ids = {t.id if t.id is not None else t.text for t in answer.tokens}
    return len(lists) >= 4 and len(ids) > 1 and len(set(lists)) == 1


def _changing(evidence: Evidence) -> Iterator[Finding]:
    """The same greedy token must have the same value however many alternatives were asked for."""
    first = [a.tokens[0] for a in (*evidence.repeated, *evidence.varied) if a.ok and a.tokens]
    values = [t.logprob for t in first if t.logprob is not None]
    if len(values) < len(evidence.repeated) + 1 or len({t.text for t in first}) > 1:
        return
    noise = abs(values[0] - values[1])
    if max(values) - min(values) > CHANGE + 4 * noise:
        text = f"the first token's logprob changes with the number of alternatives asked for: {values}"
        yield Finding("CHANGING", text, tuple(a.exchange for a in evidence.varied))


def _findings(evidence: Evidence) -> Iterator[Finding]:
    for answer in evidence.answers:
        if not answer.ok:
            continue
        for n, token in enumerate(answer.tokens):
            for code, text in _faults_of(token, answer.ask, evidence.vocabulary):
                yield Finding(code, f"token {n + 1} ({answer.route}): {text}", (answer.exchange,))
        if _copied(answer):
            text = f"all tokens of an answer carry the same list ({answer.route})"
            yield Finding("COPIED", text, (answer.exchange,))
    yield from _changing(evidence)


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails on what no set of log-probabilities can show: values above 0, mass above 1, wrong order, count or choice."""
    findings = tuple({f.code: f for f in reversed(list(_findings(evidence)))}.values())
    tokens = [t for a in evidence.answers if a.ok for t in a.tokens if t.alternatives]
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, findings)
    if not tokens:
        return Judgement(Verdict.INCONCLUSIVE, "no token came with alternatives", missing="an answer with alternatives")
    missing = why_inconclusive(drafting(evidence.reports, evidence.answers))
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, missing="a prompt that drafts")
    return Judgement(Verdict.PASS, f"{len(tokens)} lists of alternatives are well formed")


def requests(facts: Facts, effort: Effort) -> int:
    return 3


def _with(token: TokenRecord, *entries: Alternative) -> Evidence:
    return _of(replace(token, alternatives=entries))


def _of(*tokens: TokenRecord, sampling: Sampling = NEUTRAL) -> Evidence:
    return Evidence(made.LIVE_ON, 5, (made.answer(tokens, sampling=sampling, drafted=3, accepted=1),))


def _by_text(*entries: Alternative) -> Evidence:
    return _of(replace(_T, id=None, alternatives=tuple(replace(e, id=None) for e in entries)))


_A, _B, _C = made.alternatives(made.LAW, 3)
_T = made.true_token(0)

CHECK = Check(
    name="logprobs/well_formed",
    claim="Reported values can be log-probabilities: not above 0, mass at most 1, ordered, unique, as many as asked for.",
    blind_to="Well-formed values of another context, temperature or model (logprobs/rescored sees those).",
    remedy="Do not use the alternatives of this server before the named field is mended.",
    aspects=("first logprob", "logprobs"),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    applies=lambda facts: "" if facts.routes and facts.max_alternatives else "this server gives no alternatives",
    examples=(
        Example("a probability in place of its log", _of(replace(_T, logprob=0.5)), Verdict.FAIL, ("UNITS", "CHOSEN")),
        Example(
            "mass above 1",
            _with(_T, _A, replace(_B, logprob=-0.1), replace(_C, logprob=-0.2)),
            Verdict.FAIL,
            ("MASS", "ORDER"),
        ),
        Example("one twice", _with(_T, _A, _B, _B), Verdict.FAIL, ("DUPLICATE",)),
        Example("one too few", _with(_T, _A, _B), Verdict.FAIL, ("COUNT",)),
        Example("one too few by text", _by_text(_A, _B), Verdict.FAIL, ("COUNT",)),
        Example(
            "pieces of characters share one entry of a list by text",
            _by_text(_A, replace(_B, text="\ufffd")),
            Verdict.PASS,
        ),
        Example("not the value of its own entry", _of(replace(_T, logprob=-3.0)), Verdict.FAIL, ("CHOSEN",)),
        Example(
            "not the likeliest at temperature 0",
            _of(made.true_token(1), sampling=GREEDY),
            Verdict.FAIL,
            ("NOT_GREEDY",),
        ),
        Example(
            "a token out of nowhere", _of(made.true_token(4), sampling=Sampling(top_k=3)), Verdict.FAIL, ("ALIEN",)
        ),
        Example(
            "one list for all",
            _of(
                *(replace(made.true_token(i % 3), alternatives=(_A, _B, _C)) for i in range(4)),
                replace(_T, alternatives=(_A, _B, _C)),
            ),
            Verdict.FAIL,
            ("COPIED",),
        ),
        Example(
            "sound",
            _of(
                _T,
                replace(_T, alternatives=made.alternatives((0.9, 0.05, 0.05), 3), logprob=math.log(0.9)),
                made.true_token(4),
            ),
            Verdict.PASS,
        ),
        Example(
            "chosen one listed as an extra entry",
            _with(made.true_token(4), _A, _B, _C, made.alternatives(made.LAW, 5)[4]),
            Verdict.PASS,
        ),
        Example(
            "values that depend on the length of the list",
            replace(_of(_T), repeated=(made.answer([_T]),) * 2, varied=(made.answer([replace(_T, logprob=-0.9)]),)),
            Verdict.FAIL,
            ("CHANGING",),
        ),
        Example("nothing came", Evidence(made.LIVE_ON, 5, ()), Verdict.INCONCLUSIVE),
        Example("nothing drafted", Evidence(made.LIVE_ON, 5, (made.answer([_T]),)), Verdict.INCONCLUSIVE),
    ),
)
