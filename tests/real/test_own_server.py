"""The auditor on `draftproof serve`: sound in every mode, its logprobs true while it speculates.

The seeds of the audits are fixed; those of the server's answers follow from them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from benches.own_modes import HEAD, HEADED, MODES, Mode, audited, drafted, undecided

from draftproof.audit import Report
from draftproof.core.verdict import Verdict

pytestmark = pytest.mark.real
NOT_DRAFTING = ("no draft", "greedy")
"""Modes that draft nothing at temperature above 0."""


def verdict(report: Report, check: str) -> Verdict:
    return next(o.judgement.verdict for o in report.outcomes if o.check == check)


def sound(mode: Mode, model: Path, draft: Path, folder: Path) -> Report:
    """A quick audit of a server in that mode, which must find nothing and leave nothing open."""
    report = audited(mode, model, draft, folder / "evidence.jsonl.gz")
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
