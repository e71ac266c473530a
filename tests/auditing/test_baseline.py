from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from tests.fakes import FAULTY, NOT_APPLICABLE, SOUND, UNDECIDED, URL, FakeTarget, Seen, judge_zeros

from draftproof.auditing import AuditConfig, Baseline, Expectation, Report, all_checks, all_comparisons, audit
from draftproof.auditing.baseline import read_baseline
from draftproof.auditing.outcome import UNDECIDED as OPEN
from draftproof.auditing.outcome import Accepted, Answer
from draftproof.auditing.rejudge import rejudge
from draftproof.checks.check import AnyCheck
from draftproof.core.errors import UsageError
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

TODAY = date(2027, 1, 15)
KNOWN = Accepted("logprobs/faulty", "PLACEHOLDER", "llama.cpp b11434")
NAMES = ["logprobs/sound", "logprobs/faulty", "sampling/undecided"]


def run(
    *entries: Accepted, checks: tuple[AnyCheck, ...] = (SOUND, FAULTY), config: AuditConfig | None = None
) -> Report:
    return audit(
        config or AuditConfig(URL, seed=1),
        checks=checks,
        open_target=FakeTarget().open,
        baseline=Baseline(entries, TODAY),
    )


def test_accepted_finding_does_not_fail_the_audit_and_is_a_fault_all_the_same() -> None:
    report = run(KNOWN)
    assert (report.verdict, report.exit_code) == (Verdict.FAIL, 0)
    assert report.accepted == (KNOWN,)
    assert report.exit_meaning == "no fault beyond those that are accepted"
    assert next(row for row in report.safety if row.what == "logprobs after it").answer is Answer.NO
    assert report.remedies == ("the remedy of logprobs/faulty",)
    assert not report.counts(report.outcomes[1])


def test_without_a_baseline_nothing_is_accepted() -> None:
    assert (run().exit_code, run().accepted) == (1, ())


def test_another_finding_of_the_same_check_still_fails() -> None:
    report = run(Accepted("logprobs/faulty", "MISSING"))
    assert report.exit_code == 1
    assert report.accepted == ()


@pytest.mark.parametrize(
    ("check", "checks"), [("logprobs/sound", (SOUND,)), ("self_report/absent", (SOUND, NOT_APPLICABLE))]
)
def test_stale_entry_is_an_error_that_names_it(check: str, checks: tuple[AnyCheck, ...]) -> None:
    report = run(Accepted(check, "PLACEHOLDER"), checks=checks)
    assert report.exit_code == 2
    assert f"{check} PLACEHOLDER is accepted, but not found any more" in report.notes[0]


def test_stale_entry_stays_red_where_something_is_undecided() -> None:
    assert run(Accepted("logprobs/sound", "MISSING"), checks=(SOUND, UNDECIDED)).exit_code == 2


def test_what_was_not_decided_or_not_run_makes_no_entry_stale() -> None:
    undecided, elsewhere = Accepted("sampling/undecided", "BIASED"), Accepted("logprobs/units", "HOT")
    report = run(undecided, elsewhere, checks=(SOUND, UNDECIDED))
    assert (report.exit_code, report.notes) == (3, ())


@pytest.mark.parametrize(("last", "code"), [(TODAY, 0), (date(2027, 1, 14), 1)])
def test_entry_counts_up_to_and_on_its_last_day(last: date, code: int) -> None:
    report = run(Accepted("logprobs/faulty", "PLACEHOLDER", expires=last))
    assert report.exit_code == code
    expected = () if code == 0 else ("accepted until 2027-01-14 only, and still found: logprobs/faulty PLACEHOLDER",)
    assert report.notes == expected


def test_contradiction_of_what_the_caller_said_is_accepted_by_no_baseline() -> None:
    def judge(evidence: Seen, terms: Terms) -> Judgement:
        return replace(judge_zeros(evidence, terms), measured={"speculation": "on"})

    config = AuditConfig(URL, seed=1, expect_speculation=Expectation.NO)
    assert run(KNOWN, config=config).exit_code == 0
    assert run(KNOWN, checks=(replace(FAULTY, judge=judge),), config=config).exit_code == 1


def test_rejudging_takes_the_baseline_too(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    run(config=AuditConfig(URL, seed=1, out=path))
    report = rejudge(path, (SOUND, FAULTY), Baseline((KNOWN,), TODAY)).report
    assert (report.exit_code, report.accepted) == (0, (KNOWN,))


def test_every_failing_control_has_a_finding_that_can_be_accepted() -> None:
    bare = [
        (check.name, example.name)
        for check in (*all_checks(), *all_comparisons())
        for example in check.examples
        if example.verdict is Verdict.FAIL and not example.codes
    ]
    assert bare == []


def test_written_baseline_reads_back(tmp_path: Path) -> None:
    reason = 'a "quoted" \\ reason\nof two lines \x7f \N{GRINNING FACE}'
    entries = (Accepted("logprobs/faulty", "PLACEHOLDER", reason, TODAY), Accepted("logprobs/sound", "MISSING"))
    path = tmp_path / "baseline.toml"
    path.write_text(Baseline(entries).toml(), encoding="utf-8")
    assert read_baseline(path, NAMES).entries == entries


def test_update_keeps_reasons_and_what_was_not_decided_and_drops_what_is_stale() -> None:
    undecided = Accepted("sampling/undecided", "BIASED", "seen once")
    old = Baseline((KNOWN, Accepted("logprobs/sound", "MISSING"), undecided), TODAY)
    report = run(checks=(SOUND, FAULTY, UNDECIDED))
    still_open = Accepted("sampling/undecided", OPEN)
    assert old.updated(report.outcomes).entries == (KNOWN, still_open, undecided)
    assert old.updated(report.outcomes).updated(report.outcomes).entries == (KNOWN, still_open, undecided)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accepted = ", "is no TOML"),
        ("\x00", "is no TOML"),
        ("[accepted]\ncheck = 'x'", "is no list of entries"),
        ("accept = 1", "holds 'accept'"),
        ("[[accepted]]\ncheck = 'logprobs/faulty'", "entry 1: check and code must be there"),
        ("[[accepted]]\ncheck = 'logprobs/faulty'\ncode = 3", "must be there"),
        ("[[accepted]]\ncheck = 'logprobs/faulty'\ncode = 'X'\nuntil = 2027-01-01", "until is not known"),
        ("[[accepted]]\ncheck = 'logprobs/faulty'\ncode = 'X'\nexpires = 'soon'", "'soon' is no date"),
        ("[[accepted]]\ncheck = 'logprobs/faulty'\ncode = 'X'\nexpires = 2027-01-01T00:00:00", "is no date"),
        ("[[accepted]]\ncheck = 'logprobs/fulty'\ncode = 'X'", "Did you mean logprobs/faulty"),
        ("[[accepted]]\ncheck = 'logprobs/faulty'\ncode = 'X'\n" * 2, "twice"),
    ],
)
def test_file_that_is_no_baseline_is_wrong_usage(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "b.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_baseline(path, NAMES)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_file_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_baseline(tmp_path / "none.toml", NAMES)


def test_what_a_check_leaves_open_may_be_accepted_and_is_never_stale() -> None:
    """A fault that is accepted may keep another check from deciding."""
    entry = Accepted("sampling/undecided", OPEN)
    opened = run(checks=(SOUND, UNDECIDED)).outcomes
    assert Baseline((), TODAY).weigh(opened).verdicts == (Verdict.PASS, Verdict.INCONCLUSIVE)
    weighed = Baseline((entry,), TODAY).weigh(opened)
    assert weighed.verdicts == (Verdict.PASS, Verdict.PASS)
    assert weighed.accepted == (entry,)
    decided = Baseline((Accepted("logprobs/sound", OPEN),), TODAY).weigh(opened)
    assert (decided.accepted, decided.stale) == ((), ())
