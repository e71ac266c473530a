"""At temperature 0, is every token the one that the model itself would choose there?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.contexts import ceiling, chain, entries_in_place
from draftproof.checks.drafting import Drafting, Reports, batches, drafting, tokens_per_step, why_inconclusive
from draftproof.checks.prompts import ordinary, repeating
from draftproof.core.ask import Completion
from draftproof.core.bounds import at_most
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, OracleRow, Probe
from draftproof.core.sampling import GREEDY
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Statement, Table, Verdict

PROMPTS = {Effort.QUICK: 2, Effort.STANDARD: 5, Effort.DEEP: 5}
TIE_NOISE, FAULT_NOISE = 3, 6
TIE, FAULT = 1e-3, 0.05


@dataclass(frozen=True, slots=True)
class Parity:
    """A greedy answer, the same asked again, and the oracle's row before each token (the one-token chain)."""

    answer: Completion
    again: Completion
    rows: tuple[OracleRow, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """`noise`: RMS difference in nats of the server's laws by one row and by a batch of rows."""

    reports: Reports
    noise: float
    parities: tuple[Parity, ...]


def collect(probe: Probe) -> Evidence:
    prompts = [repeating(probe), *ordinary(probe, PROMPTS[probe.effort])]
    parities = []
    for prompt in prompts:
        ask = replace(common.forced(probe, 0.0)[0], prompt=prompt)
        answer, again = probe.once([ask])[0], probe.ask(ask)
        parities.append(Parity(answer, again, chain(probe, answer)))
    noise = probe.noise(prompts, batches([p.answer for p in parities]))
    return Evidence(probe.facts.self_reports, noise, tuple(parities))


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first token that is not the oracle's choice: `gap` nats below it."""

    answer: Completion
    position: int
    emitted: str
    chosen: str
    gap: float


def _emitted(answer: Completion, n: int) -> tuple[int | None, str]:
    entries = entries_in_place(answer)
    token = entries[n] if n < len(entries) else None
    known = answer.token_ids[n] if answer.token_ids and n < len(answer.token_ids) else None
    if token is not None and known is not None and token.id not in (None, known):
        token = None  # an entry before it was lost
    return (known if token is None or token.id is None else token.id), (token.text if token else f"token {known}")


def _known(answer: Completion) -> int:
    """How many tokens are known: an entry beyond the ids, as of an end token that is not counted, is none of them."""
    return max(len(entries_in_place(answer)), len(answer.token_ids or ()))


def _divergence(answer: Completion, rows: tuple[OracleRow, ...]) -> Divergence | None:
    """Compared only up to the first difference: after it the contexts differ too."""
    for n, row in enumerate(rows[: _known(answer)]):
        token, text = _emitted(answer, n)
        if -1 in row.ids:  # told by text only
            token = None
        same = token == row.ids[0] if token is not None else text == row.texts[0]
        if same:
            continue
        values = dict(zip(row.ids if token is not None else row.texts, row.logprobs, strict=True))
        value = values.get(token if token is not None else text)
        gap = row.logprobs[0] - (ceiling(row) if value is None else value)
        return Divergence(answer, n, text, row.texts[0], gap)
    return None


def _divergences(parity: Parity) -> Iterator[Divergence]:
    """Of the answer; and of its repetition where that differs: it shares the answer's contexts up to the difference."""
    arms = (
        [parity.answer, parity.again]
        if parity.again.ok and parity.again.text != parity.answer.text
        else [parity.answer]
    )
    yield from (d for d in (_divergence(arm, parity.rows) for arm in arms) if d is not None)


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails on a first difference whose gap exceeds max(6 noise, .05) nats; up to max(3 noise, .001) it is a near-tie.

    The noise of a gap of two logprobs is taken as sqrt(2) of one's. Between the two limits the verdict is inconclusive.
    """
    parities = tuple(p for p in evidence.parities if p.answer.ok and p.rows)
    sigma = evidence.noise * math.sqrt(2)
    tie, fault = max(TIE, TIE_NOISE * sigma), max(FAULT, FAULT_NOISE * sigma)
    found = [d for parity in parities for d in _divergences(parity)]
    tokens = sum(min(len(p.rows), _known(p.answer)) for p in parities)
    answers = [p.answer for p in parities]
    state = drafting(evidence.reports, answers)
    steps = tokens_per_step(answers)
    measured = {"tokens": tokens, "noise (nat)": evidence.noise, "tokens per step": steps, "near-ties": len(found)}
    rows = tuple((f"{d.position + 1}", d.emitted, d.chosen, d.gap) for d in found)
    tables = (Table("First differences", ("token", "emitted", "the model's own", "gap (nat)"), rows),) if rows else ()
    wrong = [d for d in found if d.gap > fault]
    if wrong:
        worst = max(wrong, key=lambda d: d.gap)
        summary = (
            f"{len(wrong)} of {len(parities)} answers leave the one-token chain: token {worst.position + 1} is "
            f"{worst.emitted!r}, {worst.gap:.2f} nat below {worst.chosen!r} (numerical noise {evidence.noise:.1e})"
        )
        finding = Finding("NOT_GREEDY", summary, tuple(d.answer.exchange for d in wrong))
        return Judgement(Verdict.FAIL, summary, (finding,), measured=measured, tables=tables)
    if not tokens:
        return Judgement(
            Verdict.INCONCLUSIVE, "no answer could be followed by single tokens", missing="answers of some length"
        )
    unclear = [d for d in found if d.gap > tie]
    if unclear:
        text = f"{len(unclear)} differences with a gap between noise and fault (up to {max(d.gap for d in unclear):.3f} nat)"
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, tables=tables, missing="less numerical noise")
    missing = why_inconclusive(state)
    if missing:
        return Judgement(
            Verdict.INCONCLUSIVE, missing, measured=measured, tables=tables, missing="a prompt that drafts"
        )
    ties = f", {len(found)} near-ties" if found else ""
    how = f", {steps:.1f} tokens per step" if state is Drafting.SEEN and steps else ""
    summary = f"{len(parities)} prompts, {tokens} tokens equal to the one-token chain{ties}{how}"
    return Judgement(Verdict.PASS, summary, statements=(_statement(tokens),), measured=measured, tables=tables)


def _statement(tokens: int) -> Statement:
    """With no fault among n tokens, 3 / n bounds the share of faulty ones at 95 % (exact: 1 - .05^(1/n))."""
    bound = 1 - 0.05 ** (1 / tokens)
    text = f"on these prompts at most {at_most(100 * bound)}% of greedy tokens are not the model's own choice"
    return Statement(text, tokens, "Clopper-Pearson, no failure seen", 0.05, {"share": bound})


def requests(facts: Facts, effort: Effort) -> int:
    chain = 0 if facts.countable else common.TOKENS
    return PROMPTS[effort] * (2 + chain) + chain


def _row(best: int, gap: float) -> OracleRow:
    """A row whose second token is `gap` nats below the best."""
    second = math.log(0.8) - math.log1p(math.exp(-gap)) - gap
    first = second + gap
    other = (best + 1) % 5
    rest = tuple(i for i in range(5) if i not in (best, other))
    ids = (best, other, *rest)
    logprobs = (first, second, *(math.log(0.2 / 3),) * 3)
    return OracleRow(ids, tuple(map(made.letter, ids)), logprobs, 2, complete=True)


def _made(gap: float | None, drafted: int | None = 20, noise: float = 1e-4, again: bool = True) -> Evidence:
    """An answer of 20 tokens; the 8th is the second-best by `gap` nats (None: all are the best)."""
    best = [n % 4 for n in range(20)]
    ids = [b + (gap is not None and n == 7) for n, b in enumerate(best)]
    tokens = [made.true_token(i) for i in ids]
    answer = made.answer(tokens, sampling=GREEDY, drafted=drafted, accepted=8 if drafted else None)
    rows = tuple(_row(b, gap if gap is not None else 1.0) for b in best)
    worse = [made.true_token(b + (n == 7)) for n, b in enumerate(best)]
    repeat = answer if again else made.answer(worse, sampling=GREEDY)
    reports = made.LIVE_ON if drafted else made.LIVE_OFF
    return Evidence(reports, noise, (Parity(answer, repeat, rows),))


CHECK = Check(
    name="sampling/greedy_parity",
    claim="At temperature 0 the answer under speculation is the one-token chain of the same server, save near-ties.",
    blind_to="A fault that also spoils one-token requests; what happens at temperature above 0.",
    remedy="Do not compare or cite greedy outputs of this server while it speculates.",
    aspects=("text",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    applies=lambda facts: "" if facts.routes and facts.max_alternatives else "the one-token oracle needs alternatives",
    examples=(
        Example("a token half a nat below the best", _made(0.5), Verdict.FAIL, ("NOT_GREEDY",)),
        Example("the same, and noise that explains it", _made(0.5, noise=0.2), Verdict.PASS),
        Example("equal to the chain", _made(None), Verdict.PASS),
        Example("no speculation", _made(None, drafted=None), Verdict.PASS),
        Example("a near-tie", _made(2e-4), Verdict.PASS),
        Example("between noise and fault", _made(0.01), Verdict.INCONCLUSIVE),
        Example("only the repetition leaves the chain", _made(None, again=False), Verdict.FAIL, ("NOT_GREEDY",)),
        Example("nothing drafted", replace(_made(None, drafted=None), reports=made.LIVE_ON), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, 0.0, ()), Verdict.INCONCLUSIVE),
    ),
)
