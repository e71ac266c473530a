"""`draftproof compare` on real llama-servers: the same, of another law, with a draft, and then and now."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.real.modes import MODES, PROBABILISTIC, Mode

from draftproof.cli.main import cli

pytestmark = pytest.mark.real

SERVERS = {
    "plain": MODES["no draft"],
    "draft": MODES["draft-simple"],
    "rejection": Mode(draft=True, types=["draft-simple"], options=PROBABILISTIC),
    "biased": MODES["synth_rates"],
}


@pytest.fixture(scope="module")
def urls(pair: tuple[Path, Path]) -> Iterator[dict[str, str]]:
    target, draft = pair
    with ExitStack() as stack:
        started = {name: stack.enter_context(mode.server(target, draft)).url for name, mode in SERVERS.items()}
        yield {**started, "other model": stack.enter_context(MODES["no draft"].server(draft, draft)).url}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def compare(*args: str) -> tuple[int, dict[str, str], dict[str, Any]]:
        result = CliRunner().invoke(cli, ["compare", *args, "--json", "r.json", "--seed", "1"])
        report = json.loads(Path("r.json").read_text())
        return result.exit_code, {c["name"].removeprefix("same/"): c["verdict"] for c in report["checks"]}, report

    return compare


def test_a_server_is_the_same_as_itself(urls: dict[str, str], run: Any) -> None:
    code, verdicts, report = run(urls["plain"], urls["plain"], "--same-seeds")
    assert code == 0
    assert set(verdicts.values()) == {"pass"}
    assert report["safe_to_use"] == []


def test_another_model_is_another_in_every_way(urls: dict[str, str], run: Any) -> None:
    code, verdicts, _ = run(urls["plain"], urls["other model"], "--same-seeds")
    assert code == 1
    assert set(verdicts.values()) == {"fail"}


def test_a_draft_takes_the_logprobs_and_leaves_the_text(urls: dict[str, str], run: Any) -> None:
    code, verdicts, report = run(urls["plain"], urls["draft"])
    assert code == 1
    assert verdicts == {"logprobs": "fail", "greedy": "pass", "seeds": "pass", "law": "pass"}
    assert [f["code"] for f in report["checks"][0]["findings"]] == ["MISSING"]


def test_rejection_sampling_draws_other_tokens_of_the_same_law(urls: dict[str, str], run: Any) -> None:
    code, verdicts, _ = run(urls["plain"], urls["rejection"], "--checks", "seeds,law")
    assert code == 0
    assert verdicts == {"seeds": "not_applicable", "law": "pass"}


def test_a_biased_rule_is_another_law(urls: dict[str, str], run: Any) -> None:
    code, verdicts, _ = run(urls["plain"], urls["biased"], "--checks", "law")
    assert code == 1
    assert verdicts == {"law": "fail"}


def test_today_is_compared_with_yesterday(urls: dict[str, str], run: Any) -> None:
    before = CliRunner().invoke(cli, ["check", urls["plain"], "--out", "then.jsonl.gz", "--samples", "300"])
    assert before.exit_code == 0, before.output
    code, verdicts, _ = run(urls["plain"], "--against", "then.jsonl.gz")
    assert (code, set(verdicts.values())) == (0, {"pass"})
    code, verdicts, _ = run(urls["other model"], "--against", "then.jsonl.gz")
    assert code == 1
    assert verdicts["logprobs"] == verdicts["law"] == "fail"


def test_there_must_be_a_second_side(urls: dict[str, str]) -> None:
    result = CliRunner().invoke(cli, ["compare", urls["plain"]])
    assert result.exit_code == 2
    assert "--against" in result.stderr
