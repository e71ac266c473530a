"""`draftproof rejudge FILE`."""

from __future__ import annotations

from pathlib import Path

import click

from draftproof import __version__
from draftproof.audit import all_checks, all_comparisons
from draftproof.audit.rejudge import rejudge as judge_again
from draftproof.cli.output import human_file, require_writable, settle_stdout, write_json
from draftproof.core.errors import DraftproofError
from draftproof.report.json_report import error_json, report_json
from draftproof.report.page import Page
from draftproof.report.terminal import write_report


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "json_to", default=None, metavar="FILE", help="Write a JSON report too; - is standard output.")
@click.option("-q", "--quiet", is_flag=True, help="Faults and the last line only.")
@click.option("-v", "--verbose", is_flag=True, help="All findings, statements and tables.")
def rejudge(file: Path, json_to: str | None, quiet: bool, verbose: bool) -> int:
    """Judge the evidence in FILE again, offline, and say where the verdict differs from the recorded one.

    The exit code is that of the new verdict, as for `draftproof check`.
    """
    require_writable(json_to)
    try:
        judged = judge_again(file, (*all_checks(), *all_comparisons()))
    except DraftproofError as error:
        write_json(error_json(error, __version__), json_to)
        raise
    page = Page(human_file(json_to))
    write_report(page, judged.report, verbose - quiet)
    for difference in judged.differences:
        page.line(("differs", "bold yellow"), f": {difference}")
    if not judged.differences and not quiet:
        page.line("every verdict that was recorded comes out the same")
    written = write_json(report_json(judged.report, judged.differences), json_to)
    settle_stdout()
    return judged.report.exit_code or (0 if written else 3)
