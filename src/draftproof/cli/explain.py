"""`draftproof explain [CHECK]`."""

from __future__ import annotations

import inspect
import sys

import click

from draftproof.auditing import all_checks, all_comparisons
from draftproof.auditing.config import select
from draftproof.auditing.selftest import run_controls
from draftproof.checks.check import AnyCheck, Terms
from draftproof.cli.output import settle_stdout
from draftproof.report.page import Page
from draftproof.report.terminal import LABELS


@click.command()
@click.argument("names", nargs=-1, metavar="[CHECK]...")
def explain(names: tuple[str, ...]) -> int:
    """Say what a check claims, how it decides, what it cannot see and what to do when it fails. Without CHECK: list all."""
    page = Page(sys.stdout)
    every = (*all_checks(), *all_comparisons())
    chosen = select(every, names)
    if names:
        for number, check in enumerate(chosen):
            if number:
                page.blank()
            write_check(page, check)
    else:
        width = max((len(c.name) for c in chosen), default=0)
        for check in chosen:
            page.entry("", check.name, check.claim, name_width=width, label_width=0)
    settle_stdout()
    return 0


def write_check(page: Page, check: AnyCheck) -> None:
    """All that is to be known of one check, its controls judged on the spot."""
    page.line((check.name, "bold"))
    for title, text in _paragraphs(check):
        page.line((f"{title}: ", "bold"), " ".join(text.split()), indent=2, hang=4)
    controls = run_controls([check], Terms())
    page.line(("controls: ", "bold"), f"{controls.right} of {controls.total} judged as they must be", indent=2)
    width = max((len(e.name) for e in check.examples), default=0)
    for example in check.examples:
        page.entry(LABELS[example.verdict], example.name, ", ".join(example.codes), name_width=width, label_width=14)
    for wrong in controls.wrong:
        page.line(("wrong: ", "bold red"), wrong, indent=4)


def _paragraphs(check: AnyCheck) -> list[tuple[str, str]]:
    module = inspect.getmodule(check.judge)
    odds = "statistical: it spends part of the audit's false-alarm probability (--alpha)"
    return [
        ("claim", check.claim),
        ("asks", inspect.getdoc(module) or ""),
        ("decides", inspect.getdoc(check.judge) or ""),
        ("odds", odds if check.statistical else "fails only on a contradiction: no false alarms by chance"),
        ("cannot see", check.blind_to),
        ("spoils", ", ".join(check.aspects) or "nothing by itself: it compares"),
        ("remedy", check.remedy),
    ]
