"""The audit itself: self-test, facts, plan, then collect and judge, check by check.

A check that breaks is a verdict, never a crash and never a pass. What stops the whole audit (budget, Ctrl-C, a disk
that is full, a server that is gone) leaves a report of what was done.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from draftproof import __version__
from draftproof.auditing import codec, record
from draftproof.auditing.aggregates import aggregates
from draftproof.auditing.baseline import Baseline
from draftproof.auditing.budget import alpha_shares
from draftproof.auditing.config import AuditConfig, Expectation
from draftproof.auditing.events import (
    AuditFinished,
    AuditStarted,
    CheckFinished,
    CheckStarted,
    FactsGathered,
    Listener,
    PlanMade,
    Progressed,
    SelfTestPassed,
)
from draftproof.auditing.limits import Limit, limits
from draftproof.auditing.outcome import NOT_RUN, SOUND, Outcome, Report, contradictions, exit_code
from draftproof.auditing.plan import Plan, Planned, make_plan
from draftproof.auditing.resume import Earlier
from draftproof.auditing.safety import safe_to_use, what_to_do
from draftproof.auditing.selftest import Controls, require_sound
from draftproof.auditing.target import Target
from draftproof.checks.check import AnyCheck
from draftproof.checks.drafting import DECLARED
from draftproof.client.watch import Observed
from draftproof.core.errors import BudgetSpent, DraftproofError, EvidenceError, EvidenceLost, TargetError, Unreachable
from draftproof.core.facts import Facts
from draftproof.core.probe import Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Verdict, merge


class Audit:
    """One audit of one server. `run` once."""

    def __init__(
        self,
        config: AuditConfig,
        chosen: Sequence[AnyCheck],
        every: Sequence[AnyCheck],
        listen: Listener,
        earlier: Earlier | None = None,
        baseline: Baseline | None = None,
    ) -> None:
        """`chosen` are the checks to run, `every` all that exist: what was left out is not safe to use. `earlier` is the audit
        to go on from.
        """
        self.continues = () if earlier is None else earlier.continues
        self.earlier = earlier
        self.config, self.chosen, self.every, self.listen = config, chosen, every, listen
        self.baseline = baseline or Baseline()
        self.outcomes: list[Outcome] = []
        self.limits: tuple[Limit, ...] = ()
        self.stopped = ""
        self._interrupted = False
        self._unreachable = 0
        self._running = ""
        self._began = time.monotonic()
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def self_test(self) -> Controls:
        """Raises InstrumentError; no request is sent before this returned."""
        self.listen(AuditStarted(self.config, tuple(c.name for c in self.chosen)))
        began = time.monotonic()
        controls = require_sound(self.chosen, Terms())
        self.listen(SelfTestPassed(controls.total, time.monotonic() - began))
        return controls

    def run(self, target: Target, controls: Controls, *, dry_run: bool = False) -> Report:
        """Raises TargetError when the server cannot be asked at all, EvidenceError or EvidenceLost when the disk is full."""
        names = tuple(c.name for c in self.chosen)
        record.write_header(
            target.record,
            record.Header(
                record.FORMAT,
                record.VERSION,
                __version__,
                self._started_at,
                controls.total,
                names,
                self.config,
                self.continues,
            ),
        )
        try:
            probe, plan = self._meet(target)
        except EvidenceError as error:
            raise EvidenceLost(error.message, error.remedy) from error
        if dry_run:
            self.stopped = DRY_RUN
        else:
            for check, planned in zip(self.chosen, plan.checks, strict=True):
                outcome = self._outcome(check, planned, probe, target)
                self.outcomes.append(outcome)
                self._save(target, outcome)
                self.listen(CheckFinished(outcome))
        return self._finish(controls, probe.facts, plan, target)

    def _meet(self, target: Target) -> tuple[Probe, Plan]:
        """The server's facts, and what is to be asked of it."""
        before, began = target.requests, time.monotonic()
        probe = target.connect(self._answered)
        probe.facts = _with_declaration(probe.facts, self.config.expect_speculation)
        record.write_facts(target.record, probe.facts)
        self.listen(FactsGathered(probe.facts))
        asked = target.requests - before
        round_trip_s = (time.monotonic() - began) / asked if asked else None
        shares = alpha_shares(self.chosen, self.config.alpha)
        plan = make_plan(self.chosen, probe.facts, self.config.effort, shares, round_trip_s)
        record.write_plan(target.record, plan)
        self.listen(PlanMade(plan))
        return probe, plan

    def _outcome(self, check: AnyCheck, planned: Planned, probe: Probe, target: Target) -> Outcome:
        terms = self.config.terms(planned.alpha, len(self.continues))
        if planned.not_applicable:
            return Outcome(check.name, Judgement(Verdict.NOT_APPLICABLE, planned.not_applicable), terms)
        if self.earlier is not None and (settled := self.earlier.decided(check, self.config.effort)) is not None:
            return self._settled(check, settled, target)
        if self.stopped:
            return Outcome(check.name, Judgement(Verdict.INCONCLUSIVE, f"{NOT_RUN}{self.stopped}"), terms)
        self.listen(CheckStarted(check.name, planned.requests))
        self._running = check.name
        asked, began = target.requests, time.monotonic()
        evidence: object = None
        try:
            probe.begin(check.name, terms)
            evidence = check.collect(probe)
            record.write_evidence(target.record, check.name, terms, evidence)
            judgement = check.judge(evidence, terms)
        except KeyboardInterrupt:
            self.stopped, self._interrupted = "interrupted", True
            judgement = Judgement(Verdict.INCONCLUSIVE, "interrupted before it was finished")
        except Exception as error:  # the runner's one place where trouble becomes data
            judgement = self._troubled(error)
        return Outcome(check.name, judgement, terms, evidence, target.requests - asked, time.monotonic() - began)

    def _settled(self, check: AnyCheck, collected: record.Collected, target: Target) -> Outcome:
        """Judged again from what the earlier audit collected; nothing is asked."""
        evidence: object = None
        try:
            evidence = codec.from_json(check.evidence, collected.evidence)
            record.write_evidence(target.record, check.name, collected.terms, evidence)
            judgement = check.judge(evidence, collected.terms)
        except Exception as error:  # as in an audit: trouble becomes data
            judgement = self._troubled(error)
        return Outcome(check.name, judgement, collected.terms, evidence)

    def _answered(self) -> None:
        self.listen(Progressed(self._running, self.elapsed_s))

    def _troubled(self, error: Exception) -> Judgement:
        match error:
            case BudgetSpent():
                self.stopped = error.message
                return Judgement(Verdict.INCONCLUSIVE, error.message, missing=error.remedy)
            case TargetError():
                if isinstance(error, Unreachable):
                    self._unreachable += 1
                    if self._unreachable > 1:
                        self.stopped = "the server cannot be reached any more"
                seen = () if error.exchange is None else (error.exchange,)
                finding = Finding("NO_ANSWER", error.message, seen)
                missing = f"an answer of the server. {error.remedy}".strip()
                return Judgement(Verdict.INCONCLUSIVE, error.message, findings=(finding,), missing=missing)
            case EvidenceError():
                self.stopped = error.message
                return Judgement(Verdict.INCONCLUSIVE, error.message, missing=error.remedy)
            case DraftproofError():
                return Judgement(Verdict.ERROR, error.message, missing=error.remedy)
            case _:
                return Judgement(Verdict.ERROR, f"the check itself broke: {type(error).__name__}: {error}")

    def _save(self, target: Target, outcome: Outcome) -> None:
        try:
            record.write_judgement(target.record, outcome)
        except EvidenceError as error:
            self.stopped = self.stopped or error.message

    def _finish(self, controls: Controls, facts: Facts, plan: Plan, target: Target) -> Report:
        self.limits = limits(facts, self._observed(target), self.config.effort)
        report = self._report(controls, facts, plan, target)
        try:
            record.write_limits(target.record, self.limits)
            record.write_final(target.record, report)
            target.close()
        except EvidenceError as error:
            self.stopped = self.stopped or error.message
            report = self._report(controls, facts, plan, target)
        self.listen(AuditFinished(report))
        return report

    def _observed(self, target: Target) -> Observed:
        """What the answers showed; nothing where the server is gone, or nothing more may be asked."""
        if self.stopped == DRY_RUN or self._interrupted:
            return Observed()
        try:
            return target.observed()
        except DraftproofError:
            return Observed()

    def _exit_code(self, verdicts: Iterable[Verdict], *, stale: bool) -> int:
        return exit_code(verdicts, unreachable=self._unreachable > 1, interrupted=self._interrupted, stale=stale)

    def _report(self, controls: Controls, facts: Facts, plan: Plan, target: Target) -> Report:
        notes = contradictions(self.config.expect_speculation, self.outcomes)
        weighed = self.baseline.weigh(self.outcomes)
        undecided = bool(self.stopped) or any(limit.mixed for limit in self.limits)
        more = [Verdict.FAIL] * len(notes) + [Verdict.INCONCLUSIVE] * undecided
        code = self._exit_code([*weighed.verdicts, *more], stale=bool(weighed.stale))
        return Report(
            config=self.config,
            version=__version__,
            started_at=self._started_at,
            controls=controls.total,
            facts=facts,
            plan=plan,
            outcomes=tuple(self.outcomes),
            verdict=merge([*(o.judgement.verdict for o in self.outcomes), *more]),
            exit_code=SOUND if self.stopped == DRY_RUN else code,
            safety=safe_to_use(self.every, self.outcomes),
            remedies=what_to_do(self.every, self.outcomes, facts),
            aggregates=aggregates(self.outcomes),
            requests=target.requests,
            elapsed_s=self.elapsed_s,
            evidence_path=target.evidence_path,
            stopped=self.stopped,
            notes=(*notes, *weighed.expired, *weighed.stale, *target.notes),
            accepted=weighed.accepted,
            limits=self.limits,
            continues=self.continues,
        )


DRY_RUN = "a dry run: nothing was checked"


def _with_declaration(facts: Facts, expected: Expectation) -> Facts:
    """What the caller knows counts like a report of the server itself."""
    if expected is Expectation.UNKNOWN:
        return facts
    declared = (DECLARED, expected is Expectation.YES)
    return replace(facts, self_reports=(*facts.self_reports, declared))
