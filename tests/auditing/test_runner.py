from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes import (
    FAULTY,
    NOT_APPLICABLE,
    SOUND,
    UNDECIDED,
    URL,
    FakeTarget,
    FullDisk,
    Seen,
    check,
    judge_zeros,
    raising,
    seeing,
)

from draftproof.auditing import Report, audit
from draftproof.auditing.config import AuditConfig, Expectation
from draftproof.auditing.events import (
    AuditFinished,
    AuditStarted,
    CheckFinished,
    CheckStarted,
    Event,
    FactsGathered,
    PlanMade,
    Progressed,
    SelfTestPassed,
)
from draftproof.auditing.outcome import exit_code
from draftproof.checks.check import AnyCheck, Example
from draftproof.checks.drafting import DECLARED
from draftproof.core.errors import (
    BudgetSpent,
    EvidenceError,
    EvidenceLost,
    InstrumentError,
    TargetError,
    Unreachable,
    UsageError,
)
from draftproof.core.probe import Effort, Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict


def run(checks: Sequence[AnyCheck], **changes: object) -> Report:
    target = FakeTarget()
    return audit(AuditConfig(URL, **changes), checks=checks, open_target=target.open)  # type: ignore[arg-type]


def verdicts(report: Report) -> list[Verdict]:
    return [o.judgement.verdict for o in report.outcomes]


@pytest.mark.parametrize(
    ("checks", "verdict", "code"),
    [
        ([SOUND, NOT_APPLICABLE], Verdict.PASS, 0),
        ([SOUND, FAULTY], Verdict.FAIL, 1),
        ([SOUND, UNDECIDED], Verdict.INCONCLUSIVE, 3),
        ([NOT_APPLICABLE], Verdict.INCONCLUSIVE, 3),
        ([SOUND, check("a/broken", raising(ZeroDivisionError("1/0")))], Verdict.ERROR, 70),
        ([FAULTY, check("a/broken", raising(ZeroDivisionError("1/0")))], Verdict.ERROR, 1),
        ([SOUND, check("a/silent", raising(TargetError("no body")))], Verdict.INCONCLUSIVE, 3),
    ],
)
def test_verdicts_merge_into_an_exit_code(checks: list[AnyCheck], verdict: Verdict, code: int) -> None:
    report = run(checks)
    assert (report.verdict, report.exit_code) == (verdict, code)


def test_nothing_checked_is_not_sound() -> None:
    assert exit_code([]) == 3
    assert exit_code([Verdict.NOT_APPLICABLE]) == 3


def test_events_come_in_order() -> None:
    events: list[Event] = []
    target = FakeTarget()
    audit(AuditConfig(URL), checks=[SOUND, NOT_APPLICABLE], open_target=target.open, listen=events.append)
    assert [type(e) for e in events] == [
        AuditStarted,
        SelfTestPassed,
        Progressed,
        FactsGathered,
        PlanMade,
        CheckStarted,
        Progressed,
        CheckFinished,
        CheckFinished,
        AuditFinished,
    ]
    progress = [e.check for e in events if isinstance(e, Progressed)]
    assert progress == ["", SOUND.name]


def test_no_request_is_sent_when_the_instrument_fails_its_own_test() -> None:
    target = FakeTarget()
    broken = replace(SOUND, examples=(Example("zeros", Seen((0.0,)), Verdict.PASS),))
    with pytest.raises(InstrumentError):
        audit(AuditConfig(URL), checks=[broken], open_target=target.open)
    assert not target.connected


def test_unknown_check_is_refused_before_the_first_request() -> None:
    target = FakeTarget()
    with pytest.raises(UsageError, match="'logprobs/sond'"):
        audit(AuditConfig(URL, checks=("logprobs/sond",)), checks=[SOUND], open_target=target.open)
    assert not target.connected


def test_dry_run_reads_facts_and_asks_no_check() -> None:
    target = FakeTarget()
    report = audit(AuditConfig(URL), checks=[SOUND, NOT_APPLICABLE], open_target=target.open, dry_run=True)
    assert report.outcomes == ()
    assert target.requests == 1
    assert [(p.check, p.requests, p.not_applicable) for p in report.plan.checks] == [
        (SOUND.name, 3, ""),
        (NOT_APPLICABLE.name, 0, "the server never claimed this"),
    ]


def test_trouble_in_one_check_does_not_stop_the_others() -> None:
    for error in (TargetError("nonsense"), Unreachable("gone"), RuntimeError("bug"), InstrumentError("bug")):
        assert verdicts(run([check("a/troubled", raising(error)), SOUND]))[1] is Verdict.PASS


def test_judge_that_breaks_is_an_error_and_never_a_pass() -> None:
    def judge(evidence: Seen, terms: object) -> object:
        if evidence.logprobs == (-0.5, -1.5):
            raise ValueError("unforeseen")
        return SOUND.judge(evidence, terms)  # type: ignore[arg-type]

    report = run([replace(SOUND, judge=judge)])  # type: ignore[arg-type]
    assert verdicts(report) == [Verdict.ERROR]
    assert "ValueError: unforeseen" in report.outcomes[0].judgement.summary


def test_second_time_unreachable_stops_the_audit() -> None:
    gone = [check(f"a/gone{i}", raising(Unreachable("connection refused"))) for i in range(2)]
    report = run([*gone, SOUND])
    assert verdicts(report) == [Verdict.INCONCLUSIVE] * 3
    assert report.exit_code == 4
    assert "not run" in report.outcomes[2].judgement.summary
    assert run([FAULTY, *gone]).exit_code == 1


def test_spent_budget_leaves_the_rest_inconclusive_with_the_reason() -> None:
    report = run([SOUND, check("a/dear", raising(BudgetSpent("the budget of 5 requests is spent"))), FAULTY])
    assert verdicts(report) == [Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE]
    assert "budget of 5 requests" in report.outcomes[2].judgement.summary
    assert report.exit_code == 3


def test_interrupt_reports_what_was_done_so_far() -> None:
    report = run([FAULTY, check("a/long", raising(KeyboardInterrupt())), SOUND])
    assert verdicts(report) == [Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE]
    assert report.exit_code == 130
    assert report.stopped == "interrupted"


def test_server_that_cannot_be_asked_at_all_is_raised() -> None:
    target = FakeTarget(trouble=Unreachable("nobody there"))
    with pytest.raises(Unreachable):
        audit(AuditConfig(URL), checks=[SOUND], open_target=target.open)


# header, facts, plan; then evidence and judgement of each check; then the end
@pytest.mark.parametrize(("room", "passed"), [(3, 0), (4, 1), (5, 1), (6, 2), (7, 2)])
def test_disk_that_fills_up_stops_the_audit_and_keeps_what_was_found(room: int, passed: int) -> None:
    target = FakeTarget(sink=FullDisk(room))
    report = audit(AuditConfig(URL), checks=[SOUND, replace(SOUND, name="a/b")], open_target=target.open)
    assert verdicts(report) == [Verdict.PASS] * passed + [Verdict.INCONCLUSIVE] * (2 - passed)
    assert (report.verdict, report.exit_code) == (Verdict.INCONCLUSIVE, 3)
    assert "No space left" in report.stopped


def test_fault_stays_found_when_the_disk_is_full() -> None:
    target = FakeTarget(sink=FullDisk(5))
    report = audit(AuditConfig(URL), checks=[FAULTY, SOUND], open_target=target.open)
    assert (verdicts(report), report.exit_code) == ([Verdict.FAIL, Verdict.INCONCLUSIVE], 1)


def test_disk_that_is_full_from_the_start_stops_before_the_first_request() -> None:
    target = FakeTarget()
    with pytest.raises(EvidenceError, match="/dev/full"):
        audit(AuditConfig(URL, out=Path("/dev/full")), checks=[SOUND], open_target=target.open)
    assert not target.connected


@pytest.mark.parametrize("room", [1, 2])
def test_disk_that_is_full_before_the_plan_leaves_nothing_to_report(room: int) -> None:
    target = FakeTarget(sink=FullDisk(room))
    with pytest.raises(EvidenceLost, match="No space left") as caught:
        audit(AuditConfig(URL), checks=[SOUND], open_target=target.open)
    assert caught.value.exit_code == 3


def test_alpha_is_shared_by_the_statistical_checks() -> None:
    statistical = [check(f"sampling/{n}", seeing(-1.0, -2.0), statistical=True) for n in "ab"]
    report = run([SOUND, *statistical], alpha=1e-4)
    assert [o.terms.alpha for o in report.outcomes] == pytest.approx([0.0, 5e-5, 5e-5])


def test_a_check_collects_for_the_terms_that_it_is_judged_at() -> None:
    told: list[Terms] = []

    def collect(probe: Probe) -> Seen:
        told.append(probe.terms)
        return Seen((-1.0,))

    one, other = (
        check(f"sampling/{n}", collect, statistical=statistical) for n, statistical in (("a", True), ("b", False))
    )
    assert told == [o.terms for o in run([one, other], alpha=1e-4, effort=Effort.DEEP).outcomes]
    assert told[0] == Terms(1e-4, 0.015)


@pytest.mark.parametrize(("effort", "target"), [("quick", 0.15), ("standard", 0.05), ("deep", 0.015)])
def test_effort_sets_what_a_pass_must_exclude(effort: str, target: float) -> None:
    assert run([SOUND], effort=Effort(effort)).outcomes[0].terms.target_tv == target


def test_seed_is_drawn_when_none_is_given_and_told() -> None:
    seeds = {run([SOUND]).config.seed for _ in range(3)}
    assert None not in seeds
    assert len(seeds) > 1
    assert run([SOUND], seed=7).config.seed == 7


@pytest.mark.parametrize(("expected", "told"), [("yes", (True,)), ("no", (False,)), ("unknown", ())])
def test_what_the_caller_knows_counts_like_a_report_of_the_server(expected: str, told: tuple[bool, ...]) -> None:
    report = run([SOUND], expect_speculation=Expectation(expected))
    assert tuple(what for where, what in report.facts.self_reports if where == DECLARED) == told


@pytest.mark.parametrize(("expected", "code"), [("no", 1), ("yes", 0), ("unknown", 0)])
def test_server_that_speculates_against_the_callers_word_is_not_sound(expected: str, code: int) -> None:
    def judge(evidence: Seen, terms: Terms) -> Judgement:
        return replace(judge_zeros(evidence, terms), measured={"speculation": "on"})

    report = run([replace(SOUND, judge=judge)], expect_speculation=Expectation(expected))
    assert report.exit_code == code
    assert len(report.notes) == code
