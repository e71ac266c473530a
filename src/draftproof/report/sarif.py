"""The report for code scanning: SARIF 2.1.0 (OASIS). Rules are the checks, results their findings."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from draftproof.auditing import all_checks, all_comparisons
from draftproof.auditing.outcome import EXIT_CODES, Outcome, Report
from draftproof.checks.check import AnyCheck
from draftproof.core.errors import DraftproofError
from draftproof.core.verdict import Finding, Verdict
from draftproof.report.clean import clean
from draftproof.report.links import check_url

Json: TypeAlias = dict[str, Any]

VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "draftproofFinding/v1"

_NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?")
_KINDS = {
    Verdict.FAIL: ("fail", "error"),
    Verdict.INCONCLUSIVE: ("open", "none"),
    Verdict.NOT_APPLICABLE: ("notApplicable", "none"),
    Verdict.PASS: ("pass", "none"),
}
"""`kind` and `level`. SARIF wants the level "none" wherever the kind is not "fail"."""


def report_sarif(report: Report, differences: tuple[str, ...] = ()) -> str:
    """The document for an audit; `differences` are those of `rejudge`. Ends in a newline."""
    told = [
        _notification(o.judgement.summary, o.check) for o in report.outcomes if o.judgement.verdict is Verdict.ERROR
    ]
    told += [_notification(text, level="warning") for text in (*report.notes, *filter(None, [report.stopped]))]
    told += [_notification(text, level="note") for text in differences]
    told += [_notification(f"{limit.what}: {limit.effect}", level="note") for limit in report.limits]
    results = [result for n, outcome in enumerate(report.outcomes) for result in _results(report, outcome, n)]
    run = _run(report.version, _rules(report), results)
    run["invocations"] = [
        {
            "executionSuccessful": not report.stopped and not any(n["level"] == "error" for n in told),
            "exitCode": report.exit_code,
            "exitCodeDescription": report.exit_meaning,
            "startTimeUtc": report.started_at.replace("+00:00", "Z"),
            "toolExecutionNotifications": told,
        }
    ]
    run["properties"] = {
        "url": report.facts.url,
        "model": clean(report.facts.model or ""),
        "effort": report.config.effort.value,
        "alpha": report.config.alpha,
        "safeToUse": {row.what: row.answer.value for row in report.safety},
    }
    return _dumped(run)


def error_sarif(error: DraftproofError, version: str) -> str:
    """The document for an audit that could not be made. Ends in a newline."""
    run = _run(version, [], [])
    run["invocations"] = [
        {
            "executionSuccessful": False,
            "exitCode": error.exit_code,
            "exitCodeDescription": EXIT_CODES[error.exit_code],
            "toolExecutionNotifications": [_notification(str(error))],
        }
    ]
    return _dumped(run)


def _dumped(run: Json) -> str:
    return json.dumps({"$schema": SCHEMA, "version": VERSION, "runs": [run]}, indent=1, allow_nan=False) + "\n"


def _run(version: str, rules: list[Json], results: list[Json]) -> Json:
    driver = {"name": "draftproof", "version": version, "semanticVersion": version, "rules": rules}
    return {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}


def _notification(text: str, check: str = "", level: str = "error") -> Json:
    notification: Json = {"level": level, "message": {"text": clean(text)}}
    if check:
        notification["associatedRule"] = {"id": check}
    return notification


def _rules(report: Report) -> list[Json]:
    known = {c.name: c for c in (*all_checks(), *all_comparisons())}
    claims = {planned.check: planned.claim for planned in report.plan.checks}
    return [_rule(o.check, known.get(o.check), claims.get(o.check, "")) for o in report.outcomes]


def _rule(name: str, check: AnyCheck | None, claim: str) -> Json:
    """A check that this version does not know, as of a newer evidence file, has its name and claim only."""
    rule: Json = {"id": name, "name": _pascal(name), "shortDescription": {"text": clean(claim) or name}}
    if check is None:
        return rule
    text = f"{check.remedy} This check cannot see: {check.blind_to}"
    return {
        **rule,
        "shortDescription": {"text": check.claim},
        "help": {"text": f"{text} More: draftproof explain {name}"},
        **({"helpUri": url} if (url := check_url(name)) else {}),
        "defaultConfiguration": {"level": "error" if check.aspects else "note"},
        "properties": {"tags": list(dict.fromkeys([name.partition("/")[0], *check.aspects]))},
    }


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in re.split(r"[/_]", name))


def _results(report: Report, outcome: Outcome, index: int) -> Iterator[Json]:
    """One result per finding; where a check has none, one with what it says in a sentence. A check that broke has no result."""
    judgement = outcome.judgement
    if judgement.verdict is Verdict.ERROR:
        return
    kind, level = _KINDS[judgement.verdict]
    findings = judgement.findings if judgement.verdict is not Verdict.PASS else ()
    for finding in findings or (Finding("", judgement.summary),):
        result: Json = {
            "ruleId": outcome.check,
            "ruleIndex": index,
            "kind": kind,
            "level": level,
            "message": {"text": clean(f"{finding.code}: {finding.text}" if finding.code else finding.text)},
            "locations": [_location(report, outcome.check)],
            "partialFingerprints": {FINGERPRINT: _fingerprint(outcome.check, finding)},
            "properties": {"code": finding.code, "exchanges": list(finding.exchanges)},
        }
        if judgement.verdict is Verdict.FAIL:
            reasons = [e.reason for e in report.accepted if (e.check, e.code) == (outcome.check, finding.code)]
            result["suppressions"] = [
                {"kind": "external", "status": "accepted", "justification": reason} for reason in reasons
            ]
        yield result


def _location(report: Report, check: str) -> Json:
    """The check, and the evidence file: what is at fault is a server, which has no line of code here."""
    location: Json = {"logicalLocations": [{"name": check, "kind": "module"}]}
    if report.evidence_path is not None:
        location["physicalLocation"] = {"artifactLocation": {"uri": _uri(report.evidence_path)}}
    return location


def _uri(path: Path) -> str:
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _fingerprint(check: str, finding: Finding) -> str:
    """The same for the same finding of another audit, whose counts and distances are others."""
    text = _NUMBER.sub("#", finding.text)
    return hashlib.sha256("\0".join((check, finding.code, text)).encode("utf-8", "replace")).hexdigest()[:32]
