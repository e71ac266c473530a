"""The examples do what they say."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest
from examples import audit_server, try_drafters
from scripts.docs import ROOT
from tests.docs.conftest import Servers
from tests.server.loopback import serving

from draftproof.core.verdict import Verdict
from draftproof.countable.files import open_pair, write_pair


def test_own_pair_can_be_opened(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "examples/own_pair.py", tmp_path / "mine"], check=True)
    pair = open_pair(tmp_path / "mine")
    assert (pair.vocabulary, pair.alphabet) == (10, "abcdefghij")


def test_the_proof_tells_a_lossless_rule_from_another() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "examples/prove_my_rule.py"], check=True, capture_output=True, text=True
    )
    assert made.stdout in (ROOT / "docs/how-to/prove-your-rule.md").read_text(encoding="utf-8")


@pytest.mark.real
def test_an_audit_from_python_gives_a_typed_report(
    servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = audit_server.examine(servers.url("draft", tmp_path), tmp_path / "evidence.jsonl.gz")
    assert (report.verdict, report.exit_code) == (Verdict.FAIL, 1)
    assert "fail           logprobs/placeholder\n" in capsys.readouterr().out
    assert report.evidence_path == tmp_path / "evidence.jsonl.gz"


def test_an_audit_of_nobody_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["audit_server.py", "http://127.0.0.1:1"])
    assert audit_server.main() == 4
    assert "No connection" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.parametrize("options", [[], ["--draft"], ["--draft", "--broken"]])
def test_the_tutorials_server_starts_and_stops(options: Sequence[str], tmp_path: Path) -> None:
    write_pair(tmp_path)
    command: list[str | Path] = [sys.executable, ROOT / "examples/serve_pair.py", tmp_path, "--port", "0", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().removeprefix("listening on ").partition(";")[0]
        with urllib.request.urlopen(f"{url}/health") as answer:
            assert answer.status == 200
        server.communicate("\n", timeout=20)
    assert server.returncode == 0


def test_drafters_are_tried_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(context=256) as (_, server):
        try_drafters.main(server.url, ["bcdbcdbcdbcd", "abc"])
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(lines) == set(try_drafters.DRAFTERS)
    assert "speed 1.00  accepted 0 of 0" in lines["none"]
    assert not lines["draft-simple"].endswith("of 0")
