"""`draftproof explain [NAME]`: checks, codes of findings, terms."""

from __future__ import annotations

import difflib
import inspect
import sys

import click

from draftproof.auditing import all_checks, all_comparisons
from draftproof.auditing.config import select
from draftproof.auditing.selftest import run_controls
from draftproof.checks.check import AnyCheck
from draftproof.cli.output import settle_stdout
from draftproof.core.errors import UsageError
from draftproof.core.terms import Terms
from draftproof.report.meanings import meanings
from draftproof.report.page import Page
from draftproof.report.terminal import LABELS


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
def explain(names: tuple[str, ...]) -> int:
    """Say what a check claims, how it decides, what it cannot see and what to do when it fails; or what the code of a finding or a
    term means ("terms" for all terms). Without NAME: list all checks.
    """
    page = Page(sys.stdout)
    words = [name for name in names if _is_word(name)]
    for word in words:
        write_word(page, word)
    if words and len(words) == len(names):
        settle_stdout()
        return 0
    every = (*all_checks(), *all_comparisons())
    chosen = select(every, [name for name in names if name not in words])
    if names:
        for number, check in enumerate(chosen):
            if number or words:
                page.blank()
            write_check(page, check)
    else:
        width = max((len(c.name) for c in chosen), default=0)
        for check in chosen:
            page.entry("", check.name, check.claim, name_width=width, label_width=0)
        page.blank()
        page.line(
            "draftproof explain CODE tells what a finding means, draftproof explain terms the words: ", _terms(), hang=2
        )
    settle_stdout()
    return 0


TERMS = "terms"


def _terms() -> str:
    return ", ".join(meanings().terms)


def _is_word(name: str) -> bool:
    """Whether a name is the code of a finding, a word of a table, a term, or "terms".

    Raises UsageError for one that looks like a code and is none.
    """
    known = meanings()
    if name.lower() in {TERMS, "glossary", *(term.lower() for term in known.terms)}:
        return True
    codes = {**known.findings, **known.states}
    if name.isupper() and name not in codes:
        near = difflib.get_close_matches(name, codes, n=3, cutoff=0.5)
        raise UsageError(
            f"No finding has the code {name!r}.",
            f"Did you mean {' or '.join(near)}?" if near else "docs/reference/findings.md lists all.",
        )
    return name in codes


def write_word(page: Page, word: str) -> None:
    """What a code or a term means, and which checks say a code."""
    known = meanings()
    meaning = {**known.findings, **known.states}.get(word)
    if meaning is None:
        for term, text in known.terms.items():
            if word.lower() in {TERMS, "glossary", term.lower()}:
                page.line((f"{term}: ", "bold"), text, hang=2)
        return
    page.line((f"{word}: ", "bold"), meaning, hang=2)
    by = [c.name for c in (*all_checks(), *all_comparisons()) if any(word in e.codes for e in c.examples)]
    if by:
        page.line(f"said by {', '.join(by)}; draftproof explain {by[0]}", indent=2)


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
