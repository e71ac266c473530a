from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from draftproof.cli.countable import countable
from draftproof.core.errors import UsageError

INDEPENDENT = Path(__file__).parent.parent / "data" / "countable-independent"
Run = Callable[..., Result]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(countable, [str(argument) for argument in arguments])


def trouble(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, UsageError)
    return str(result.exception)


def test_write_makes_two_models_and_their_laws(tmp_path: Path) -> None:
    result = run("write", tmp_path / "new" / "pair")
    assert result.exit_code == 0
    written = tmp_path / "new" / "pair"
    assert sorted(path.name for path in written.iterdir()) == ["draft.gguf", "law.json", "target.gguf"]
    assert "llama-server -m" in result.output
    law = json.loads((written / "law.json").read_text())
    assert (law["format"], law["name"], law["alphabet"], law["prompt"]) == (1, "countable-8", "abcdefgh", "bcdbc")
    assert {letter: round(p, 3) for letter, p in law["story"]["target"].items()} == {"e": 0.345, "g": 0.452, "h": 0.203}
    for which in ("target", "draft"):
        assert sum(law[which]["first"].values()) == pytest.approx(1, abs=1e-7)
        assert len(law[which]["joint_of_three"]) == 512
        second = law[which]["second_given_first"]["f"]
        joint = sum(p for text, p in law[which]["joint_of_three"].items() if text.startswith("fe"))
        assert joint == pytest.approx(law[which]["first"]["f"] * second["e"], abs=1e-7)


def test_write_overwrites_only_when_told(tmp_path: Path) -> None:
    run("write", tmp_path)
    (tmp_path / "target.gguf").write_text("precious")
    assert "is there already. Pass --force" in trouble("write", tmp_path)
    assert (tmp_path / "target.gguf").read_text() == "precious"
    assert run("write", tmp_path, "--force").exit_code == 0
    assert (tmp_path / "target.gguf").read_bytes()[:4] == b"GGUF"


def test_write_says_why_it_cannot(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in trouble("write", tmp_path / "file" / "pair")
    if os.geteuid():
        tmp_path.chmod(0o500)
        assert "cannot be written: Permission denied" in trouble("write", tmp_path / "pair")


def test_the_law_of_the_story() -> None:
    result = run("law", "--given", "f", "--top-k", 3)
    lines = result.output.splitlines()
    assert lines[0] == 'target after "bcdbc" and "f", next token:'
    assert [(line.split()[0], round(float(line.split()[1]), 3)) for line in lines[1:]] == [
        ("g", 0.452),
        ("e", 0.345),
        ("h", 0.203),
    ]


def test_laws_of_any_pair_in_a_directory() -> None:
    told = json.loads((INDEPENDENT / "law.json").read_text())
    for flags, which in (((), "target"), (("--draft",), "draft")):
        answer = json.loads(run("law", INDEPENDENT, "--given", "b", "--json", *flags).output)
        assert answer["model"] == which
        assert list(answer["law"].values()) == pytest.approx(told[which]["second_given_first"]["b"], abs=1e-7)


def test_every_option_of_the_sampler_reaches_the_law() -> None:
    plain = json.loads(run("law", "--json", "--given", "fgh").output)["law"]
    for option, value in {
        "--temperature": 0.5,
        "--top-k": 2,
        "--top-p": 0.5,
        "--min-p": 0.4,
        "--repeat-penalty": 1.5,
        "--presence-penalty": 0.5,
        "--frequency-penalty": 0.5,
        "--logit-bias": "a=-1",
    }.items():
        answer = json.loads(run("law", "--json", "--given", "fgh", option, value).output)
        assert answer["law"] != plain, option
        assert sum(answer["law"].values()) == pytest.approx(1, abs=1e-7)
    banned = json.loads(run("law", "--json", "--logit-bias", "a=-inf", "--logit-bias", "f=-inf").output)["law"]
    assert sorted(banned) == list("bcdegh")


def test_joint_laws_are_cut_to_the_likeliest_rows() -> None:
    result = run("law", "--tokens", 3, "--rows", 4)
    assert result.output.splitlines()[0] == 'target after "bcdbc", next 3 tokens:'
    assert len(result.output.splitlines()) == 6
    assert "and 508 more, together" in result.output
    assert len(run("law", "--tokens", 2, "--rows", 0).output.splitlines()) == 65
    assert "sequences can be counted" in trouble("law", "--tokens", 9)


@pytest.mark.parametrize("option", ["--prompt", "--given"])
def test_a_letter_outside_the_alphabet_is_named(option: str) -> None:
    assert trouble("law", option, "bcz") == '"z" is not a letter of the model. Its alphabet is "abcdefgh".'


@pytest.mark.parametrize("bias", ["a", "ab=1", "=1", "a=", "a=much"])
def test_a_bias_that_is_none_is_refused(bias: str) -> None:
    assert f'"{bias}"' in trouble("law", "--logit-bias", bias)


def test_no_law_is_said_so(tmp_path: Path) -> None:
    everything = [argument for letter in "abcdefgh" for argument in ("--logit-bias", f"{letter}=-inf")]
    assert "There is no law" in trouble("law", *everything)
    assert "empty context" in trouble("law", "--prompt", "")
    assert "draftproof countable write" in trouble("law", tmp_path)
    assert run("law", "--temperature", -1).exit_code == 2
