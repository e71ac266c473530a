"""Does a server sample the same with speculation as with speculation switched off by the request?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Drafting, drafts, without_drafts
from draftproof.checks.sampling.arms import (
    FIRST_BATCH,
    Difference,
    Evidence,
    Pair,
    assessed,
    bound,
    collect,
    coupled,
    first_difference,
    lacking,
    moved,
)
from draftproof.checks.sampling.assessment import Bound, option
from draftproof.checks.sampling.collecting import LEAST_DRAFTED
from draftproof.checks.sampling.findings import NOISE_LIMIT
from draftproof.checks.sampling.greedy_parity import FAULT, FAULT_NOISE, TIE, TIE_NOISE
from draftproof.checks.sampling.laws import PrefixRow
from draftproof.checks.sampling.streams import Stream
from draftproof.client.coupling import predict
from draftproof.core.bounds import at_most, sureness
from draftproof.core.facts import Facts
from draftproof.core.mt19937 import draws_of
from draftproof.core.probe import Effort, OracleRow
from draftproof.core.sampling import GREEDY, NEUTRAL
from draftproof.core.terms import Terms
from draftproof.core.tokens import Alternative, TokenRecord
from draftproof.core.verdict import Finding, Judgement, Statement, Verdict
from draftproof.stats.sequential import EProcess


@dataclass(frozen=True, slots=True)
class _Seen:
    """What both conditions showed. Gaps up to `tie` nats are noise, those above `fault` are faults."""

    evidence: Evidence
    on: Stream
    off: Stream
    pairs: Sequence[Pair]
    terms: Terms
    later: EProcess
    control: EProcess
    bound: Bound | None
    tie: float
    fault: float

    @classmethod
    def of(cls, evidence: Evidence, on: Stream, off: Stream, terms: Terms) -> _Seen:
        pairs = [p for p in evidence.pairs if p.on.ok and p.off.ok]
        sigma = evidence.noise * math.sqrt(2)
        with_draft = assessed(evidence, on)
        return cls(
            evidence,
            on,
            off,
            pairs,
            terms,
            with_draft.later,
            assessed(evidence, off).later,
            bound(evidence, terms.pass_error, with_draft),
            max(TIE, TIE_NOISE * sigma),
            max(FAULT, FAULT_NOISE * sigma),
        )

    @property
    def different(self) -> list[Difference]:
        return [d for d in map(first_difference, self.pairs) if d is not None]

    @property
    def statements(self) -> tuple[Statement, ...]:
        text = f"largest e-value of {self.later.tokens} tokens with speculation against the law told without: "
        test = Statement(
            f"{text}exp({self.later.max_log_e:.1f})",
            self.later.tokens,
            "e-process over tokens (Ville's inequality)",
            self.terms.alpha / 2,
            {"log_e": self.later.max_log_e},
        )
        return (test, self.bound.statement) if self.bound else (test,)

    @property
    def measured(self) -> dict[str, float | int | str | None]:
        return {
            "greedy answers that differ": len(self.different),
            "RMS difference of logprobs (nat)": max(map(_move, self.pairs), default=0.0),
            "seeds compared": len(self.off.samples),
            "samples": len(self.on.samples),
            "the same answer to the same seed": "yes" if coupled(self.evidence) else "no",
            "drafted": self.on.drafted + sum(p.on.drafted or 0 for p in self.pairs),
            "log e-value": self.later.max_log_e,
            "log e-value without speculation": self.control.max_log_e,
            "noise (nat)": self.evidence.noise,
            **({"tokens per answer where only counts decide": short} if (short := self.evidence.shortened_to) else {}),
        }

    def useless(self) -> tuple[str, str] | None:
        """Why nothing can be said, and what it would need."""
        if not self.pairs:
            return "too few answers came", "answers with and without speculation"
        if self.evidence.noise > NOISE_LIMIT:
            return f"laws are uncertain by {self.evidence.noise:.2f} nat (RMS)", "a server with less numerical noise"
        if any(drafts(p.off) for p in self.pairs) or self.off.drafted:
            return f"{self.evidence.switch} stops drafting only sometimes", "a switch that always works"
        return None

    def faults(self) -> Iterator[Finding]:
        limit = math.log(2) - math.log(self.terms.alpha)
        wrong = [(d.gap, d) for d in self.different if d.gap is not None and d.gap > self.fault]
        if wrong:
            gap, worst = max(wrong, key=lambda found: found[0])
            text = f"{len(wrong)} of {len(self.pairs)} greedy answers change with speculation: "
            text += f"token {worst.position + 1} by {gap:.2f} nat"
            yield Finding("CHANGED", text, tuple(x.exchange for _, d in wrong for x in (d.pair.on, d.pair.off)))
        if self.control.max_log_e >= limit or self.control.impossible:
            text = "even without speculation the tokens do not follow the law that the server tells with them"
            yield Finding("BASELINE", text)
        elif self.later.impossible or self.later.max_log_e >= limit:
            text = "sampled tokens do not follow the law that the server tells without speculation (e-value "
            text += (
                f"exp({self.later.max_log_e:.0f}), {self.later.tokens} tokens, {len(self.later.impossible)} impossible)"
            )
            yield Finding("CHANGED", text)
        moved_pairs = [p for p in self.pairs if _move(p) > self.fault]
        if moved_pairs:
            most = max(map(_move, moved_pairs))
            text = f"logprobs of equal tokens after equal tokens move by {most:.2f} nat (RMS) with speculation"
            yield Finding("MOVED", text, tuple(p.on.exchange for p in moved_pairs))

    @property
    def declined(self) -> bool:
        """Whether the server says, in each answer at temperature 1, that it was made without speculation, and why."""
        return not self.on.drafted and self.on.effective is False

    def open(self) -> tuple[str, str, int] | None:
        """Why no pass can be given, what it would need, and how many samples more that is."""
        gaps = [d.gap for d in self.different]
        if None in gaps:
            text = "greedy answers differ where one of them ends or has no logprobs"
            return text, "greedy answers of one length, with logprobs", 0
        if any(gap is not None and gap > self.tie for gap in gaps):
            return "greedy answers differ by more than noise and less than a fault", "less numerical noise", 0
        sampled = self.declined or self.on.drafted >= LEAST_DRAFTED
        if not any(drafts(p.on) for p in self.pairs) or not sampled:
            return f"only {self.on.drafted} tokens were drafted at temperature 1", "prompts that draft", 0
        if self.bound is None or self.bound.tv > self.terms.target_tv:
            so_far = f"TV <= {at_most(self.bound.tv, 3)}" if self.bound else "no bound"
            text = f"nothing against it, but only {so_far} where {self.terms.target_tv:g} is wanted"
            if self.evidence.ended_s:
                text += f"; sampling ended after {self.evidence.ended_s:.0f} s, its time at this effort"
            more = lacking(self.evidence, self.bound, self.terms.target_tv)
            said = f"about {more:,} more samples ({option(len(self.on.samples) + more)})"
            return text, said if more else "tokens whose law is told without speculation", more
        return None


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when a greedy answer differs by more than max(6 noise, .05) nats, the logprobs of an answer move by as much (RMS), or
    when tokens after the first do not follow the law that the same server tells without speculation (e-process at 2/alpha).

    Passes only with an upper bound of at most `terms.target_tv` on the total variation between the two: by equal seeds where
    they give equal answers, by counts otherwise.
    """
    if not evidence.switch:
        text = "no field of a request was seen to switch speculation off; one-token requests stand in for it in the other checks"
        return Judgement(Verdict.NOT_APPLICABLE, text)
    on, off = evidence.on, evidence.off
    if on is None or off is None or not on.samples or not off.samples:
        return Judgement(Verdict.INCONCLUSIVE, "too few answers came", missing="answers with and without speculation")
    seen = _Seen.of(evidence, on, off, terms)
    useless = seen.useless()
    findings = () if useless else tuple(seen.faults())
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, findings, seen.statements, seen.measured)
    stop = (*useless, 0) if useless else seen.open()
    if stop:
        text, missing, more = stop
        return Judgement(Verdict.INCONCLUSIVE, text, (), seen.statements, seen.measured, missing=missing, more=more)
    assert seen.bound is not None  # else that is why none can be given
    how = "equal seeds give equal answers" if coupled(evidence) else "other answers to equal seeds, of the same law"
    text = (
        f"{evidence.switch}={evidence.value} changes nothing: {len(seen.pairs)} greedy answers equal, {how}, "
        f"TV <= {at_most(seen.bound.tv)} at {sureness(terms.pass_error)} (n={seen.bound.n})"
    )
    text += f"; at temperature 1 {without_drafts(Drafting.DECLINED)}" if seen.declined else ""
    return Judgement(Verdict.PASS, text, (), seen.statements, seen.measured)


def _move(pair: Pair) -> float:
    """RMS difference of an answer's logprobs with and without speculation, in nats."""
    differences = list(moved(pair))
    return math.sqrt(math.fsum(x * x for x in differences) / len(differences)) if differences else 0.0


_BY_COUNTS = {Effort.QUICK: 256, Effort.STANDARD: 2048, Effort.DEEP: 16384}


def requests(facts: Facts, effort: Effort) -> int:
    """Beyond the common ones, for a server whose seeds give other answers under speculation; without a switch only the trial."""
    at_once = max(facts.batch_seeds, facts.batch_draws, 1)
    return 4 + 2 + 2 * math.ceil(FIRST_BATCH / max(1, facts.batch_seeds)) + math.ceil(_BY_COUNTS[effort] / at_once)


def applies(facts: Facts) -> str:
    if not (facts.routes and facts.max_alternatives and facts.token_prompts and facts.token_ids):
        return "tokens of both conditions are compared by their ids and logprobs"
    return "" if facts.seeds else "seeds do not repeat on this server"


_N = 600
_IDS = tuple(n % 3 for n in range(12))
_PREFIXES = [(), *((a,) for a in range(5))]


def _pair(on: Sequence[int] = _IDS, shift: float = 0.0, drafted: int | None = 9, gap: float = 1.0) -> Pair:
    off = [_ranked(n, gap) for n in _IDS]
    with_draft = [replace(_ranked(n, gap), logprob=-0.5 + shift) for n in on]
    return Pair(
        made.answer(with_draft, sampling=GREEDY, drafted=drafted, accepted=2 if drafted else None),
        made.answer(off, sampling=GREEDY),
    )


def _ranked(best: int, gap: float) -> TokenRecord:
    """A token at -.5 nat, its rival `gap` nats below it."""
    token = made.true_token(best)
    rival = (best + 1) % 3
    listed = ((best, -0.5), (rival, -0.5 - gap))
    return replace(token, logprob=-0.5, alternatives=tuple(Alternative(i, made.letter(i), x) for i, x in listed))


def _made(
    later: str = "law", pair: Pair | None = None, n: int = _N, drafted: int = 300, noise: float = 1e-6
) -> Evidence:
    """Two letters per answer: as the seeds say in both conditions ("equal"), of the same law ("law"), or its top ("greedy")."""
    law = np.array(made.LAW)
    seeds = np.arange(1000, 1000 + n)
    without = predict(np.broadcast_to(law, (n, 2, 5)), draws_of(seeds.tolist(), 2)).tokens
    others = predict(np.broadcast_to(law, (n, 2, 5)), draws_of((seeds + 10**6).tolist(), 2)).tokens
    tokens = without if later == "equal" else others
    if later == "greedy":
        tokens[:, 1] = 0
    row = OracleRow(tuple(range(5)), tuple("abcde"), tuple(map(math.log, made.LAW)), 2, complete=True)
    on, off = (
        Stream(made.PROMPT, NEUTRAL, tuple(seeds.tolist()), tuple(map(tuple, t.tolist())), d, d // 3)
        for t, d in ((tokens, drafted), (without, 0))
    )
    rows = tuple(PrefixRow(0, prefix, row) for prefix in _PREFIXES)
    return Evidence(made.LIVE_ON, "speculative", False, noise, 5, (pair or _pair(),), on, off, rows)


def _declined(evidence: Evidence) -> Evidence:
    assert evidence.on is not None
    return replace(evidence, on=replace(evidence.on, effective=False))


_SECOND = (0, 2, *_IDS[2:])

CHECK = Check(
    name="sampling/unchanged",
    claim="Switching speculation off in the request changes neither greedy answers, nor logprobs, nor the law of samples.",
    blind_to="What both conditions share; prompts and samplers that were not tried; differences below the stated bound.",
    remedy="Send the switch with every request whose text or numbers matter.",
    aspects=("text", "logprobs"),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=applies,
    statistical=True,
    examples=(
        Example("equal seeds, equal answers", _made("equal"), Verdict.PASS),
        Example("other answers of the same law", _made(n=1500), Verdict.PASS),
        Example("greedy when it speculates", _made("greedy"), Verdict.FAIL, ("CHANGED",)),
        Example("a greedy answer that changes", _made("equal", _pair(_SECOND)), Verdict.FAIL, ("CHANGED",)),
        Example("a logprob that moves", _made("equal", _pair(shift=0.3)), Verdict.FAIL, ("MOVED",)),
        Example("a near-tie", _made("equal", _pair(_SECOND, gap=1e-4)), Verdict.PASS),
        Example("noise that explains it", _made("equal", _pair(_SECOND, gap=0.6), noise=0.15), Verdict.PASS),
        Example("between noise and fault", _made("equal", _pair(_SECOND, gap=0.01)), Verdict.INCONCLUSIVE),
        Example("a greedy answer that ends early", _made("equal", _pair(_IDS[:7])), Verdict.INCONCLUSIVE),
        Example("too few samples", _made(n=60), Verdict.INCONCLUSIVE),
        Example("nothing drafted", _made("equal", drafted=0), Verdict.INCONCLUSIVE),
        Example(
            "nothing drafted at temperature 1, as each answer says", _declined(_made("equal", drafted=0)), Verdict.PASS
        ),
        Example(
            "nothing drafted at any temperature",
            _declined(_made("equal", _pair(drafted=None), drafted=0)),
            Verdict.INCONCLUSIVE,
        ),
        Example("too noisy", _made("equal", noise=0.5), Verdict.INCONCLUSIVE),
        Example("no switch", Evidence(made.LIVE_ON, ""), Verdict.NOT_APPLICABLE),
        Example("nothing came", Evidence(made.LIVE_ON, "speculative", False), Verdict.INCONCLUSIVE),
    ),
)
