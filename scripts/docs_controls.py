"""Blocks of the documentation on liars: what was measured with them, and which public reports they stand for.

The measurements are those of docs/reference/controls.json, which `draftproof controls --json` writes; what must fail is what the
code says now, so that a result which no longer fits is told and not shown.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from draftproof.auditing import all_checks
from draftproof.cli.controls import alarms, caught
from draftproof.cli.matrix import Matrix, alone, from_document
from draftproof.liars import HONEST, LIARS, NOT_ALONE, liar
from draftproof.liars.liar import Liar

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "docs/reference/controls.json"
REPORTS = Path(__file__).parent / "reports.csv"
_AGAIN = "Run: draftproof controls --json docs/reference/controls.json --keep"


class Report(NamedTuple):
    """One public report that can be seen over HTTP. `kinds` are the project's numbers for ways to look for it.

    Either `check` and `liar` name who catches its kind and on whom (a liar, or a test with one that serves a real model), or
    `why_not` says why nobody does.
    """

    number: str
    report: str
    url: str
    kinds: str
    told: str
    check: str
    liar: str
    why_not: str


@cache
def reports() -> tuple[Report, ...]:
    """All of them."""
    with REPORTS.open(encoding="utf-8", newline="") as file:
        return tuple(Report(**row) for row in csv.DictReader(file))


@cache
def measured() -> Matrix:
    """The committed result. Raises KeyError when it says that something is wrong, or lacks what must have been tried: every
    check on every honest server, and on every liar those that must fail on it.
    """
    matrix = from_document(json.loads(RESULT.read_text(encoding="utf-8")))
    tried = {(run.liar, check) for run in matrix.runs for check in run.verdicts}
    every = [c.name for c in all_checks()]
    wanted = [(server.name, check) for server in HONEST for check in every]
    wanted += [(server.name, check) for server in LIARS for check in server.fails]
    missing = [pair for pair in wanted if pair not in tried]
    if missing or matrix.wrong():
        raise KeyError(f"{RESULT.name} lacks {missing}, and says that this is wrong: {matrix.wrong()}. {_AGAIN}")
    return matrix


def controls_block() -> str:
    """What each check caught and whom it accused."""
    lines = [
        "| check | caught | false alarms on honest servers | on other liars | caught by it alone |",
        "|---|---|---|---|---|",
    ]
    for p in measured().powers():
        by = ", ".join(map(_anchor, alone(p.check))) or NOT_ALONE[p.check]
        lines.append(f"| {_check(p.check)} | {caught(p.caught)} | {alarms(p.alarms)} | {alarms(p.strays)} | {by} |")
    return "\n".join(lines)


def extent_block() -> str:
    """How much was run."""
    matrix = measured()
    verdicts = sum(len(run.verdicts) for run in matrix.runs)
    return (
        f"{len(HONEST)} honest servers and {len(LIARS)} liars, {len(matrix.checks)} checks, {len(matrix.runs)} audits at effort "
        f"`{matrix.effort}`: {verdicts:,} verdicts, all as they must be. A check is tried on every honest server and on every "
        "liar that it must catch; where the counts are lower than the number of servers, the rest was not tried."
    )


def honest_block() -> str:
    return "\n".join(["| server | it ... | verdicts |", "|---|---|---|", *map(_honest, HONEST)])


def _honest(server: Liar) -> str:
    return f"| `{server.name}` | {server.story} | {_verdicts(server)} |"


def _verdicts(server: Liar) -> str:
    counts = Counter(str(v) for run in measured().runs if run.liar == server.name for v in run.verdicts.values())
    return ", ".join(f"{n} {verdict.replace('_', ' ')}" for verdict, n in sorted(counts.items()))


def liars_block() -> str:
    """One section for each."""
    return "\n".join(line for server in LIARS for line in _section(server))


def _section(server: Liar) -> Iterator[str]:
    yield from (f"### {server.name}", "", f"It {server.story} ([a report of the kind]({server.report})).", "")
    for check in server.fails:
        codes = sorted({c for run in measured().runs if run.liar == server.name for c in run.codes.get(check, ())})
        yield f"- {_check(check)} must fail, and said {', '.join(f'`{code}`' for code in codes)}."
    for check, why in server.may_fail.items():
        yield f"- {_check(check)} may fail: {why}."
    if server.uncaught:
        yield f"- No check fails: {server.uncaught}."
    yield ""


def _anchor(name: str) -> str:
    return f"[{name}](#{name})"


def _check(name: str) -> str:
    return f"[`{name}`](checks.md#{name.replace('/', '')})"


def reports_block() -> str:
    """Raises KeyError for a report that names a check or a liar that does not exist, or that does not fail on it."""
    caught_ = [
        f"| [{r.report}]({r.url}) | {r.told} | {_check(r.check)} | {_shown_on(r)} |" for r in reports() if r.check
    ]
    return "\n".join(["| report | what was seen | caught by | shown on |", "|---|---|---|---|", *caught_])


def _shown_on(r: Report) -> str:
    if r.liar.endswith(".py"):
        test = (ROOT / r.liar).read_text(encoding="utf-8")
        if r.check not in test or r.url not in test:
            raise KeyError(f"{REPORTS.name}: {r.liar} is not about {r.check} and {r.url}")
        return f"[a real model](../../{r.liar})"
    if r.check not in liar(r.liar).fails:
        raise KeyError(f"{REPORTS.name}: {r.check} does not fail on {r.liar} (report {r.number})")
    return f"[{r.liar}](controls.md#{r.liar})"


def uncovered_block() -> str:
    """Those that nobody catches, with the reason."""
    lines = ["| report | what was seen | why not |", "|---|---|---|"]
    lines += [f"| [{r.report}]({r.url}) | {r.told} | {r.why_not} |" for r in reports() if not r.check]
    return "\n".join(lines)


def coverage_block() -> str:
    """How many are covered."""
    covered = sum(bool(r.check) for r in reports())
    return f"Of {len(reports())} reports, the kinds of {covered} are caught; {len(reports()) - covered} are not."


BLOCKS = {
    "controls": controls_block,
    "coverage": coverage_block,
    "extent": extent_block,
    "honest": honest_block,
    "liars": liars_block,
    "reports": reports_block,
    "uncovered": uncovered_block,
}
