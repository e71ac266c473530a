from __future__ import annotations

from pathlib import Path

import pytest

from draftproof.client.evidence import JsonLinesSink, read_records
from draftproof.client.locks import one_audit_of
from draftproof.core.errors import EvidenceError, UsageError

URL = "http://127.0.0.1:9/v1"


def test_two_writers_of_one_file_are_told_and_the_first_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl.gz"
    with JsonLinesSink(path) as first:
        first.record("a", {})
        with pytest.raises(EvidenceError, match="being written by another audit"):
            JsonLinesSink(path)
        first.record("b", {})
    assert [r["kind"] for r in read_records(path)] == ["a", "b"]


def test_a_new_audit_replaces_the_file_of_one_that_is_over(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl"
    for kind in ("a", "b"):
        with JsonLinesSink(path) as sink:
            sink.record(kind, {})
    assert [r["kind"] for r in read_records(path)] == ["b"]


def test_two_audits_of_one_server_at_once_are_refused_by_whatever_name_it_goes() -> None:
    with (
        one_audit_of(URL),
        pytest.raises(UsageError, match="Another audit of http://localhost:9 is at work"),
        one_audit_of("http://localhost:9"),
    ):
        pass
    with one_audit_of(URL), one_audit_of("http://127.0.0.1:10"):
        pass
