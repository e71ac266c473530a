"""Do both servers draw the same tokens for the same seed?"""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.same.pair import Pair, PairProbe, as_pair, ask_again, ask_both, first_difference, prompts
from draftproof.core.ask import Ask
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import NEUTRAL
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Verdict
from draftproof.stats.coupling import coupling_bound

SEEDS = {Effort.QUICK: 16, Effort.STANDARD: 64, Effort.DEEP: 256}
TOKENS = 12


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers of both at temperature 1, each pair with one seed. `expected`: the user says that they must agree."""

    pairs: tuple[Pair, ...]
    expected: bool = False


def seeded_pairs(pair: PairProbe) -> tuple[Pair, ...]:
    """Answers of both servers to the same seeds: made now, or one of them recorded."""
    n = SEEDS[pair.effort]
    if pair.second is None:
        seeded = (a for a in pair.recorded.answers if a.ask.seed is not None and a.ask.sampling.temperature > 0)
        return tuple(ask_again(pair, (a for a in seeded if not a.ask.stream and not a.ask.grammar), n))
    entries = min(1, pair.facts.max_alternatives, pair.second.facts.max_alternatives)
    prompt = prompts(pair, 1)[1]
    return tuple(ask_both(pair, [Ask(prompt, TOKENS, entries, NEUTRAL, seed=seed) for seed in range(1, n + 1)]))


def collect(probe: Probe) -> Evidence:
    pair = as_pair(probe)
    return Evidence(seeded_pairs(pair), pair.same_seeds)


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Passes when all answers agree. Others are a fault only where the user said that seeds must agree (--same-seeds)."""
    pairs = [p for p in evidence.pairs if p.ok]
    differences = [first_difference(p) for p in pairs]
    parted = [p for p, (place, _) in zip(pairs, differences, strict=True) if place is not None]
    at_once = sum(place == 0 for place, _ in differences)
    tokens = sum(n for _, n in differences)
    measured = {"answers": len(pairs), "parted": len(parted), "tokens": tokens}
    if not tokens:
        return Judgement(Verdict.INCONCLUSIVE, "no seeded answers of both", missing="servers that take a seed")
    statement = coupling_bound(len(parted), tokens, terms.pass_error).statement("the two servers")
    if not parted:
        summary = f"{len(pairs)} seeds, {tokens} tokens: the same on both"
        return Judgement(Verdict.PASS, summary, statements=(statement,), measured=measured)
    text = f"{len(parted)} of {len(pairs)} seeded answers differ, {at_once} of them from the first token on"
    finding = Finding("DIFFERENT_SEEDS", text, tuple(e for p in parted for e in p.exchanges))
    if evidence.expected:
        return Judgement(Verdict.FAIL, text, (finding,), (statement,), measured)
    which = "other random numbers" if at_once else "drafted tokens use random numbers of their own"
    why = f"{text}: {which}, which says nothing against either (same/law compares the laws)"
    return Judgement(Verdict.NOT_APPLICABLE, why, (finding,), measured=measured)


def requests(facts: Facts, effort: Effort) -> int:
    return 2 * SEEDS[effort]


_ONE = made.answer([made.true_token(t) for t in (0, 1, 2)])
_OTHER = made.answer([made.true_token(t) for t in (0, 2, 2)])

CHECK = Check(
    name="same/seeds",
    claim="The same seed gives the same tokens on both servers.",
    blind_to="Seeds and prompts that were not asked.",
    remedy="Compare by law, not by seed; or pin the same build, batch settings and verification rule on both.",
    aspects=(),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=lambda facts: "" if facts.seeds else "this server takes no seeds",
    examples=(
        Example("said to agree, and do not", Evidence((Pair(_ONE, _OTHER),), True), Verdict.FAIL, ("DIFFERENT_SEEDS",)),
        Example("agree", Evidence((Pair(_ONE, _ONE),)), Verdict.PASS),
        Example("other random numbers", Evidence((Pair(_ONE, _OTHER),)), Verdict.NOT_APPLICABLE, ("DIFFERENT_SEEDS",)),
        Example("no answers", Evidence(()), Verdict.INCONCLUSIVE),
    ),
)
