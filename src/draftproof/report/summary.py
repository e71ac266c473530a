"""What the verdicts of an audit mean, for a person: the end of the report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from draftproof.auditing.outcome import EXIT_CODES, Accepted, Answer, Report
from draftproof.core.probe import Effort
from draftproof.core.verdict import Cell, Table, Verdict
from draftproof.report.page import Page

_NEXT = {Effort.QUICK: " --effort standard", Effort.STANDARD: " --effort deep"}
_ANSWERS = {Answer.YES: "green", Answer.NO: "bold red", Answer.UNKNOWN: "yellow"}
_LARGE = 3_000_000
"""An evidence file of so many bytes is worth a word."""
_REASON = 100
"""Characters of a reason where lines do not end."""


def write_summary(page: Page, report: Report, verbosity: int = 0) -> None:
    """What the verdicts mean: aggregates, limits, what is safe, what to do, and the exit code in words.

    What matters most comes last, where a terminal shows it.
    """
    if verbosity >= 0 and report.outcomes:
        _tables(page, report, verbosity)
        if report.aggregates:
            page.blank()
            _aggregates(page, report.aggregates, verbosity)
        if report.safety or report.limits:
            page.blank()
        _list(page, "Limits of this audit", [f"{limit.what}: {limit.effect}" for limit in report.limits])
    for accepted in report.accepted if verbosity >= 0 else ():
        page.line(("accepted", "yellow"), f": {told_of(accepted)}", hang=4)
    for note in report.notes:
        page.line(note)
    if report.continues:
        page.line(continuation(report))
    if verbosity >= 0 and report.outcomes:
        _safety(page, report)
        _list(page, "What to do", report.remedies)
        page.blank()
    if report.stopped:
        page.line(("stopped early", "bold yellow"), f": {report.stopped}")
    _last_line(page, report)


def _safety(page: Page, report: Report) -> None:
    """A line per row: the answer, and what it rests on, as far as it fits."""
    # After a choice of checks, the rows that none of them speaks to would only repeat that they were not run.
    rows = [row for row in report.safety if not report.config.checks or row.touched] or report.safety
    if rows:
        page.line("Safe to use?")
    width = max((len(row.what) for row in rows), default=0)
    for row in rows:
        lead = f"  {row.what.ljust(width)}  "
        answer = row.answer.ljust(7)
        reason = row.brief(page.width - len(lead) - len(answer) - 2 if page.wraps else _REASON)
        parts = lead, (answer, _ANSWERS[row.answer]), f"  {reason}"
        (page.line if len(lead + answer + reason) + 2 > page.width else page.short)(*parts)


def _aggregates(page: Page, table: Table, verbosity: int) -> None:
    """The table, or a sentence where the server reports what is true."""
    if verbosity <= 0 and table.rows and all(_shown(row[2]) == _shown(row[3]) for row in table.rows):
        names = ", ".join(dict.fromkeys(str(row[0]) for row in table.rows))
        page.line(f"The same as reported and in one-token answers: {names}")
    else:
        page.table(table, indent=0)


def _shown(cell: Cell) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _list(page: Page, title: str, lines: Sequence[str]) -> None:
    if lines:
        page.line(title)
    for line in lines:
        page.line(f"- {line}", indent=2, hang=4)


def continuation(report: Report) -> str:
    """Which audits a resumed one goes on from, and how often all of them together fail a sound server."""
    odds = report.config.alpha * (2 - 0.5 ** len(report.continues))
    return (
        f"continues {', '.join(report.continues)}: the samples of all audits count together. Each further look could be wrong "
        f"too, so its bar is higher: all of them together fail a sound server in at most 1 of {1 / odds:,.0f} cases"
    )


def told_of(accepted: Accepted) -> str:
    """An accepted finding in words: which, until when, why."""
    until = f" until {accepted.expires}" if accepted.expires else ""
    return f"{accepted.name}{until}" + (f": {accepted.reason}" if accepted.reason else "")


def _tables(page: Page, report: Report, verbosity: int) -> None:
    """All tables when verbose; those of sampling checks, counts beside the law, when samples were asked for."""
    for outcome in report.outcomes:
        sampled = report.config.samples is not None and outcome.terms.alpha > 0
        for table in outcome.judgement.tables if verbosity > 0 or sampled else ():
            page.blank()
            page.table(table)


def _last_line(page: Page, report: Report) -> None:
    style = "bold green" if report.exit_code == 0 else "bold red" if report.exit_code == 1 else "bold yellow"
    parts = [
        f" ({report.exit_meaning or EXIT_CODES[report.exit_code]})",
        f"{report.requests} requests",
        f"{report.elapsed_s:.1f} s",
    ]
    worst = [o.check for o in report.outcomes if o.judgement.verdict is Verdict.FAIL]
    hints = []
    if report.evidence_path:
        parts.append(f"evidence in {report.evidence_path}{_size(report.evidence_path)}")
        hints.append(f"draftproof rejudge {shlex.quote(str(report.evidence_path))}")
    if worst:
        hints.append(f"draftproof explain {worst[0]}")
    more = any(o.judgement.more for o in report.outcomes)
    if report.evidence_path and (report.stopped or more) and report.facts.url:
        effort = _NEXT.get(report.config.effort, "") if more else ""
        hints.append(f"draftproof check {report.facts.url} --resume {shlex.quote(str(report.evidence_path))}{effort}")
    page.line((f"exit {report.exit_code}", style), " · ".join(parts), hang=2)
    for hint in hints if report.outcomes else ():
        page.line(hint, indent=2)


def _size(path: Path) -> str:
    try:
        size = path.stat().st_size
    except OSError:
        return ""
    return f" ({size / 1e6:.0f} MB)" if size >= _LARGE else ""
