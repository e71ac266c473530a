from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from draftproof.cli import prove as command
from draftproof.cli.main import cli
from draftproof.engine.prove import Result, prove

RESULTS = list(prove())


@pytest.fixture
def proven(monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    results = list(RESULTS)
    monkeypatch.setattr(command, "prove_rules", lambda: iter(results))
    return results


def test_a_table_and_exit_code_zero(proven: list[Result]) -> None:
    result = CliRunner().invoke(cli, ["prove"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "rank residual" in result.output
    assert "NOT AS STATED" not in result.output
    assert f"all {sum(not r.exact for r in proven)} wrong ones are told apart" in result.output


def test_json_has_every_number(proven: list[Result]) -> None:
    result = CliRunner().invoke(cli, ["prove", "--json"])
    document = json.loads(result.output)
    assert document["holds"] is True
    assert len(document["results"]) == len(proven)
    assert document["results"][0]["off"] < 1e-12


@pytest.mark.parametrize("broken", [{"off": 1e-9}, {"per_block": 1.0}])
def test_a_rule_that_does_not_behave_as_stated_fails(proven: list[Result], broken: dict[str, Any]) -> None:
    proven[3] = replace(proven[3], **broken)
    result = CliRunner().invoke(cli, ["prove"], env={"COLUMNS": "200"})
    assert result.exit_code == 70
    assert "NOT AS STATED" in result.output


def test_a_wrong_rule_that_is_not_wrong_fails(proven: list[Result]) -> None:
    proven[-1] = replace(proven[-1], tv=0.0)
    assert CliRunner().invoke(cli, ["prove"]).exit_code == 70
