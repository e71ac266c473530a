"""The samples' assessment, put into words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from draftproof.checks.drafting import Drafting, why_inconclusive, without_drafts
from draftproof.checks.sampling.assessment import SUSPECT, Assessment, Bound, option
from draftproof.checks.sampling.collecting import LEAST_DRAFTED, Evidence
from draftproof.checks.sampling.streams import drafting_in
from draftproof.core.bounds import at_most, sureness
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Statement, Table, Verdict
from draftproof.stats.sequential import ImpossibleToken

NOISE_LIMIT = 0.2
"""RMS noise in nats above which the e-process's allowance for noise, a first-order one, no longer holds."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The samples' assessment, put into words."""

    evidence: Evidence
    terms: Terms
    assessment: Assessment
    bound: Bound | None

    @property
    def samples(self) -> int:
        return sum(len(s.samples) for s in self.evidence.streams)

    @property
    def measured(self) -> dict[str, float | int | str | None]:
        a = self.assessment
        out: dict[str, float | int | str | None] = {
            "samples": self.samples,
            "tokens judged": a.later.tokens,
            "drafted": sum(s.drafted for s in self.evidence.streams),
            "accepted": sum(s.accepted for s in self.evidence.streams),
            "log e-value": a.later.log_e,
            "log e-value (largest)": a.later.max_log_e,
            "log e-value of token 1": a.first.max_log_e,
            "noise (nat)": self.evidence.noise,
        }
        if a.coupling.control_tokens:
            out["seeds replayed: token 1"] = (
                f"{a.coupling.control_tokens - a.coupling.control_mismatches} of {a.coupling.control_tokens}"
            )
            out["seeds replayed: later"] = f"{a.coupling.tokens - a.coupling.mismatches} of {a.coupling.tokens}"
        if self.evidence.shortened_to:
            out["tokens per answer where only counts decide"] = self.evidence.shortened_to
        if self.bound:
            out["total variation at most"] = self.bound.tv
        return out

    @property
    def statements(self) -> tuple[Statement, ...]:
        a = self.assessment
        text = f"largest e-value over {a.later.tokens} tokens: exp({a.later.max_log_e:.1f})"
        test = Statement(
            text,
            a.later.tokens,
            "e-process over tokens (Ville's inequality)",
            self.terms.alpha / 2,
            {"log_e": a.later.max_log_e},
        )
        return (test, self.bound.statement) if self.bound else (test,)

    def undecidable(self) -> Judgement | None:
        """Nothing is said where the laws themselves are too uncertain."""
        if self.evidence.noise <= NOISE_LIMIT:
            return None
        text = (
            f"the laws to compare with are uncertain by {self.evidence.noise:.2f} nat (RMS), too much to judge samples"
        )
        return self._judgement(Verdict.INCONCLUSIVE, text, missing="a server with less numerical noise")

    def failed(self) -> Judgement | None:
        a = self.assessment
        limit = -math.log(self.terms.alpha / 2)
        if a.first.impossible or a.first.max_log_e >= limit:
            text = f"even token 1, which is never speculated, does not follow the law (e-value exp({a.first.max_log_e:.1f}))"
            return self._judgement(Verdict.FAIL, text, "BASELINE")
        if a.later.impossible:
            count = f"{len(a.later.impossible)} of {a.later.tokens} tokens"
            text = f"{count} are ones that the samplers exclude, such as {self._excluded(a.later.impossible[0])}"
            text += f"; {self._rule()}" if a.later.max_log_e >= limit else ""
            return self._judgement(Verdict.FAIL, text, "IMPOSSIBLE")
        if a.later.max_log_e < limit:
            return None
        text = (
            f"tokens after the first do not follow the target's law (e-value exp({a.later.max_log_e:.0f}), "
            f"{a.later.tokens} tokens); {self._rule()}"
        )
        return self._judgement(Verdict.FAIL, text, "BIASED")

    def _rule(self) -> str:
        if self.assessment.later.slips_lead:
            return "tokens that top-k excludes come too often"
        leader = self.assessment.later.leading(1)[0]
        if not leader.fault:
            return "they fit no rule known by name"
        return f"they fit the rule: {leader.name} (for {leader.share:.0%} of tokens; weight {leader.weight:.0%})"

    def passed_or_not(self) -> Judgement:
        a, bound, target = self.assessment, self.bound, self.terms.target_tv
        if bound is None:
            text = "no law is known for any sample"
            return self._judgement(Verdict.INCONCLUSIVE, text, missing="the server's own law")
        state = drafting_in(self.evidence.reports, self.evidence.streams)
        drafted = sum(s.drafted for s in self.evidence.streams)
        stop = why_inconclusive(state)
        if state is Drafting.SEEN and drafted < LEAST_DRAFTED:
            stop = f"only {drafted} tokens were drafted"
        if stop:
            return self._judgement(Verdict.INCONCLUSIVE, stop, missing="prompts that draft")
        if bound.tv > target:
            by_counts = bound.kind == "counts"
            unit = "samples of the first condition" if by_counts else "tokens"
            text = f"nothing against the law, but the bound is only TV <= {at_most(bound.tv, 3)} where {target:g} is wanted"
            text += self._out_of_time()
            missing = bound.missing(target)
            drawn = len(self.evidence.streams[0].samples) if by_counts else self.samples
            more = math.ceil(missing * drawn / bound.n)
            said = f"about {missing:,} more {unit} ({option(drawn + more)})"
            more_s = more * self.evidence.answer_s if by_counts else 0.0
            return self._judgement(Verdict.INCONCLUSIVE, text, missing=said, more=more, more_s=more_s)
        if bound.kind == "counts" and a.later.log_e >= SUSPECT:
            text = f"suspicious: an e-value of exp({a.later.log_e:.1f}), too much for a pass, too little for a fault"
            text += self._out_of_time()
            more = self.samples
            said = f"about {more:,} more samples ({option(2 * more)})"
            return self._judgement(Verdict.INCONCLUSIVE, text, missing=said, more=more)
        confidence = f"TV <= {at_most(bound.tv)} at {sureness(self.terms.pass_error)}"
        if bound.kind == "seeds":
            text = f"{bound.n} tokens after the first are the target's own draws for their seeds: {confidence}"
        else:
            text = f"token 2 given token 1 follows the target: n={bound.n}, {confidence}"
            text += f"; {a.later.tokens} tokens show nothing against it"
        text += f"; {without_drafts(state)}" if state is Drafting.DECLINED else ""
        return self._judgement(Verdict.PASS, text)

    def _out_of_time(self) -> str:
        ended_s = self.evidence.ended_s
        return f"; sampling ended after {ended_s:.0f} s, its time at this effort" if ended_s else ""

    def _judgement(
        self, verdict: Verdict, text: str, code: str = "", missing: str = "", more: int = 0, more_s: float = 0.0
    ) -> Judgement:
        findings = (Finding(code, text),) if code else ()
        tables = tuple(self._tables())
        return Judgement(verdict, text, findings, self.statements, self.measured, tables, missing, more, more_s)

    def _tables(self) -> Iterator[Table]:
        """Counts of token 2 beside the law, after the three most frequent first tokens of the first condition."""
        stream, book = self.evidence.streams[0], self.assessment.book
        counted = self.assessment.counts.get(0, {})
        often = sorted(counted, key=lambda prefix: -sum(counted[prefix].values()))[:3]
        rows: list[tuple[str | float | int, ...]] = []
        for prefix in often:
            n = sum(counted[prefix].values())
            law = book.laws(0, stream, [(prefix, prefix[0])]).p[0]
            rows += [
                (
                    book.spell(0, stream, (), prefix[0]),
                    book.name(0, stream, prefix, cell),
                    counted[prefix][cell],
                    counted[prefix][cell] / n,
                    float(law[cell]),
                )
                for cell in range(len(law))
                if law[cell] > 0 or counted[prefix][cell]
            ]
        if rows:
            s = stream.sampling
            settings = f"top-k {s.top_k or 'off'}, temperature {s.temperature:g}"
            title = f"Token 2 after token 1, {len(stream.samples)} seeds, {settings}"
            yield Table(title, ("token 1", "token 2", "count", "frequency", "law"), tuple(rows))

    def _excluded(self, found: ImpossibleToken) -> str:
        """A token that cannot come, with the tokens before it."""
        number, prefix = -1 - found.context[0], found.context[1:]
        book, stream, n = self.assessment.book, self.evidence.streams[number], len(prefix)
        drawn = next(
            s[n]
            for s in stream.samples
            if s[:n] == prefix and len(s) > n and book.laws(number, stream, [(prefix, s[n])]).x[0] == found.token
        )
        before = " ".join(book.spell(number, stream, prefix[:i], x) for i, x in enumerate(prefix))
        far = book.below(number, stream, prefix, drawn)
        return f"{book.spell(number, stream, prefix, drawn)} after {before}" + (f" ({far})" if far else "")
