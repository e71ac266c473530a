from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes import (
    EXAMPLES,
    FAULTY,
    NOT_APPLICABLE,
    SOUND,
    UNDECIDED,
    URL,
    FakeTarget,
    Seen,
    check,
    judge_zeros,
    raising,
)

from draftproof.auditing import audit
from draftproof.auditing.config import AuditConfig
from draftproof.auditing.outcome import Report
from draftproof.auditing.rejudge import rejudge
from draftproof.checks.check import AnyCheck
from draftproof.core.errors import EvidenceError, InstrumentError
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Verdict

ALL = (SOUND, FAULTY, UNDECIDED, NOT_APPLICABLE, check("a/broken", raising(RuntimeError("bug"))))


def recorded(path: Path, checks: Sequence[AnyCheck] = ALL) -> Report:
    return audit(AuditConfig(URL, out=path), checks=checks, open_target=FakeTarget().open)


def lines(path: Path) -> list[dict[str, object]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def write(path: Path, records: list[dict[str, object]]) -> None:
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "e.jsonl.gz"


def test_every_verdict_comes_out_as_recorded(path: Path) -> None:
    before = recorded(path)
    after = rejudge(path, ALL)
    assert [(o.check, o.judgement, o.terms) for o in after.report.outcomes] == [
        (o.check, o.judgement, o.terms) for o in before.outcomes
    ]
    assert after.differences == ()
    for name in ("verdict", "exit_code", "safety", "remedies", "aggregates", "facts", "plan", "config", "stopped"):
        assert getattr(after.report, name) == getattr(before, name)


def test_verdict_that_differs_is_told(path: Path) -> None:
    recorded(path)
    stricter = replace(SOUND, judge=lambda _e, _t: Judgement(Verdict.FAIL, "no"), examples=())
    lenient = replace(stricter, examples=tuple(replace(e, verdict=Verdict.FAIL, codes=()) for e in EXAMPLES))
    judged = rejudge(path, (lenient, *ALL[1:]))
    assert judged.differences == ("logprobs/sound: recorded as pass, now fail",)
    assert judged.report.exit_code == 1


def test_other_findings_are_told(path: Path) -> None:
    recorded(path)

    def judge(evidence: Seen, terms: Terms) -> Judgement:
        judgement = judge_zeros(evidence, terms)
        return replace(judgement, findings=(*judgement.findings, Finding("NEW", "")))

    judged = rejudge(path, (SOUND, replace(FAULTY, judge=judge), *ALL[2:]))
    assert judged.differences == ("logprobs/faulty: recorded with PLACEHOLDER, now PLACEHOLDER, NEW",)


@pytest.mark.parametrize("share", [0.6, 0.8, 0.9, 0.97])
def test_file_cut_short_is_judged_as_far_as_it_goes(path: Path, share: float) -> None:
    recorded(path)
    plain = gzip.decompress(path.read_bytes())
    path.write_bytes(plain[: int(len(plain) * share)])
    judged = rejudge(path, ALL)
    assert "cut short" in judged.report.stopped
    whole = plain[: int(len(plain) * share)].count(b"\n")
    assert f"first {whole} records" in judged.report.stopped
    assert judged.report.verdict is not Verdict.PASS
    assert [o.check for o in judged.report.outcomes] == [c.name for c in ALL]


def test_audit_that_was_killed_is_not_sound(path: Path) -> None:
    recorded(path, [SOUND])
    write(path, lines(path)[:-1])
    judged = rejudge(path, [SOUND])
    assert [o.judgement.verdict for o in judged.report.outcomes] == [Verdict.PASS]
    assert judged.report.exit_code == 3
    assert "did not come to its end" in judged.report.stopped


def test_file_that_ends_before_the_facts_has_nothing_to_judge(path: Path) -> None:
    recorded(path)
    write(path, lines(path)[:1])
    with pytest.raises(EvidenceError, match="nothing to judge"):
        rejudge(path, ALL)


@pytest.mark.parametrize(
    "content", [b"", b"hello\n", b"{}\n", b'{"kind": "header"}\n', b"\x1f\x8b\x08\x00", b"\x00" * 100]
)
def test_what_is_no_evidence_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(EvidenceError):
        rejudge(path, ALL)


def test_missing_file_is_refused(path: Path) -> None:
    with pytest.raises(EvidenceError, match="No such file"):
        rejudge(path, ALL)


def test_newer_format_names_the_version_that_reads_it(path: Path) -> None:
    recorded(path)
    records = lines(path)
    write(path, [{**records[0], "version": 2, "draftproof": "9.9"}, *records[1:]])
    with pytest.raises(EvidenceError, match=r"version 2.*up to 1.*9\.9"):
        rejudge(path, ALL)


def test_records_of_unknown_kind_are_passed_over(path: Path) -> None:
    recorded(path)
    records = lines(path)
    write(path, [records[0], {"kind": "weather", "sky": "blue"}, *records[1:]])
    assert rejudge(path, ALL).differences == ()


def test_evidence_changed_by_hand_is_an_error_and_never_a_pass(path: Path) -> None:
    recorded(path, [SOUND])
    records = lines(path)
    for record in records:
        if record["kind"] == "evidence":
            record["evidence"] = {"logprobs": "many"}
    write(path, records)
    judged = rejudge(path, [SOUND])
    assert [o.judgement.verdict for o in judged.report.outcomes] == [Verdict.ERROR]
    assert judged.report.exit_code == 70


def test_pass_without_its_evidence_does_not_count(path: Path) -> None:
    recorded(path, [SOUND])
    write(path, [r for r in lines(path) if r["kind"] != "evidence"])
    judged = rejudge(path, [SOUND])
    assert [o.judgement.verdict for o in judged.report.outcomes] == [Verdict.INCONCLUSIVE]


def test_check_that_no_longer_exists_is_inconclusive(path: Path) -> None:
    recorded(path, [SOUND, FAULTY])
    judged = rejudge(path, [SOUND])
    assert [o.judgement.verdict for o in judged.report.outcomes] == [Verdict.PASS, Verdict.INCONCLUSIVE]


def test_instrument_is_tested_before_it_judges_again(path: Path) -> None:
    recorded(path, [SOUND])
    with pytest.raises(InstrumentError):
        rejudge(path, [replace(SOUND, examples=())])


def test_evidence_holds_no_more_of_the_key_than_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_KEY", "sk-very-secret")
    config = AuditConfig(URL, out=path, api_key_env="LLM_KEY")
    audit(config, checks=[SOUND], open_target=FakeTarget().open)
    text = gzip.decompress(path.read_bytes())
    assert b"sk-very-secret" not in text
    assert b"LLM_KEY" in text
