"""Every liar is caught by the checks that it names and by no other; nobody accuses the honest."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from draftproof.auditing import all_checks
from draftproof.auditing.outcome import INSTRUMENT
from draftproof.cli.main import cli
from draftproof.cli.matrix import Matrix, Run, alone, as_document, from_document, joined, run_one
from draftproof.core.errors import UsageError
from draftproof.core.probe import Effort
from draftproof.core.verdict import Verdict
from draftproof.liars import HONEST, LIARS, NOT_ALONE, liar
from draftproof.liars.liar import Liar

COSTLY = ("sampling/distribution", "sampling/unchanged")
"""These are tried here on the servers that they must fail on and on two honest ones; docs/reference/controls.md tells of all."""
ALL = ("honest-rejection", "honest-ngram")
NAMES = [check.name for check in all_checks()]


def checks_for(server: Liar) -> tuple[str, ...]:
    return tuple(n for n in NAMES if n not in COSTLY or n in server.fails or server.name in ALL)


@pytest.mark.parametrize("server", [*HONEST, *LIARS], ids=lambda server: server.name)
def test_verdicts_are_as_they_must_be(server: Liar, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        run = run_one(server.name, checks_for(server), Effort.QUICK, seed=1)
    assert run.wrong() == []
    assert not caplog.records  # what breaks by accident is no liar
    if server.uncaught:
        assert Verdict.INCONCLUSIVE in run.verdicts.values()


def test_honest_servers_get_a_conclusion_in_every_mode() -> None:
    for mode in ("honest-plain", "honest-match", "honest-mtp"):
        run = run_one(mode, ("logprobs", "stopping", "self_report"), Effort.QUICK, seed=1)
        assert set(run.verdicts.values()) <= {Verdict.PASS, Verdict.NOT_APPLICABLE}, run


@pytest.mark.parametrize("check", NAMES)
def test_every_check_is_needed(check: str) -> None:
    assert bool(alone(check)) != (check in NOT_ALONE)


def test_liars_are_told_apart_and_explained() -> None:
    names = [server.name for server in (*HONEST, *LIARS)]
    assert len(set(names)) == len(names)
    for server in LIARS:
        assert server.report.startswith("https://"), server.name
        assert bool(server.fails) != bool(server.uncaught), server.name
        assert not set(server.fails) & set(server.may_fail), server.name
        assert {*server.fails, *server.may_fail} <= set(NAMES), server.name
    assert all(server.honest and not server.fails for server in HONEST)
    assert not any(server.honest for server in LIARS)


def _run(name: str, said: Mapping[str, Verdict]) -> Run:
    return Run(name, 1, {"logprobs/placeholder": Verdict.PASS, "logprobs/units": Verdict.PASS, **said}, {})


def test_a_missed_fault_and_a_false_alarm_are_told() -> None:
    missed, alarm = _run("sentinel", {}), _run("honest-plain", {"logprobs/units": Verdict.FAIL})
    assert "logprobs/placeholder should fail on sentinel" in missed.wrong()[0]
    assert "logprobs/units should not fail on honest-plain" in alarm.wrong()[0]
    broken = _run("honest-plain", {"logprobs/units": Verdict.ERROR})
    assert len(broken.wrong()) == 1


def test_power_and_false_alarms_are_counted() -> None:
    caught = _run("sentinel", {"logprobs/placeholder": Verdict.FAIL})
    alarm = _run("honest-plain", {"logprobs/placeholder": Verdict.FAIL})
    runs = (caught, _run("sentinel", {}), alarm, _run("at-temperature", {"logprobs/units": Verdict.FAIL}))
    matrix = Matrix(Effort.QUICK, runs)
    power = matrix.powers()[0]
    assert power.caught is not None
    assert power.alarms is not None
    assert power.strays is not None
    assert (power.caught.count, power.caught.n) == (1, 2)
    assert (power.alarms.count, power.alarms.n) == (1, 1)
    assert (power.strays.count, power.strays.n) == (0, 1)
    assert power.caught.low < 0.5 < power.caught.high
    again = from_document(json.loads(json.dumps(as_document(matrix))))
    assert again == matrix


def test_a_result_can_be_added_to() -> None:
    old = Matrix(Effort.QUICK, (_run("sentinel", {}), _run("honest-plain", {})))
    new = Matrix(Effort.QUICK, (Run("sentinel", 1, {"logprobs/placeholder": Verdict.FAIL}, {}),))
    both = {run.liar: run.verdicts for run in joined(old, new).runs}
    assert both["sentinel"] == {"logprobs/placeholder": Verdict.FAIL, "logprobs/units": Verdict.PASS}
    assert len(both) == 2
    with pytest.raises(UsageError, match="effort"):
        joined(old, Matrix(Effort.DEEP, ()))


def test_the_command_tells_and_writes(tmp_path: Path) -> None:
    result = tmp_path / "controls.json"
    flags = ["--liar", "sentinel", "--liar", "honest-plain", "--check", "logprobs/placeholder", "--jobs", "1"]
    done = CliRunner().invoke(cli, ["controls", *flags, "--json", str(result)])
    assert done.exit_code == 0, done.output
    assert "All 2 verdicts are as they must be." in done.output
    assert json.loads(result.read_text())["checks"]["logprobs/placeholder"]["caught"]["count"] == 1


def test_a_verdict_that_is_wrong_ends_with_the_instruments_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(name: str, *_: object) -> Run:
        return _run(name, {})

    monkeypatch.setattr("draftproof.cli.matrix.run_one", blind)
    done = CliRunner().invoke(cli, ["controls", "--liar", "sentinel", "--jobs", "1"])
    assert done.exit_code == INSTRUMENT
    assert "NOT AS STATED" in done.output


def test_unknown_names_are_told() -> None:
    with pytest.raises(UsageError, match="no liar"):
        liar("nobody")
    done = CliRunner().invoke(cli, ["controls", "list"])
    assert "placeholder-ngram" in done.output
