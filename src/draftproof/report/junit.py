"""The report for test runners and build servers: JUnit XML, one test case per check.

A test suite is red if and only if the exit code is not 0: `fail` is a failure, `inconclusive` and `error` are errors (a gate that
cannot see must not be green), `not_applicable` and accepted failures are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from draftproof.auditing.outcome import EXIT_CODES, FAULT, SOUND, Outcome, Report
from draftproof.core.errors import DraftproofError
from draftproof.core.verdict import Verdict
from draftproof.report.clean import clean
from draftproof.report.summary import told_of
from draftproof.report.terminal import finding_line

SUITE = "draftproof"


def report_junit(report: Report, differences: tuple[str, ...] = ()) -> str:
    """The document for an audit; `differences` are those of `rejudge`. Ends in a newline."""
    suite = TestSuite(SUITE)
    suite.timestamp = report.started_at
    for name, value in (*_properties(report), *(("differs", text) for text in differences)):
        suite.add_property(name, clean(value))
    for outcome in report.outcomes:
        suite.add_testcase(_case(outcome, report))
    if told := _of_the_audit(report):
        suite.add_testcase(_made(f"{SUITE}/audit", [told]))
    suite.update_statistics()
    suite.time = round(report.elapsed_s, 3)
    return _document(suite)


def error_junit(error: DraftproofError, version: str) -> str:
    """The document for an audit that could not be made. Ends in a newline."""
    suite = TestSuite(SUITE)
    suite.add_property("draftproof", version)
    told = Error(clean(error.message), EXIT_CODES[error.exit_code])
    told.text = clean(error.remedy)
    suite.add_testcase(_made(f"{SUITE}/audit", [told]))
    suite.update_statistics()
    return _document(suite)


def _document(suite: TestSuite) -> str:
    document = JUnitXml(SUITE)
    document.add_testsuite(suite)
    return f"{document.tostring().decode()}\n"


def _properties(report: Report) -> Iterator[tuple[str, str]]:
    yield "draftproof", report.version
    yield "url", report.facts.url
    yield "server", " ".join(filter(None, [report.facts.dialect, report.facts.build]))
    yield "model", report.facts.model or ""
    yield "effort", report.config.effort.value
    yield "alpha", f"{report.config.alpha:g}"
    yield "seed", str(report.config.seed)
    yield "exit code", f"{report.exit_code} ({report.exit_meaning})"
    if report.evidence_path is not None:
        yield "evidence", str(report.evidence_path)
    for row in report.safety:
        yield f"safe to use: {row.what}", f"{row.answer.value}: {row.reason}"


def _case(outcome: Outcome, report: Report) -> TestCase:
    case = _made(outcome.check, list(filter(None, [_result(outcome, report)])))
    case.time = round(outcome.elapsed_s, 3)
    case.system_out = clean(outcome.judgement.summary)
    return case


def _made(name: str, results: list[FinalResult]) -> TestCase:
    family, _, short = name.rpartition("/")
    case = TestCase(short, f"draftproof.{family}" if family != SUITE else SUITE)
    case.result = results
    return case


def _result(outcome: Outcome, report: Report) -> FinalResult | None:
    judgement = outcome.judgement
    summary = clean(judgement.summary)
    match judgement.verdict:
        case Verdict.PASS:
            return None
        case Verdict.NOT_APPLICABLE:
            return Skipped(summary, "not_applicable")
        case Verdict.FAIL | Verdict.INCONCLUSIVE if not report.counts(outcome):
            entries = [told_of(e) for e in report.accepted if e.check == outcome.check]
            return Skipped(clean(f"accepted: {'; '.join(entries)}"), "accepted")
        case Verdict.FAIL:
            result: FinalResult = Failure(summary, ", ".join(judgement.codes))
        case _:
            result = Error(summary, judgement.verdict.value)
    missing = [f"To decide: {judgement.missing}"] if judgement.missing else []
    result.text = "\n".join(map(clean, [*map(finding_line, judgement.findings), *missing]))
    return result


def _of_the_audit(report: Report) -> FinalResult | None:
    """What is wrong, but not of any one check: contradictions, stale entries, an audit that ended early."""
    if report.exit_code == SOUND or not (report.notes or report.stopped or not _is_red(report)):
        return None
    kind = Failure if report.exit_code == FAULT and report.notes else Error
    result = kind(clean(report.stopped or report.exit_meaning), f"exit code {report.exit_code}")
    result.text = "\n".join(map(clean, [*report.notes, *(f"{limit.what}: {limit.effect}" for limit in report.limits)]))
    return result


def _is_red(report: Report) -> bool:
    green = {Verdict.PASS, Verdict.NOT_APPLICABLE}
    return any(o.judgement.verdict not in green and report.counts(o) for o in report.outcomes)
