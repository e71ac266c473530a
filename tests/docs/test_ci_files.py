"""The files for build servers: valid, and their scripts do what they say with a stand-in for the command."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from scripts import docs

from draftproof.cli.check import check

OPTIONS = {name for p in check.params if isinstance(p, click.Option) for name in p.opts}
ACTION: dict[str, Any] = yaml.safe_load((docs.ROOT / "action.yml").read_text())
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}


def run(folder: Path, code: int, **inputs: str) -> tuple[int, list[str], str]:
    """Exit code of the step "audit", the arguments that `draftproof` got, and the step's outputs."""
    command = folder / "draftproof/bin/draftproof"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/usr/bin/env bash\nprintf "%s\\0" "$@" > "{folder}/arguments"\nexit {code}\n')
    command.chmod(0o755)
    given = {name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()} | inputs
    named = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
    env = {key: given[named.fullmatch(value)[1]] for key, value in STEPS["audit"]["env"].items()}  # type: ignore[index]
    env |= {"RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(folder / "outputs"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS["audit"]["run"]],
        env=env,
        check=False,
        capture_output=True,
        timeout=20,
    )
    arguments = (folder / "arguments").read_text().split("\0")[:-1]
    return done.returncode, arguments, (folder / "outputs").read_text()


@pytest.mark.parametrize(
    ("code", "allow", "ends"), [(0, "", 0), (1, "true", 1), (3, "", 3), (3, "true", 0), (70, "true", 70)]
)
def test_action_ends_as_the_audit_does(tmp_path: Path, code: int, allow: str, ends: int) -> None:
    done, _, outputs = run(tmp_path, code, url="http://h", **{"allow-inconclusive": allow})
    assert done == ends
    assert f"exit-code={code}\n" in outputs


def test_action_hands_over_its_inputs_as_they_are(tmp_path: Path) -> None:
    evil = "http://h/$(touch owned);`id` \"'"
    _, arguments, _ = run(tmp_path, 0, url=evil, checks="logprobs,*/spec*", baseline="a b.toml", seed="7")
    assert arguments[:2] == ["check", evil]
    assert arguments[arguments.index("--checks") + 1] == "logprobs,*/spec*"
    assert arguments[arguments.index("--baseline") + 1] == "a b.toml"
    assert "--api-key-env" not in arguments
    assert {a for a in arguments if a.startswith("--")} <= OPTIONS


def test_action_uses_every_input_and_none_in_a_script() -> None:
    text = (docs.ROOT / "action.yml").read_text()
    assert [name for name in ACTION["inputs"] if f"inputs.{name} " not in text] == []
    assert [name for name, step in STEPS.items() if "${{" in step.get("run", "")] == []


def test_github_example_gives_inputs_that_the_action_has() -> None:
    steps = yaml.safe_load((docs.ROOT / "examples/github-audit.yml").read_text())["jobs"]["audit"]["steps"]
    (given,) = [step["with"] for step in steps if step.get("uses") == "./draftproof"]
    assert given.keys() <= ACTION["inputs"].keys()
    assert all(isinstance(value, str) for value in given.values())


def test_gitlab_example_gives_options_that_there_are_and_keeps_what_is_written() -> None:
    job = yaml.safe_load((docs.ROOT / "examples/gitlab-audit.yml").read_text())["audit"]
    words = shlex.split(next(line for line in job["script"] if line.startswith("draftproof check")))
    assert {word for word in words if word.startswith("--")} <= OPTIONS
    written = {words[words.index(option) + 1] for option in ("--json", "--html", "--junit", "--out")}
    assert written == {*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]}
