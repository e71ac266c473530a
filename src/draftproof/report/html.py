"""The report for a browser: one file that needs no network and runs no script. Needs the extra `html`.

Whatever a server said is text here: escaped by the template, what is invisible written out, directions isolated.
"""

from __future__ import annotations

from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from draftproof.auditing import all_checks, all_comparisons
from draftproof.auditing.outcome import EXIT_CODES, Outcome, Report
from draftproof.core.errors import DraftproofError
from draftproof.core.verdict import Cell, Table, Verdict
from draftproof.report.clean import LONGEST, clean
from draftproof.report.links import check_url, finding_url
from draftproof.report.plots import plots
from draftproof.report.plots.figure import Plot
from draftproof.report.summary import continuation, told_of

VERDICTS: Mapping[Verdict, tuple[str, str]] = {
    Verdict.PASS: ("pass", "✓"),
    Verdict.FAIL: ("FAIL", "✗"),
    Verdict.INCONCLUSIVE: ("inconclusive", "?"),
    Verdict.ERROR: ("ERROR", "!"),
    Verdict.NOT_APPLICABLE: ("not applicable", "○"),
}
"""The word and the sign of each: colour alone says nothing."""

MOST_ROWS, MOST_FINDINGS, MOST_EXCHANGES = 200, 100, 12


def report_html(report: Report, differences: tuple[str, ...] = ()) -> str:
    """The page for an audit; `differences` are those of `rejudge`. Ends in a newline."""
    drawn = plots(report)
    by_check: dict[str, list[Plot]] = {}
    for plot in drawn:
        by_check.setdefault(plot.check, []).append(plot)
    return _page(
        "report.html.j2",
        report=report,
        differences=differences,
        about={c.name: c for c in (*all_checks(), *all_comparisons())},
        claims={planned.check: planned.claim for planned in report.plan.checks},
        plots=by_check,
        tally=_tally(report),
    )


def error_html(error: DraftproofError, version: str) -> str:
    """The page for an audit that could not be made. Ends in a newline."""
    return _page("error.html.j2", error=error, meaning=EXIT_CODES[error.exit_code], version=version)


def _page(template: str, **values: object) -> str:
    environment = Environment(
        loader=PackageLoader("draftproof.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        said=said,
        cell=cell,
        odds=odds,
        anchor=anchor,
        accepted=told_of,
        continued=continuation,
        drawing=lambda plot: Markup(plot.svg),  # noqa: S704
    )
    environment.globals.update(
        verdicts=VERDICTS,
        capped=capped,
        sound=EXIT_CODES[0],
        check_url=check_url,
        finding_url=finding_url,
        most=MOST_EXCHANGES,
    )
    page = environment.get_template(template).render(**values)
    # Half a surrogate pair, as a server may send it in JSON, is no character of any encoding; `clean` has written out all others.
    return page.encode("utf-8", "replace").decode("utf-8")


def said(text: object, longest: int = LONGEST) -> Markup:
    """Text from anywhere: nothing in it is markup, invisible, or turns the direction of what stands around it."""
    return Markup("<bdi>{}</bdi>").format(escape(clean(str(text), longest)))


def cell(value: Cell) -> Markup:
    """A number in four digits, or a text."""
    if value is None:
        return Markup("&ndash;")
    return escape(f"{value:.4g}") if isinstance(value, float) else said(value)


def odds(error_probability: float) -> str:
    """How often a statement is wrong, in words."""
    return "certain" if error_probability == 0 else f"{error_probability:.1g}"


def anchor(check: str) -> str:
    """The id of a check's section."""
    return "check-" + "".join(c if c.isascii() and c.isalnum() else "-" for c in check)


def capped(table: Table) -> tuple[tuple[tuple[Cell, ...], ...], int]:
    """The first rows of a table, and how many more there are."""
    return table.rows[:MOST_ROWS], max(0, len(table.rows) - MOST_ROWS)


def _tally(report: Report) -> list[tuple[Verdict, list[Outcome]]]:
    """The verdicts that came, the worst first, with their checks."""
    order = (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.NOT_APPLICABLE)
    groups = [(verdict, [o for o in report.outcomes if o.judgement.verdict is verdict]) for verdict in order]
    return [(verdict, outcomes) for verdict, outcomes in groups if outcomes]
