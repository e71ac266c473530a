"""By which rule are drafts accepted, as far as the number of accepted ones tells?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Drafting, Reports, drafting, is_on, states, without_drafts
from draftproof.checks.sampling.laws import EDGE, known_model
from draftproof.checks.self_report.acceptance import IN_WORDS, RULES, Count, accepted
from draftproof.core.ask import Completion
from draftproof.core.distribution import Law
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, KnownModel, Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Statement, Table, Verdict
from draftproof.countable.catalogue import builtin

SAMPLES = {Effort.QUICK: common.SEEDS, Effort.STANDARD: 64, Effort.DEEP: 200}
LONGEST = 64
"""The longest draft that is thought of."""
FITS = 4.0
"""Standard deviations of the count. A rule fits by chance alone beyond that once in 16,000 times."""
DRAFTED_WITHIN = 0.15
"""A rule and a length must also account for the number of drafted tokens, to this share."""
ENOUGH = 40
OTHER_DRAFTERS = ("ngram", "mtp", "eagle", "lookup", "medusa", "lookahead")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers at temperature 1 of the countable model `known` ("" = none), whose draft's law is known too."""

    reports: Reports
    known: str
    answers: tuple[Completion, ...]


def collect(probe: Probe) -> Evidence:
    if probe.known is None:
        return Evidence(probe.facts.self_reports, "", ())
    answers = tuple(common.sampled(probe, SAMPLES[probe.effort]))
    return Evidence(probe.facts.self_reports, probe.known.name, answers)


@dataclass(frozen=True, slots=True)
class Fit:
    """One rule with the draft length under which it comes nearest: `z` standard deviations off.

    `exact`: it leaves nothing to chance given the texts, and every answer has just the counts that it foretells, but for those in
    which rounding decides what the draft's favourite is.
    """

    rule: str
    length: int
    count: Count
    z: float
    exact: bool = False


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Never fails: it tells which rule's number of accepted drafts, given the texts that came, is within four standard
    deviations of the one that the answers report. Whether the texts are right is for `sampling/distribution`.
    """
    answers = [a for a in evidence.answers if a.ok and a.token_ids]
    state = drafting(evidence.reports, answers)
    if not evidence.known:
        return Judgement(Verdict.NOT_APPLICABLE, "the law of the draft is not known")
    if state is Drafting.OFF:
        return Judgement(Verdict.NOT_APPLICABLE, "the server does not speculate")
    if state is Drafting.DECLINED:
        return Judgement(Verdict.NOT_APPLICABLE, without_drafts(state))
    if kinds := _other_drafters(answers):
        return Judgement(Verdict.NOT_APPLICABLE, f"drafts come from {', '.join(kinds)}, whose law is not known")
    counted = [a for a in answers if a.drafted is not None and a.accepted is not None]
    drafted, number = sum(a.drafted or 0 for a in counted), sum(a.accepted or 0 for a in counted)
    if drafted < ENOUGH:
        missing = "answers that count their drafts" if answers and not counted else "a prompt that drafts"
        return Judgement(Verdict.INCONCLUSIVE, f"{drafted} drafted tokens are too few", missing=missing)
    fits = _fits(known_model(evidence.known), counted, drafted, number)
    rows = tuple((f.rule, RULES[f.rule][0], f.length, f.count.accepted, f.z) for f in fits)
    columns = ("rule", "accepts on average", "draft length", "accepted tokens expected", "standard deviations off")
    tables = (Table(f"{number} of {drafted} drafts accepted", columns, rows),)
    measured = {"drafted": drafted, "accepted": number}
    named = [f for f in fits if f.exact] or [f for f in fits if abs(f.z) <= FITS]
    if len(named) == 1:
        summary = f"{number} of {drafted} drafted tokens were accepted, about as many as when {IN_WORDS[named[0].rule]}"
        finding = Finding("RULE", named[0].rule, tuple(a.exchange for a in counted)[:5])
        return Judgement(Verdict.PASS, summary, (finding,), (_statement(named[0], drafted),), measured, tables)
    if named:
        text = f"{number} of {drafted} drafts accepted, which fits: {'; '.join(f.rule for f in named)}"
        return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, "more answers")
    text = f"{number} of {drafted} drafts accepted, which fits none of {len(fits)} rules for the draft that is known"
    return Judgement(Verdict.INCONCLUSIVE, text, (), (), measured, tables, "the law that drafts are drawn from")


def _statement(fit: Fit, drafted: int) -> Statement:
    error = math.erfc(FITS / math.sqrt(2))
    text = f"accepted drafts are {abs(fit.z):.1f} standard deviations from those of {fit.rule}, other rules beyond {FITS:g}"
    return Statement(text, drafted, "exact mean and variance given the texts", error, {"z": fit.z})


def _fits(model: KnownModel, answers: Sequence[Completion], drafted: int, number: int) -> list[Fit]:
    """Each rule at the length of draft that accounts best for the drafted tokens; z is infinite where none does."""
    texts = [_laws(model, a) for a in answers]
    clear = [_is_clear(q) for _, q, _ in texts]
    fits = []
    for rule, (_, acceptance) in RULES.items():
        length, counts = _best_length([acceptance(p, q, x) for p, q, x in texts], drafted)
        total = sum(counts, Count())
        z = (number - total.accepted) / math.sqrt(total.variance + 0.25)  # the count is whole: half a token is not seen
        if abs(total.drafted - drafted) > DRAFTED_WITHIN * drafted:
            z = math.copysign(math.inf, z)
        just = list(compress(map(_is_just, counts, answers), clear))
        fits.append(Fit(rule, length, total, z, bool(just) and all(just)))
    return fits


def _best_length(given: Sequence[Law], drafted: int) -> tuple[int, list[Count]]:
    """The length of draft whose number of drafted tokens comes nearest: it grows with the length."""
    tried: list[tuple[float, int, list[Count]]] = []
    for length in range(1, LONGEST + 1):
        counts = [accepted(a, length) for a in given]
        total = sum(c.drafted for c in counts)
        tried.append((abs(total - drafted), length, counts))
        if total >= drafted:
            break
    _, length, counts = min(tried, key=lambda t: t[:2])
    return length, counts


def _is_just(count: Count, answer: Completion) -> bool:
    return count.variance < 1e-9 and (round(count.accepted), round(count.drafted)) == (answer.accepted, answer.drafted)


def _is_clear(q: Law) -> bool:
    """Whether the likeliest token of every row is the likeliest whatever is rounded. q: float64[n, vocabulary]."""
    second, first = np.sort(q)[:, -2:].T
    return bool((np.log(first / second) >= EDGE).all())


def _laws(model: KnownModel, answer: Completion) -> tuple[Law, Law, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """p, q: float64[n - 1, vocabulary], x: int[n - 1]: the laws before each token after the first, and the token."""
    prompt, ids = answer.ask.prompt, answer.token_ids
    assert isinstance(prompt, tuple)
    assert ids is not None
    contexts = [prompt + ids[:n] for n in range(1, len(ids))]
    return np.exp(model.target_many(contexts)), np.exp(model.draft_many(contexts)), np.array(ids[1:], dtype=np.int64)


def _other_drafters(answers: Sequence[Completion]) -> list[str]:
    """Kinds of drafters other than a draft model that answers name, in their settings."""
    said = {str(value).lower() for a in answers for name, value in a.claims if states(name, value) and is_on(value)}
    return sorted(kind for kind in OTHER_DRAFTERS if any(kind in text for text in said))


def requests(facts: Facts, effort: Effort) -> int:
    return -(-SAMPLES[effort] // facts.batch_seeds)


_FAVOURITE = (
    ("354725557565465327456027777437377455567035374513", 102, 11),
    ("732572555755446556556335551337356666773745657456", 96, 13),
    ("547332330573365657373737745532657334732354573377", 108, 9),
)
_DRAWN = (
    ("354513567573257273353025567360365773565651565673", 61, 26),
    ("725573755373765556535655157473513656732565720256", 67, 24),
    ("547565565677456577457450355551745737355551255577", 72, 22),
)
"""Answers of a real llama-server to `bcdbc`, by token ids, with its counts: argmax drafts, and drawn ones by rejection sampling."""


def _made(answers: Sequence[tuple[str, int, int]], kind: str = "draft-simple", times: float = 1) -> Evidence:
    claims = (("speculative.types", kind),)
    return Evidence(
        made.LIVE_ON,
        builtin().name,
        tuple(
            made.answer((), n=0, ids=list(map(int, ids)), drafted=drafted, accepted=int(times * number), claims=claims)
            for ids, drafted, number in answers
        ),
    )


CHECK = Check(
    name="self_report/acceptance_rule",
    claim="The rule by which drafts are accepted can be told from how many are.",
    blind_to="Whether the rule is carried out rightly: a server may accept as many as it should and emit wrong tokens.",
    remedy="Ask the operator how drafts are drawn and verified.",
    aspects=(),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=lambda facts: (
        "" if facts.countable else "the law of the draft is not known: the model is not a countable pair"
    ),
    examples=(
        Example("as many as rejection sampling accepts", _made(_DRAWN), Verdict.PASS, ("RULE",)),
        Example("just the draft's favourites", _made(_FAVOURITE), Verdict.PASS, ("RULE",)),
        Example("too many for any rule", _made(_DRAWN, times=1.6), Verdict.INCONCLUSIVE),
        Example("the draft is an n-gram", _made(_DRAWN, "ngram-mod"), Verdict.NOT_APPLICABLE),
        Example("too few drafts", replace(_made(_DRAWN[:0])), Verdict.INCONCLUSIVE),
        Example(
            "speculation declined",
            Evidence(made.LIVE_ON, builtin().name, (made.answer((), n=0, ids=(3, 5), claims=made.DECLINED),)),
            Verdict.NOT_APPLICABLE,
        ),
        Example("an unknown draft", replace(_made(_DRAWN), known=""), Verdict.NOT_APPLICABLE),
        Example(
            "no speculation",
            Evidence(made.LIVE_OFF, builtin().name, (made.answer((), n=0, ids=[1, 2, 3]),)),
            Verdict.NOT_APPLICABLE,
        ),
    ),
)
