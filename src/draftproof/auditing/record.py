"""The evidence file of an audit: which records it holds, written as the audit goes and read back for a second judgement.

One record per line, a JSON object with its `kind`: `header` (what was asked), `exchange` (every request and answer), `earlier`
(which of them an earlier audit had, that this one goes on from), `facts`,
`plan`, then for every check `evidence` (what its judge saw) and `judgement`, at the end `limits` and `final`. A reader skips kinds
that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from draftproof.auditing import codec
from draftproof.auditing.config import AuditConfig
from draftproof.auditing.limits import Limit
from draftproof.auditing.outcome import Outcome, Report
from draftproof.auditing.plan import Plan
from draftproof.core.facts import Facts
from draftproof.core.terms import Terms

FORMAT = "draftproof-evidence"
VERSION = 1

Write: TypeAlias = Callable[[str, Any], None]
"""Takes a record's kind and its data (plain JSON)."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first record. `checks` are the names of all that were chosen, in order; `continues` the files of the audits that this one
    goes on from, the first one first.
    """

    format: str
    version: int
    draftproof: str
    started_at: str
    controls: int
    checks: tuple[str, ...]
    config: AuditConfig
    continues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Collected:
    """One check's evidence (as JSON) with the terms it was judged at."""

    check: str
    terms: Terms
    evidence: Any


@dataclass(frozen=True, slots=True)
class Ending:
    """The last record: an audit without it did not come to an end."""

    verdict: str
    exit_code: int
    requests: int
    elapsed_s: float
    stopped: str


def write_header(write: Write, header: Header) -> None:
    write("header", codec.to_json(header))


def write_earlier(write: Write, path: Path, exchanges: Mapping[str, Sequence[int]]) -> None:
    """The exchanges of an earlier audit, written before, by the check that they were for."""
    write("earlier", {"path": str(path), "exchanges": {check: list(numbers) for check, numbers in exchanges.items()}})


def write_facts(write: Write, facts: Facts) -> None:
    write("facts", codec.to_json(facts))


def write_plan(write: Write, plan: Plan) -> None:
    write("plan", codec.to_json(plan))


def write_evidence(write: Write, check: str, terms: Terms, evidence: object) -> None:
    write("evidence", codec.to_json(Collected(check, terms, evidence)))


def write_judgement(write: Write, outcome: Outcome) -> None:
    write("judgement", codec.to_json(replace(outcome, evidence=None)))


def write_limits(write: Write, limits: Sequence[Limit]) -> None:
    write("limits", {"limits": codec.to_json(tuple(limits))})


def write_final(write: Write, report: Report) -> None:
    final = Ending(report.verdict, report.exit_code, report.requests, report.elapsed_s, report.stopped)
    write("final", codec.to_json(final))
