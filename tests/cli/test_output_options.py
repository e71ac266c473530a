"""Documents and baselines of the commands: what is refused before the audit, what is written after it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.fakes import FAULTY, SOUND, URL, FakeTarget

import draftproof.auditing
import draftproof.auditing.live
import draftproof.cli.rejudge
import draftproof.report.sarif
from draftproof.checks.check import AnyCheck
from draftproof.cli.main import cli
from draftproof.cli.output_options import FORMATS
from draftproof.core.errors import Unreachable

Run = Callable[..., Result]
STARTS = {"json": "{", "html": "<!doctype html>", "junit": "<testsuites", "sarif": "{"}


@pytest.fixture
def checks() -> list[AnyCheck]:
    return [SOUND, FAULTY]


@pytest.fixture
def target() -> FakeTarget:
    return FakeTarget()


@pytest.fixture
def run(checks: list[AnyCheck], target: FakeTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for module in (draftproof.auditing, draftproof.cli.rejudge):
        monkeypatch.setattr(module, "all_checks", lambda: tuple(checks))
    monkeypatch.setattr(draftproof.auditing.live, "open_live", target.open)
    monkeypatch.setattr(draftproof.auditing, "require_listening", lambda _url: None)
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(cli, [str(a) for a in args])


@pytest.mark.parametrize("kind", [f.name for f in FORMATS])
def test_every_format_is_written_by_check_and_rejudge(run: Run, kind: str) -> None:
    audited = run("check", URL, f"--{kind}", "a", "--out", "e.jsonl")
    assert audited.exit_code == 1
    assert audited.stdout.splitlines()[-1].endswith(" written: a")
    assert " written: a" not in run("check", URL, f"--{kind}", "a", "-q").stdout
    assert Path("a").read_text().startswith(STARTS[kind])
    assert run("rejudge", "e.jsonl", f"--{kind}", "b").exit_code == 1
    assert Path("b").read_text().startswith(STARTS[kind])


@pytest.mark.parametrize("kind", [f.name for f in FORMATS])
def test_every_format_tells_of_an_audit_that_could_not_be_made(run: Run, target: FakeTarget, kind: str) -> None:
    target.trouble = Unreachable("nobody there", "start it")
    result = run("check", URL, f"--{kind}", "-")
    assert result.exit_code == 4
    assert result.stdout.startswith(STARTS[kind])
    assert "nobody there" in result.stdout


@pytest.mark.parametrize("option", ["--json", "--html", "--junit", "--sarif", "--write-baseline"])
def test_file_that_cannot_be_written_is_refused_before_the_audit(run: Run, target: FakeTarget, option: str) -> None:
    for command in (["check", URL], ["compare", URL, URL], ["rejudge", "no.jsonl"]):
        result = run(*command, option, "/no/such/folder/file")
        assert result.exit_code == 2
        assert "cannot be written to /no/such/folder/file: No such file or directory" in result.stderr
    assert not target.connected


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_missing_extra_is_told_before_the_audit(
    run: Run, target: FakeTarget, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = run("check", URL, "--html", "r.html")
    assert result.exit_code == 2
    assert f"needs the package {package}" in result.stderr
    assert "pip install '.[html]'" in result.stderr
    assert not target.connected
    assert run("check", URL, "--junit", "r.xml").exit_code == 1


@pytest.mark.parametrize("other", ["r", "./r", "-"])
def test_two_reports_cannot_share_a_file(run: Run, target: FakeTarget, other: str) -> None:
    result = run("check", URL, "--json", "-" if other == "-" else "r", "--sarif", other)
    assert result.exit_code == 2
    assert "cannot both go to" in result.stderr
    assert not target.connected


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("kind", [f.name for f in FORMATS])
def test_full_disk_keeps_a_fault_a_fault_and_makes_a_sound_audit_uncertain(
    run: Run, checks: list[AnyCheck], kind: str
) -> None:
    result = run("check", URL, f"--{kind}", "/dev/full")
    assert result.exit_code == 1
    assert "report could not be written to /dev/full: No space left on device" in result.stderr
    checks.remove(FAULTY)
    assert run("check", URL, f"--{kind}", "/dev/full").exit_code == 3


def test_reporter_that_breaks_does_not_hide_the_verdict(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(draftproof.report.sarif, "report_sarif", broken)
    result = run("check", URL, "--sarif", "r.sarif", "--json", "r.json")
    assert result.exit_code == 1
    assert "the SARIF report could not be made (ZeroDivisionError" in result.stderr
    assert json.loads(Path("r.json").read_text())["exit_code"] == 1


def test_baseline_is_written_used_and_grows_stale(run: Run, checks: list[AnyCheck]) -> None:
    assert run("check", URL, "--write-baseline", "b.toml").exit_code == 1
    result = run("check", URL, "--baseline", "b.toml", "--json", "r.json")
    assert result.exit_code == 0
    assert "accepted: logprobs/faulty PLACEHOLDER" in result.stdout
    assert "exit 0 (no fault beyond those that are accepted)" in result.stdout
    document = json.loads(Path("r.json").read_text())
    assert (document["verdict"], document["exit_code"]) == ("fail", 0)
    assert document["accepted"] == [{"check": "logprobs/faulty", "code": "PLACEHOLDER", "reason": "", "expires": None}]
    Path("b.toml").write_text(Path("b.toml").read_text().replace("logprobs/faulty", "logprobs/sound"))
    result = run("check", URL, "--baseline", "b.toml", "--checks", "logprobs/sound")
    assert result.exit_code == 2
    assert "stale entry of the baseline: logprobs/sound PLACEHOLDER" in result.stdout


@pytest.mark.parametrize("new", ["b.toml", "new.toml"])
def test_baseline_keeps_its_reasons_when_written_again(run: Run, new: str) -> None:
    entry = "[[accepted]]\ncheck = 'logprobs/faulty'\ncode = 'PLACEHOLDER'\nreason = 'known since b1'\n"
    Path("b.toml").write_text(entry)
    assert run("check", URL, "--baseline", "b.toml", "--write-baseline", new).exit_code == 0
    assert 'reason = "known since b1"' in Path(new).read_text()


@pytest.mark.parametrize("option", ["--baseline", "--write-baseline"])
def test_file_that_is_no_baseline_is_refused_before_the_audit_and_left_alone(
    run: Run, target: FakeTarget, option: str
) -> None:
    Path("b.toml").write_text("[[accepted]]\ncheck = 'logprobs/fulty'\ncode = 'X'\n")
    result = run("check", URL, option, "b.toml")
    assert result.exit_code == 2
    assert "Did you mean logprobs/faulty?" in result.stderr
    assert not target.connected
    assert "fulty" in Path("b.toml").read_text()
