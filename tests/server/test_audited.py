"""The auditor finds the server sound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.server.loopback import DRAFT, NGRAM, NONE, serving

from draftproof.cli.main import cli
from draftproof.core.speculation import DraftModel, Speculation

MATCH = Speculation(types=("draft-simple",), rule="match", draft=DraftModel(n_max=5))
MIXED = Speculation(types=("ngram-simple", "draft-simple"), ngram_simple=NGRAM.ngram_simple)
MODES = {"none": NONE, "rejection": DRAFT, "match": MATCH, "ngram": NGRAM, "mixed": MIXED}
QUICK = "logprobs,stopping,self_report,randomness,sampling/greedy_parity"


def verdicts(mode: str, folder: Path, *flags: str) -> dict[str, str]:
    """What each check says of a server in that mode."""
    with serving(MODES[mode], slots=4, context=4096) as (_, server):
        report = folder / "report.json"
        result = CliRunner().invoke(cli, ["check", server.url, *flags, "--json", str(report)])
    found = {check["name"]: check["verdict"] for check in json.loads(report.read_text())["checks"]}
    assert "fail" not in found.values(), result.output
    return found


@pytest.mark.parametrize("mode", MODES)
def test_in_every_mode(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = verdicts(mode, tmp_path, "--effort", "quick", "--checks", QUICK)
    assert set(found.values()) <= {"pass", "not_applicable"}, found


@pytest.mark.slow
def test_with_as_many_samples_as_a_standard_audit_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert verdicts("rejection", tmp_path, "--effort", "standard")["sampling/distribution"] == "pass"
