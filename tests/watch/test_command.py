"""`draftproof watch` as its user meets it: exit codes, alerts, and what it says while there is nothing to audit."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.fakes import URL
from tests.watch.test_rounds import FAIL, PASS, reporting

import draftproof.cli.watch
import draftproof.watch.rounds
from draftproof.cli.main import cli
from draftproof.core.errors import Busy, Unreachable, UsageError
from draftproof.core.verdict import Verdict
from draftproof.watch.rounds import REACHABLE, Watch

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command on audits that end like this, without rests between them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(draftproof.watch.rounds, "rest_after", lambda _failed: 0.0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def invoke(*args: str, ends: list[Verdict | Exception]) -> Result:
        monkeypatch.setattr(draftproof.cli.watch, "Watch", partial(Watch, run=reporting(ends)))
        return CliRunner().invoke(cli, ["watch", URL, "--per-hour", "1e9", "--rounds", str(len(ends)), *args])

    return invoke


def changes(result: Result) -> list[dict[str, object]]:
    return [json.loads(line)["change"] for line in result.stdout.splitlines()]


def test_a_check_that_is_none_ends_the_command_before_the_first_round(run: Run, tmp_path: Path) -> None:
    result = run("--checks", "logprobs/placholder", ends=[PASS])
    assert result.exit_code == 2
    assert "No check is called 'logprobs/placholder'." in result.stderr
    assert "logprobs/placeholder" in result.stderr
    assert not list(tmp_path.iterdir())


def test_wrong_usage_that_a_round_meets_ends_the_command(run: Run) -> None:
    result = run(ends=[PASS, UsageError("The key is gone."), PASS])
    assert result.exit_code == 2
    assert result.stderr.count("The key is gone.") == 1


def test_metrics_without_their_package_leave_no_state_behind(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "draftproof.watch.metrics", None)
    result = run("--metrics-port", "9", ends=[PASS])
    assert result.exit_code == 2
    assert "prometheus-client" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("ends", "code"),
    [([PASS], 0), ([PASS, FAIL], 1), ([FAIL, PASS], 0), ([Busy("Busy.")], 3), ([Unreachable("Gone.")], 1)],
)
def test_exit_code(run: Run, ends: list[Verdict | Exception], code: int) -> None:
    assert run(ends=ends).exit_code == code


def test_an_alert_says_which_server_what_and_where_it_is_shown(run: Run) -> None:
    (alert,) = changes(run(ends=[FAIL]))
    assert alert["url"] == URL
    assert (alert["before"], alert["after"], alert["alert"], alert["last_good"]) == (None, "fail", True, "")
    assert Path(str(alert["evidence"])).read_text() == "evidence"


def test_a_start_says_where_the_evidence_of_a_killed_round_is(run: Run, tmp_path: Path) -> None:
    assert "killed" not in run(ends=[FAIL]).stderr
    (kept,) = tmp_path.glob("*.jsonl.gz")
    kept.with_name(kept.name.replace("000001", "000002")).write_text("cut off")
    result = run(ends=[PASS])
    assert (
        f"a round was killed half-way; what it had found is in {kept.name.replace('000001', 'unfinished')}"
        in result.stderr
    )
    assert kept.with_name(kept.name.replace("000001", "unfinished")).read_text() == "cut off"


def test_a_server_that_is_gone_for_long_is_told_once_and_then_seldom(run: Run) -> None:
    result = run(ends=[PASS, *[Unreachable("Nobody answers.")] * 25, PASS])
    assert [(c["name"], c["after"]) for c in changes(result)] == [(REACHABLE, "fail"), (REACHABLE, "pass")]
    told = [line for line in result.stderr.splitlines() if "round " in line and "watching" not in line]
    assert [line.partition("  ")[2] for line in told] == [
        "round 1: pass, 10 requests, 0.0 s",
        "round 2: Nobody answers.",
        "round 13: no audit, 12 rounds in a row",
        "round 25: no audit, 24 rounds in a row",
        "round 27: pass, 10 requests, 0.0 s",
    ]
