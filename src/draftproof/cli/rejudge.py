"""`draftproof rejudge FILE`."""

from __future__ import annotations

from pathlib import Path

import click

from draftproof.auditing import all_checks, all_comparisons
from draftproof.auditing.rejudge import rejudge as judge_again
from draftproof.cli.output_options import Outputs, output_options
from draftproof.report.page import Page
from draftproof.report.terminal import write_report


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@output_options
def rejudge(file: Path, outputs: Outputs) -> int:
    """Judge the evidence in FILE again, offline, and say where the verdict differs from the recorded one.

    The exit code is that of the new verdict, as for `draftproof check`.
    """
    outputs.require_writable()
    checks = (*all_checks(), *all_comparisons())
    with outputs.telling_trouble():
        judged = judge_again(file, checks, outputs.baseline())
    page = Page(outputs.human_file)
    write_report(page, judged.report, outputs.verbosity)
    for difference in judged.differences:
        page.line(("differs", "bold yellow"), f": {difference}")
    if not judged.differences and outputs.verbosity >= 0:
        page.line("every verdict that was recorded comes out the same")
    return outputs.finish(judged.report, judged.differences)
