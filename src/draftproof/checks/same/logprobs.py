"""Do both servers give the same logprobs for the same tokens after the same text?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import batches
from draftproof.checks.same.pair import Pair, PairProbe, as_pair, ask_again, ask_both, by_id, first_difference, prompts
from draftproof.checks.tolerance import exceeded, too_noisy
from draftproof.core.ask import Ask
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import GREEDY
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

PROMPTS = {Effort.QUICK: 3, Effort.STANDARD: 5, Effort.DEEP: 5}
TOKENS = {Effort.QUICK: 32, Effort.STANDARD: 64, Effort.DEEP: 64}
MOST_RECORDED = {Effort.QUICK: 40, Effort.STANDARD: 200, Effort.DEEP: 1000}


@dataclass(frozen=True, slots=True)
class Evidence:
    """Greedy answers of both. `noise`: by how much the noisier of the two differs from itself, RMS in nats."""

    noise: float
    pairs: tuple[Pair, ...]


def greedy_pairs(pair: PairProbe) -> tuple[Pair, ...]:
    """Greedy answers of both servers with alternatives: made now, or one of them recorded."""
    if pair.second is None:
        wanted = (a for a in pair.recorded.answers if a.ask.sampling == GREEDY and not a.ask.stream)
        return tuple(ask_again(pair, wanted, MOST_RECORDED[pair.effort]))
    most = min(pair.facts.max_alternatives, pair.second.facts.max_alternatives)
    asks = [Ask(p, TOKENS[pair.effort], min(5, most), GREEDY, seed=1) for p in prompts(pair, PROMPTS[pair.effort])]
    return tuple(ask_both(pair, asks))


def noise_of(pair: PairProbe, pairs: Sequence[Pair]) -> float:
    """The larger noise of the two, in batches of the rows that they use; the first one's where the second is recorded."""
    contexts = prompts(pair, PROMPTS[pair.effort])
    rows = batches([a for p in pairs for a in (p.first, p.second)])
    return max(probe.noise(contexts, rows) for probe in (pair, pair.second) if probe is not None)


def collect(probe: Probe) -> Evidence:
    pair = as_pair(probe)
    pairs = greedy_pairs(pair)
    return Evidence(noise_of(pair, pairs), pairs)


@dataclass(frozen=True, slots=True)
class _Value:
    token: str
    first: float
    second: float

    @property
    def difference(self) -> float:
        return self.second - self.first


def _places(pair: Pair) -> Iterator[tuple[TokenRecord, TokenRecord]]:
    """Entries after the same tokens: up to and including the first difference."""
    _, compared = first_difference(pair)
    yield from zip(pair.first.tokens[:compared], pair.second.tokens[:compared], strict=False)


def _values(mine: TokenRecord, other: TokenRecord, ids: bool) -> Iterator[_Value]:
    theirs = dict(_entries(other, ids))
    for key, (text, value) in _entries(mine, ids):
        if key in theirs:
            yield _Value(text, value, theirs[key][1])


def _entries(token: TokenRecord, ids: bool) -> Iterator[tuple[int | str | None, tuple[str, float]]]:
    listed = [(a.id, a.text, a.logprob) for a in token.alternatives or ()]
    for number, text, logprob in (*listed, (token.id, token.text, token.logprob)):
        if logprob is not None and math.isfinite(logprob):
            yield (number if ids else text), (text, logprob)


def _without(pairs: Sequence[Pair]) -> Iterator[Finding]:
    """Places where one server gives alternatives and the other does not."""
    places = [(p, entries) for p in pairs for entries in _places(p)]
    for side, name in enumerate(("first", "second")):
        bare = [(p, e) for p, e in places if not e[side].alternatives and e[1 - side].alternatives]
        if bare:
            text = (
                f"the {name} server gives no alternatives for {len(bare)} of {len(places)} tokens where the other does"
            )
            yield Finding("MISSING", text, tuple(dict.fromkeys(number for p, _ in bare for number in p.exchanges)))


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Compares value by value: 99 % within max(.01, 8 noise) nats and all within max(.05, 20 noise). No alpha is spent."""
    pairs = [p for p in evidence.pairs if p.ok]
    ids = by_id(pairs)
    bare = tuple(_without(pairs))
    values = [v for p in pairs for a, b in _places(p) if a.alternatives and b.alternatives for v in _values(a, b, ids)]
    measured: dict[str, float | int | str | None] = {"values": len(values), "noise (nat)": evidence.noise}
    if bare:
        return Judgement(Verdict.FAIL, bare[0].text, bare, measured=measured)
    if not values:
        text = "no logprob came back from both for one token"
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, missing="answers with logprobs of both servers")
    worst = max(values, key=lambda v: abs(v.difference))
    measured["worst difference (nat)"] = abs(worst.difference)
    differences = [v.difference for v in values]
    if limit := exceeded(differences, evidence.noise):
        outside = [v for v in values if abs(v.difference) > limit]
        text = (
            f"{len(outside)} of {len(values)} values differ by more than {limit:.2g} nat, the most by "
            f"{abs(worst.difference):.3g}: {worst.token!r} has {worst.first:.3f} and {worst.second:.3f}"
        )
        rows = tuple((v.token, v.first, v.second, v.difference) for v in outside[:12])
        table = Table("Values that differ", ("token", "first", "second", "difference"), rows)
        finding = Finding("DIFFERENT_LOGPROBS", text, tuple(e for p in pairs for e in p.exchanges))
        return Judgement(Verdict.FAIL, text, (finding,), measured=measured, tables=(table,))
    if too_noisy(differences, evidence.noise):
        text = (
            f"one of the servers differs from itself by {evidence.noise:.3f} nat (RMS), too much to judge single values"
        )
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, missing="servers with less numerical noise")
    summary = f"{len(values)} values of both agree, the worst difference is {abs(worst.difference):.1e} nat"
    return Judgement(Verdict.PASS, summary, measured=measured)


def requests(facts: Facts, effort: Effort) -> int:
    return 2 * (PROMPTS[effort] + 1)


_TRUE = made.answer([made.true_token(t) for t in (0, 1, 0, 2)])
_DRAFTED = made.answer([made.true_token(0), made.placeholder(1), made.placeholder(0), made.true_token(2)], drafted=3)
_OTHER = made.answer([made.true_token(t, (0.4, 0.3, 0.15, 0.1, 0.05)) for t in (0, 1, 0, 2)])
_PARTED = made.answer([made.true_token(0), made.true_token(2), made.true_token(3, (0.1, 0.1, 0.1, 0.5, 0.2))])
_TEXT_ONLY = replace(_TRUE, tokens=tuple(replace(t, id=None) for t in _TRUE.tokens), token_ids=None)

CHECK = Check(
    name="same/logprobs",
    claim="Both servers give the same logprobs for the same tokens after the same text.",
    blind_to="Faults that both share; values of tokens outside the lists.",
    remedy="Do not mix logprobs of the two; `draftproof check` tells which of them is true.",
    aspects=(),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=lambda facts: "" if facts.routes else "no route of this server gives logprobs",
    examples=(
        Example("another law", Evidence(0.0, (Pair(_TRUE, _OTHER),)), Verdict.FAIL, ("DIFFERENT_LOGPROBS",)),
        Example("placeholders on one side", Evidence(0.0, (Pair(_TRUE, _DRAFTED),)), Verdict.FAIL, ("MISSING",)),
        Example("the same", Evidence(0.0, (Pair(_TRUE, _TRUE),)), Verdict.PASS),
        Example("ids on one side only", Evidence(0.0, (Pair(_TRUE, _TEXT_ONLY),)), Verdict.PASS),
        Example(
            "after the texts have parted nothing is compared", Evidence(0.0, (Pair(_TRUE, _PARTED),)), Verdict.PASS
        ),
        Example("the same, and noise", Evidence(0.1, (Pair(_TRUE, _TRUE),)), Verdict.PASS),
        Example("noise that could hide the difference", Evidence(0.1, (Pair(_TRUE, _OTHER),)), Verdict.INCONCLUSIVE),
        Example("no answers", Evidence(0.0, ()), Verdict.INCONCLUSIVE),
    ),
)
