"""The report for programs: strict JSON in a shape that stays as it is for as long as `version` is 1.

The dataclasses here are copies on purpose: what changes inside draftproof must not change what others parse.
`docs/json-report.md` explains the fields, `docs/json-report.schema.json` is `schema()`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter

from draftproof.auditing import codec
from draftproof.auditing.outcome import EXIT_CODES, Accepted, Outcome, Report
from draftproof.core.errors import DraftproofError
from draftproof.core.facts import Facts
from draftproof.core.verdict import Judgement, Table

Number: TypeAlias = float | Literal["Infinity", "-Infinity", "NaN"]
Cell: TypeAlias = int | float | str | None
VerdictName: TypeAlias = Literal["not_applicable", "pass", "inconclusive", "fail", "error"]


@dataclass(frozen=True, slots=True)
class ErrorV1:
    """Why there is no audit to report: what happened, and what to do about it."""

    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class SelfReportV1:
    """What the server said of its speculation before any request."""

    where: str
    said: Cell


@dataclass(frozen=True, slots=True)
class ServerV1:
    url: str
    dialect: str
    build: str | None
    model: str | None
    vocabulary: int | None
    self_reports: tuple[SelfReportV1, ...]
    countable: str


@dataclass(frozen=True, slots=True)
class FindingV1:
    """`exchanges` are numbers of requests in the evidence file."""

    code: str
    text: str
    exchanges: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StatementV1:
    """A statistical statement, and the probability that such a statement is wrong."""

    text: str
    n: int
    method: str
    error_probability: Number
    values: dict[str, Number]


@dataclass(frozen=True, slots=True)
class TableV1:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class CheckV1:
    """One check. `evidence` is what its judge saw, in the check's own shape; null when collecting it did not end."""

    name: str
    verdict: VerdictName
    summary: str
    missing: str
    findings: tuple[FindingV1, ...]
    statements: tuple[StatementV1, ...]
    measured: dict[str, Cell]
    tables: tuple[TableV1, ...]
    alpha: float
    requests: int
    elapsed_s: float
    evidence: Any
    more_samples: int = 0
    more_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SafetyV1:
    what: str
    answer: Literal["yes", "no", "unknown"]
    reason: str


@dataclass(frozen=True, slots=True)
class LimitV1:
    what: str
    effect: str


@dataclass(frozen=True, slots=True)
class PlannedV1:
    check: str
    requests: int
    not_applicable: str


@dataclass(frozen=True, slots=True)
class AcceptedV1:
    """A finding of the baseline that was found: it does not count for the exit code. `expires` is a date, or null."""

    check: str
    code: str
    reason: str
    expires: str | None


@dataclass(frozen=True, slots=True)
class ReportV1:
    """The whole document. `error` is null unless the audit could not be made; then the rest is as empty as it must be."""

    verdict: VerdictName
    exit_code: int
    exit_meaning: str
    draftproof: str
    error: ErrorV1 | None = None
    started_at: str = ""
    elapsed_s: float = 0.0
    requests: int = 0
    effort: str = ""
    alpha: float = 0.0
    seed: int | None = None
    controls: int = 0
    stopped: str = ""
    evidence_file: str | None = None
    server: ServerV1 | None = None
    plan: tuple[PlannedV1, ...] = ()
    checks: tuple[CheckV1, ...] = ()
    safe_to_use: tuple[SafetyV1, ...] = ()
    what_to_do: tuple[str, ...] = ()
    aggregates: TableV1 | None = None
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    accepted: tuple[AcceptedV1, ...] = ()
    limits: tuple[LimitV1, ...] = ()
    continues: tuple[str, ...] = ()
    format: Literal["draftproof-report"] = field(default="draftproof-report")
    version: Literal[1] = field(default=1)


def report_json(report: Report, differences: tuple[str, ...] = ()) -> str:
    """The document for an audit; `differences` are those of `rejudge`. Ends in a newline."""
    return _dumped(
        ReportV1(
            verdict=report.verdict.value,
            exit_code=report.exit_code,
            exit_meaning=report.exit_meaning,
            draftproof=report.version,
            started_at=report.started_at,
            elapsed_s=round(report.elapsed_s, 3),
            requests=report.requests,
            effort=report.config.effort.value,
            alpha=report.config.alpha,
            seed=report.config.seed,
            controls=report.controls,
            stopped=report.stopped,
            evidence_file=None if report.evidence_path is None else str(report.evidence_path),
            server=_server(report.facts),
            plan=tuple(PlannedV1(p.check, p.requests, p.not_applicable) for p in report.plan.checks),
            checks=tuple(map(_check, report.outcomes)),
            safe_to_use=tuple(SafetyV1(row.what, _ANSWERS[row.answer.value], row.reason) for row in report.safety),
            what_to_do=report.remedies,
            aggregates=None if report.aggregates is None else _table(report.aggregates),
            differences=differences,
            notes=report.notes,
            accepted=tuple(map(_accepted, report.accepted)),
            limits=tuple(LimitV1(limit.what, limit.effect) for limit in report.limits),
            continues=report.continues,
        )
    )


def error_json(error: DraftproofError, version: str) -> str:
    """The document for an audit that could not be made. Ends in a newline."""
    code = error.exit_code
    return _dumped(
        ReportV1(
            verdict="error",
            exit_code=code,
            exit_meaning=EXIT_CODES[code],
            draftproof=version,
            error=ErrorV1(error.message, error.remedy),
        )
    )


def schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    return TypeAdapter(ReportV1).json_schema()


_ANSWERS: dict[str, Literal["yes", "no", "unknown"]] = {"yes": "yes", "NO": "no", "unknown": "unknown"}


def _dumped(document: ReportV1) -> str:
    plain = codec.to_json(document)
    ordered = {"format": plain.pop("format"), "version": plain.pop("version"), **plain}
    return json.dumps(ordered, indent=1, allow_nan=False) + "\n"


def _server(facts: Facts) -> ServerV1:
    said = tuple(SelfReportV1(where, what) for where, what in facts.self_reports)
    return ServerV1(facts.url, facts.dialect, facts.build, facts.model, facts.vocabulary, said, facts.countable)


def _check(outcome: Outcome) -> CheckV1:
    judgement: Judgement = outcome.judgement
    return CheckV1(
        name=outcome.check,
        verdict=judgement.verdict.value,
        summary=judgement.summary,
        missing=judgement.missing,
        findings=tuple(FindingV1(f.code, f.text, f.exchanges) for f in judgement.findings),
        statements=tuple(
            StatementV1(s.text, s.n, s.method, s.error_probability, dict(s.values)) for s in judgement.statements
        ),
        measured=dict(judgement.measured),
        tables=tuple(map(_table, judgement.tables)),
        alpha=outcome.terms.alpha,
        requests=outcome.requests,
        elapsed_s=round(outcome.elapsed_s, 3),
        evidence=outcome.evidence,
        more_samples=judgement.more,
        more_seconds=outcome.more_s,
    )


def _accepted(entry: Accepted) -> AcceptedV1:
    return AcceptedV1(entry.check, entry.code, entry.reason, entry.expires.isoformat() if entry.expires else None)


def _table(table: Table) -> TableV1:
    return TableV1(table.title, table.columns, table.rows)
