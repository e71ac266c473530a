from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.fakes import FAULTY, SOUND
from tests.report.reports import ACCEPTED, EVIL, evil, made

import draftproof.report.links
from draftproof import __version__
from draftproof.auditing import Report, all_checks
from draftproof.auditing.outcome import Outcome
from draftproof.core.errors import Unreachable
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Verdict
from draftproof.report.sarif import FINGERPRINT, error_sarif, report_sarif

SCHEMA = json.loads((Path(__file__).parent / "sarif-2.1.0-required.schema.json").read_text())
"""Of the standard (OASIS SARIF 2.1.0): what is required, the closed lists and the bounds of all that we write; nothing else may
be there."""


def valid(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(document)
    run: dict[str, Any] = document["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [rules[r["ruleIndex"]] for r in run["results"]] == [r["ruleId"] for r in run["results"]]
    assert all(r["level"] == "none" for r in run["results"] if r["kind"] != "fail")
    return run


def of(*findings: Finding, check: str = "logprobs/placeholder") -> Report:
    outcome = Outcome(check, Judgement(Verdict.FAIL, "it fails", findings), Terms())
    return replace(made(), outcomes=(outcome,))


def test_results_are_findings_of_rules_that_are_checks() -> None:
    run = valid(report_sarif(made(path=Path("runs/a b.jsonl.gz"))))
    assert [(r["ruleId"], r["kind"], r["level"]) for r in run["results"]] == [
        ("logprobs/sound", "pass", "none"),
        ("logprobs/faulty", "fail", "error"),
        ("sampling/undecided", "open", "none"),
        ("self_report/absent", "notApplicable", "none"),
    ]
    assert run["results"][1]["message"]["text"] == "PLACEHOLDER: 0.0 without alternatives"
    location = run["results"][1]["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "runs/a%20b.jsonl.gz"
    (invocation,) = run["invocations"]
    assert (invocation["exitCode"], invocation["executionSuccessful"]) == (1, False)
    assert invocation["toolExecutionNotifications"][0]["associatedRule"] == {"id": "randomness/broken"}


def test_every_check_makes_a_valid_rule() -> None:
    outcomes = tuple(Outcome(c.name, Judgement(Verdict.PASS, "fine"), Terms()) for c in all_checks())
    run = valid(report_sarif(replace(made(), outcomes=outcomes)))
    assert len({rule["id"] for rule in run["tool"]["driver"]["rules"]}) == len(all_checks())
    assert all(rule["help"]["text"] for rule in run["tool"]["driver"]["rules"])


def test_rules_lead_to_the_documentation_where_the_package_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "helpUri" not in valid(report_sarif(of(Finding("X", "x"))))["tool"]["driver"]["rules"][0]
    monkeypatch.setattr(draftproof.report.links, "base", lambda: "https://docs.example/")
    (rule,) = valid(report_sarif(of(Finding("X", "x"))))["tool"]["driver"]["rules"]
    assert rule["helpUri"] == "https://docs.example/reference/checks.md#logprobsplaceholder"


def test_accepted_finding_is_suppressed() -> None:
    run = valid(report_sarif(made(SOUND, FAULTY, accepted=(ACCEPTED,))))
    (suppression,) = run["results"][1]["suppressions"]
    assert (suppression["status"], suppression["justification"]) == ("accepted", ACCEPTED.reason)


def test_unaccepted_finding_says_that_it_is_not_suppressed() -> None:
    assert valid(report_sarif(made(FAULTY)))["results"][0]["suppressions"] == []


def fingerprint(finding: Finding) -> str:
    (result,) = valid(report_sarif(of(finding)))["results"]
    return str(result["partialFingerprints"][FINGERPRINT])


def test_fingerprint_is_that_of_the_fault_not_of_its_numbers() -> None:
    one = fingerprint(Finding("CORRUPT", "3 of 47 tokens off by 1.2e-03 (/completion)"))
    assert one == fingerprint(Finding("CORRUPT", "11 of 48 tokens off by 5.02 (/completion)", (7,)))
    assert one != fingerprint(Finding("CORRUPT", "3 of 47 tokens off by 1.2e-03 (/v1/completions)"))
    assert one != fingerprint(Finding("SHIFTED", "3 of 47 tokens off by 1.2e-03 (/completion)"))


def test_audit_that_could_not_be_made_is_a_failed_invocation() -> None:
    run = valid(error_sarif(Unreachable("nobody there", "start it"), __version__))
    assert run["results"] == []
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 4)


def test_untrusted_text_stays_text() -> None:
    text = report_sarif(evil())
    valid(text)
    assert not {"\x1b", "\u202e"} & set(json.loads(text)["runs"][0]["results"][0]["message"]["text"])
    assert EVIL not in text


BREAKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no version": lambda d: d.pop("version"),
    "no tool": lambda d: d["runs"][0].pop("tool"),
    "no message": lambda d: d["runs"][0]["results"][0].pop("message"),
    "no such level": lambda d: d["runs"][0]["results"][0].update(level="fatal"),
    "no such field": lambda d: d["runs"][0]["results"][0].update(severity="high"),
    "no success": lambda d: d["runs"][0]["invocations"][0].pop("executionSuccessful"),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_schema_refuses_what_the_standard_does(broken: str) -> None:
    document = json.loads(report_sarif(made()))
    BREAKS[broken](document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)
