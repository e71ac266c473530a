from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.fakes import FAULTY, NOT_APPLICABLE, SOUND, URL, FakeTarget, Seen

from draftproof import __version__
from draftproof.auditing import Report, audit
from draftproof.auditing.config import AuditConfig
from draftproof.core.errors import InstrumentError, Unreachable, UsageError
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Statement, Verdict
from draftproof.report.json_report import ReportV1, error_json, report_json, schema

DOCS = Path(__file__).parents[2] / "docs"


def run() -> Report:
    return audit(AuditConfig(URL), checks=[SOUND, FAULTY, NOT_APPLICABLE], open_target=FakeTarget().open)


def strict(text: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no strict JSON")

    document: dict[str, Any] = json.loads(text, parse_constant=refuse)
    TypeAdapter(ReportV1).validate_json(text)
    return document


def test_document_names_its_format_first() -> None:
    document = strict(report_json(run()))
    assert list(document)[:2] == ["format", "version"]
    assert (document["format"], document["version"]) == ("draftproof-report", 1)


def test_document_holds_what_the_report_does() -> None:
    report = run()
    document = strict(report_json(report, ("a differs",)))
    assert (document["verdict"], document["exit_code"]) == ("fail", 1)
    assert [c["verdict"] for c in document["checks"]] == ["pass", "fail", "not_applicable"]
    assert document["checks"][1]["findings"] == [
        {"code": "PLACEHOLDER", "text": "0.0 without alternatives", "exchanges": [1]}
    ]
    assert document["checks"][1]["evidence"] == {"logprobs": [0.0, 0.0, 0.0]}
    assert document["checks"][2]["evidence"] is None
    assert document["aggregates"]["rows"] == [["mean logprob", "temperature 1", 0.0, -1.25]]
    assert document["what_to_do"] == ["the remedy of logprobs/faulty"]
    assert {row["answer"] for row in document["safe_to_use"]} == {"no", "unknown"}
    assert document["server"]["self_reports"][1] == {"where": "/slots speculative", "said": True}
    assert document["differences"] == ["a differs"]
    assert document["error"] is None


def test_numbers_that_json_cannot_say_are_strings() -> None:
    statement = Statement("s", 3, "m", 0.0, {"bound": float("inf")})
    judgement = Judgement(Verdict.FAIL, "x", statements=(statement,), measured={"a": float("nan"), "b": float("-inf")})
    report = run()
    outcome = replace(report.outcomes[0], judgement=judgement, evidence=Seen((float("-inf"),)), terms=Terms())
    document = strict(report_json(replace(report, outcomes=(outcome,))))
    (check,) = document["checks"]
    assert check["measured"] == {"a": "NaN", "b": "-Infinity"}
    assert check["statements"][0]["values"] == {"bound": "Infinity"}
    assert check["evidence"] == {"logprobs": ["-Infinity"]}


@pytest.mark.parametrize(
    ("error", "code"), [(Unreachable("nobody", "start it"), 4), (InstrumentError("broken"), 70), (UsageError("no"), 2)]
)
def test_audit_that_could_not_be_made_is_a_document_too(error: UsageError, code: int) -> None:
    document = strict(error_json(error, __version__))
    assert (document["verdict"], document["exit_code"]) == ("error", code)
    assert document["error"] == {"message": error.message, "remedy": error.remedy}
    assert document["checks"] == []


def test_published_schema_is_the_one_in_use() -> None:
    assert json.loads((DOCS / "json-report.schema.json").read_text()) == schema()


def test_every_field_is_explained() -> None:
    page = (DOCS / "json-report.md").read_text()
    missing = [name for name in schema()["properties"] if f"`{name}`" not in page]
    assert missing == []
