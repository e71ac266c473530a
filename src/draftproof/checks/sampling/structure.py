"""Does the text keep its form while it is drafted: no doubled tokens, and a grammar that holds?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.contexts import after, ceiling
from draftproof.checks.drafting import Reports, batches, drafting, why_inconclusive
from draftproof.checks.sampling.forms import KEYS, Form, asks
from draftproof.checks.sampling.greedy_parity import FAULT, FAULT_NOISE, TIE, TIE_NOISE
from draftproof.checks.sampling.laws import known_model
from draftproof.checks.sampling.obeyed import Token, sequence
from draftproof.core.ask import Ask, Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, KnownModel, OracleRow, Probe
from draftproof.core.sampling import GREEDY
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Verdict

LONGEST = 8
"""Tokens of the longest block whose doubling is looked for."""
ROWS = {Effort.QUICK: 8, Effort.STANDARD: 32, Effort.DEEP: 128}
"""Doubled places of an answer that are asked about, where no law is known."""


@dataclass(frozen=True, slots=True)
class Greedy:
    """A greedy answer, and the oracle's rows at places where a block of tokens is doubled (() where the law is known)."""

    answer: Completion
    rows: tuple[tuple[int, OracleRow], ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """`known` names the countable model ("" = none). `noise`: RMS difference in nats of laws by one row and by a batch of rows."""

    reports: Reports
    noise: float
    known: str
    greedy: tuple[Greedy, ...]
    forms: tuple[Form, ...]


def collect(probe: Probe) -> Evidence:
    plain = common.forced(probe, 0.0)
    answers = probe.once(plain)
    greedy = [_greedy(probe, a) for a in answers if not a.ask.grammar]
    forced = [Form(a) for a in dict.fromkeys(answers) if a.ask.grammar]
    forms = [Form(probe.ask(ask), cycle, keys) for ask, cycle, keys in asks(probe)]
    noise = probe.noise([a.prompt for a in plain], batches(answers))
    known = probe.known.name if probe.known else ""
    return Evidence(probe.facts.self_reports, noise, known, tuple(greedy), (*forced, *forms))


def _greedy(probe: Probe, answer: Completion) -> Greedy:
    if probe.known is not None or not answer.ok:
        return Greedy(answer)
    places = list(doubled(sequence(answer)))
    chosen = places[:: max(1, math.ceil(len(places) / ROWS[probe.effort]))]
    contexts = [(n, after(answer.ask.prompt, answer, n)) for n in chosen]
    return Greedy(answer, tuple((n, probe.oracle(context)) for n, context in contexts if context is not None))


def doubled(tokens: Sequence[Token]) -> Iterator[int]:
    """The places where a block of up to LONGEST tokens begins for the second time in a row."""
    for n in range(1, len(tokens)):
        if any(tokens[n : n + k] == tokens[n - k : n] for k in range(1, min(LONGEST, n, len(tokens) - n) + 1)):
            yield n


@dataclass(frozen=True, slots=True)
class Doubled:
    """A doubled block whose second beginning is `gap` nats below the model's own choice."""

    answer: Completion
    position: int
    gap: float


def _judged_places(greedy: Greedy, known: KnownModel | None) -> Iterator[Doubled]:
    answer = greedy.answer
    tokens = sequence(answer)
    if known is None:
        for n, row in greedy.rows:
            listed: Sequence[Token] = row.ids if isinstance(tokens[n], int) else row.texts
            value = row.logprobs[listed.index(tokens[n])] if tokens[n] in listed else ceiling(row)
            yield Doubled(answer, n, row.logprobs[0] - value)
        return
    found = [(n, after(answer.ask.prompt, answer, n)) for n in doubled(tokens)]
    places = [(n, context) for n, context in found if isinstance(context, tuple)]
    laws = known.target_many([context for _, context in places]) if places else ()
    for (n, _), law in zip(places, laws, strict=True):
        token = tokens[n]
        if isinstance(token, int):
            yield Doubled(answer, n, float(law.max() - law[token]))


def repetition(tokens: Sequence[Token]) -> float:
    """Share of the tokens that stand inside the second copy of a doubled block."""
    inside = {
        n + i
        for n in range(1, len(tokens))
        for k in range(1, min(LONGEST, n, len(tokens) - n) + 1)
        if tokens[n : n + k] == tokens[n - k : n]
        for i in range(k)
    }
    return len(inside) / len(tokens) if tokens else 0.0


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails on a text that breaks its grammar, at any temperature, and on a block of greedy tokens that comes twice in a row where
    the model would not repeat it, by more than max(6 noise, .05) nats.
    """
    known = known_model(evidence.known) if evidence.known else None
    sigma = evidence.noise * math.sqrt(2)
    tie, fault = max(TIE, TIE_NOISE * sigma), max(FAULT, FAULT_NOISE * sigma)
    greedy = [g for g in evidence.greedy if g.answer.ok]
    forms = [f for f in evidence.forms if f.answer.ok]
    places = [place for g in greedy for place in _judged_places(g, known)]
    tokens = sum(len(sequence(g.answer)) for g in greedy)
    measured: dict[str, float | int | str | None] = {
        "greedy tokens": tokens,
        "doubled places judged": len(places),
        "repetition": max((repetition(sequence(g.answer)) for g in greedy), default=0.0),
        "texts under a grammar": len(forms),
        "noise (nat)": evidence.noise,
    }
    findings = [*_broken(forms), *_doubled([p for p in places if p.gap > fault])]
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, tuple(findings), measured=measured)

    def undecided(text: str, missing: str) -> Judgement:
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, missing=missing)

    if not tokens:
        return undecided("no tokens came", "answers of some length")
    if any(p.gap > tie for p in places):
        return undecided("a doubled block between noise and fault", "less numerical noise")
    missing = why_inconclusive(drafting(evidence.reports, [g.answer for g in greedy] + [f.answer for f in forms]))
    if missing:
        return undecided(missing, "a prompt that drafts")
    kept = f"{len(forms)} texts keep their grammar" if forms else "no grammar is taken"
    text = f"{kept}; {tokens} greedy tokens, {len(places)} doubled places among them, all the model's own"
    return Judgement(Verdict.PASS, text, measured=measured)


def _broken(forms: Sequence[Form]) -> Iterator[Finding]:
    for form in forms:
        fault = form.fault()
        if fault:
            temperature = form.answer.ask.sampling.temperature
            text = f"the text at temperature {temperature:g} breaks the grammar of its request: {fault}"
            yield Finding("UNGRAMMATICAL", text, (form.answer.exchange,))


def _doubled(places: Sequence[Doubled]) -> Iterator[Finding]:
    if places:
        worst = max(places, key=lambda p: p.gap)
        text = (
            f"{len(places)} doubled blocks of greedy tokens are not the model's: token {worst.position + 1} begins one, "
            f"{worst.gap:.2f} nat below the model's choice"
        )
        yield Finding("DOUBLED", text, tuple(dict.fromkeys(p.answer.exchange for p in places)))


def requests(facts: Facts, effort: Effort) -> int:
    rows = 0 if facts.countable else 2 * ROWS[effort]
    return 1 + (2 if facts.grammar else 0) + rows


_TEXT = (0, 1, 2, 3, 1, 4, 0, 2)
_GRAMMAR = 'root ::= "abcd"'


def _answered(ids: Sequence[int], drafted: int | None = 9, grammar: str = "") -> Completion:
    answer = made.answer((), ids=ids, sampling=GREEDY, drafted=drafted, accepted=2 if drafted else None)
    ask = Ask(answer.ask.prompt, len(ids), 0, GREEDY, 7, route="/completion", grammar=grammar)
    return replace(answer, ask=ask)


def _stuttering(gap: float) -> Greedy:
    """Tokens 2 and 3 come twice; the model's own choice at the second beginning is `gap` nats above what came."""
    ids = (*_TEXT[:4], *_TEXT[2:])
    row = OracleRow((1, 2, 0), ("b", "c", "a"), (-0.3, -0.3 - gap, -0.3 - gap), 3)
    return Greedy(_answered(ids), ((4, row),))


def _json(text: str) -> Form:
    return Form(replace(_answered((0,)), text=text, finish="stop"), keys=KEYS)


def _made(*parts: Greedy | Form, noise: float = 1e-4, drafted: int | None = 9) -> Evidence:
    greedy = [p for p in parts if isinstance(p, Greedy)] or [Greedy(_answered(_TEXT, drafted))]
    forms = tuple(p for p in parts if isinstance(p, Form))
    return Evidence(made.LIVE_ON, noise, "", tuple(greedy), forms)


_OBJECT = '{ "company": 12, "founded": 7, "employees": 305, "audit_passed": 41}'

CHECK = Check(
    name="sampling/structure",
    claim="Drafted text keeps the grammar of its request and doubles no tokens that the model would not double.",
    blind_to="Grammars other than those tried; doubled text where the model itself repeats; schemas, where no grammar is taken.",
    remedy="Do not use grammars or structured output on this server while it speculates.",
    aspects=("text",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=lambda facts: "" if facts.routes and facts.max_alternatives else "the one-token oracle needs alternatives",
    examples=(
        Example("a block that comes twice", _made(_stuttering(2.0)), Verdict.FAIL, ("DOUBLED",)),
        Example("a block that the model repeats", _made(_stuttering(0.0)), Verdict.PASS),
        Example("noise that explains it", _made(_stuttering(0.6), noise=0.2), Verdict.PASS),
        Example("between noise and fault", _made(_stuttering(0.01)), Verdict.INCONCLUSIVE),
        Example("nothing doubled", _made(), Verdict.PASS),
        Example(
            "another text than the grammar's",
            _made(Form(_answered((0, 1, 4, 3), 9, _GRAMMAR))),
            Verdict.FAIL,
            ("UNGRAMMATICAL",),
        ),
        Example("the grammar's text, cut", _made(Form(_answered((0, 1, 2), 9, _GRAMMAR))), Verdict.PASS),
        Example(
            "a letter out of place", _made(Form(_answered((0, 2, 2)), ("ab", "cd"))), Verdict.FAIL, ("UNGRAMMATICAL",)
        ),
        Example("letters in their places", _made(Form(_answered((0, 2, 1)), ("ab", "cd"))), Verdict.PASS),
        Example("an object", _made(_json(_OBJECT)), Verdict.PASS),
        Example(
            "a doubled key",
            _made(_json(_OBJECT.replace("12,", '12, "company": 12,'))),
            Verdict.FAIL,
            ("UNGRAMMATICAL",),
        ),
        Example("no JSON", _made(_json(_OBJECT.replace("7,", "7,,"))), Verdict.FAIL, ("UNGRAMMATICAL",)),
        Example("nothing drafted", _made(drafted=None), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, 0.0, "", (), ()), Verdict.INCONCLUSIVE),
    ),
)
