"""At temperature 0, do both servers write the same tokens?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.contexts import after, ceiling
from draftproof.checks.same.logprobs import greedy_pairs, noise_of
from draftproof.checks.same.pair import Pair, as_pair, by_id, first_difference
from draftproof.checks.sampling.greedy_parity import FAULT, FAULT_NOISE, TIE, TIE_NOISE
from draftproof.core.ask import Completion
from draftproof.core.bounds import at_most
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, OracleRow, Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Statement, Table, Verdict


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two answers part: the place, the first server's one-token row there, and whether it repeats its answer."""

    place: int
    row: OracleRow | None
    stable: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """`partings` has one entry per pair, None where the answers agree. `noise` as in same/logprobs."""

    noise: float
    pairs: tuple[Pair, ...]
    partings: tuple[Parting | None, ...]


def collect(probe: Probe) -> Evidence:
    pair = as_pair(probe)
    pairs = greedy_pairs(pair)
    return Evidence(noise_of(pair, pairs), pairs, tuple(_parting(probe, p) for p in pairs))


def _parting(probe: Probe, pair: Pair) -> Parting | None:
    place, _ = first_difference(pair)
    if place is None or not pair.ok:
        return None
    context = after(pair.first.ask.prompt, pair.first, place)
    row = None if context is None or not probe.facts.max_alternatives else probe.oracle(context)
    again = probe.ask(pair.first.ask)
    return Parting(place, row, again.ok and again.text == pair.first.text)


@dataclass(frozen=True, slots=True)
class _Gap:
    pair: Pair
    parting: Parting
    first: str
    second: str
    gap: float
    """Nats between the two tokens by the first server's own law there; infinite where it is not known."""


def _gaps(evidence: Evidence) -> Iterator[_Gap]:
    for pair, parting in zip(evidence.pairs, evidence.partings, strict=True):
        if parting is None:
            continue
        ids = by_id([pair])
        (mine, x), (other, y) = (_token(a, parting, ids) for a in (pair.first, pair.second))
        yield _Gap(pair, parting, mine, other, math.inf if parting.row is None else abs(x - y))


def _token(answer: Completion, parting: Parting, ids: bool) -> tuple[str, float]:
    """The token at the place of parting, and its logprob by the row there."""
    place, row = parting.place, parting.row
    entry = answer.tokens[place] if place < len(answer.tokens) else None
    key = answer.token_ids[place] if ids and answer.token_ids and place < len(answer.token_ids) else None
    text = entry.text if entry is not None else "" if key is None else f"token {key}"
    if row is None:
        return text, math.nan
    found = row.ids.index(key) if key in row.ids else row.texts.index(text) if text in row.texts else None
    return text or "(the end)", ceiling(row) if found is None else row.logprobs[found]


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails where answers part by more than max(6 noise, .05) nats of the first server's own law.

    Up to max(3 noise, .001) nats it is a near-tie; between the two the verdict is inconclusive.
    """
    pairs = [p for p in evidence.pairs if p.ok]
    sigma = evidence.noise * math.sqrt(2)
    tie, fault = max(TIE, TIE_NOISE * sigma), max(FAULT, FAULT_NOISE * sigma)
    gaps = [g for g in _gaps(evidence) if g.pair.ok]
    tokens = sum(first_difference(p)[1] for p in pairs)
    measured = {"tokens": tokens, "answers": len(pairs), "parted": len(gaps), "noise (nat)": evidence.noise}
    rows = tuple((g.parting.place + 1, g.first, g.second, g.gap) for g in gaps)
    tables = (Table("First differences", ("token", "first", "second", "gap (nat)"), rows),) if rows else ()
    wrong = [g for g in gaps if fault < g.gap < math.inf and g.parting.stable]
    if wrong:
        worst = max(wrong, key=lambda g: g.gap)
        text = (
            f"{len(wrong)} of {len(pairs)} answers part at no near-tie: token {worst.parting.place + 1} is {worst.first!r} and "
            f"{worst.second!r}, {worst.gap:.2f} nat apart by the first server's own law"
        )
        finding = Finding("DIFFERENT_TEXT", text, tuple(e for g in wrong for e in g.pair.exchanges))
        return Judgement(Verdict.FAIL, text, (finding,), measured=measured, tables=tables)
    if not tokens:
        return Judgement(
            Verdict.INCONCLUSIVE, "no greedy answers of both to compare", missing="greedy answers of both servers"
        )
    unclear = [g for g in gaps if g.gap > tie]
    if unclear:
        text = f"{len(unclear)} of {len(pairs)} answers part, and it cannot be told whether at a near-tie"
        missing = "logprobs of the first server at the places where the answers part, and a server that repeats itself"
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, tables=tables, missing=missing)
    bound = 1 - 0.05 ** (1 / tokens)
    said = f"at most {at_most(100 * bound)}% of greedy tokens differ on these prompts"
    statement = Statement(said, tokens, "Clopper-Pearson, no failure seen", 0.05, {"share": bound})
    ties = f", {len(gaps)} part at near-ties" if gaps else ""
    return Judgement(
        Verdict.PASS,
        f"{len(pairs)} answers, {tokens} tokens agree{ties}",
        statements=(statement,),
        measured=measured,
        tables=tables,
    )


def requests(facts: Facts, effort: Effort) -> int:
    return 2


def _row(second: float) -> OracleRow:
    values = (-0.5, second)
    return OracleRow((0, 1), ("a", "b"), values, 1)


_AB = made.answer([made.true_token(t) for t in (0, 0)])
_AA = made.answer([made.true_token(t) for t in (0, 1)])

CHECK = Check(
    name="same/greedy",
    claim="At temperature 0 both servers write the same tokens, but for near-ties.",
    blind_to="Prompts that were not asked; faults that both share.",
    remedy="Do not take the answers of one for those of the other; `draftproof check` tells which of them is the model's own.",
    aspects=(),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    examples=(
        Example(
            "another token, far below",
            Evidence(0.0, (Pair(_AB, _AA),), (Parting(1, _row(-1.5), True),)),
            Verdict.FAIL,
            ("DIFFERENT_TEXT",),
        ),
        Example("a near-tie", Evidence(0.0, (Pair(_AB, _AA),), (Parting(1, _row(-0.5005), True),)), Verdict.PASS),
        Example("the same", Evidence(0.0, (Pair(_AB, _AB),), (None,)), Verdict.PASS),
        Example(
            "a gap between", Evidence(0.0, (Pair(_AB, _AA),), (Parting(1, _row(-0.52), True),)), Verdict.INCONCLUSIVE
        ),
        Example("no row to tell", Evidence(0.0, (Pair(_AB, _AA),), (Parting(1, None, True),)), Verdict.INCONCLUSIVE),
        Example(
            "the first does not repeat itself",
            Evidence(0.0, (Pair(_AB, _AA),), (Parting(1, _row(-1.5), False),)),
            Verdict.INCONCLUSIVE,
        ),
        Example("no answers", Evidence(0.0, (), ()), Verdict.INCONCLUSIVE),
    ),
)
