from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.fakes import FAULTY, NOT_APPLICABLE, SOUND, UNDECIDED, URL, FakeTarget, Seen

import draftproof.auditing
import draftproof.auditing.live
import draftproof.cli.explain
import draftproof.cli.rejudge
from draftproof import __version__
from draftproof.auditing.config import AuditConfig
from draftproof.auditing.outcome import EXIT_CODES
from draftproof.checks.check import AnyCheck, Example
from draftproof.cli.main import COMMANDS, cli
from draftproof.core.errors import Unreachable
from draftproof.core.verdict import Verdict

Run = Callable[..., Result]


@pytest.fixture
def checks() -> list[AnyCheck]:
    return [SOUND, NOT_APPLICABLE]


@pytest.fixture
def target() -> FakeTarget:
    return FakeTarget()


@pytest.fixture
def run(checks: list[AnyCheck], target: FakeTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for module in (draftproof.auditing, draftproof.cli.rejudge, draftproof.cli.explain):
        monkeypatch.setattr(module, "all_checks", lambda: tuple(checks))
    monkeypatch.setattr(draftproof.auditing.live, "open_live", target.open)
    monkeypatch.setattr(draftproof.auditing, "require_listening", lambda _url: None)
    monkeypatch.chdir(tmp_path)
    return lambda *args, **extra: CliRunner().invoke(cli, [str(a) for a in args], **extra)


@pytest.mark.parametrize(("more", "code"), [([], 0), ([FAULTY], 1), ([UNDECIDED], 3), ([FAULTY, UNDECIDED], 1)])
def test_exit_code_is_that_of_the_verdict(run: Run, checks: list[AnyCheck], more: list[AnyCheck], code: int) -> None:
    checks += more
    result = run("check", URL)
    assert result.exit_code == code
    assert f"exit {code} ({EXIT_CODES[code]})" in result.stdout
    assert result.stderr == ""


def test_nothing_applicable_is_not_sound(run: Run, checks: list[AnyCheck]) -> None:
    checks.remove(SOUND)
    assert run("check", URL).exit_code == 3


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["localhost:8080"], "it has no http:// in front"),
        (["ftp://host"], "the scheme 'ftp' is not HTTP"),
        ([URL, "--checks", "logprobs/sond"], "Did you mean logprobs/sound"),
        ([URL, "--budget", "lots"], "requests=500,seconds=60"),
        ([URL, "--effort", "heroic"], "'heroic' is not one of"),
        ([URL, "--alpha", "2"], "alpha must be"),
        ([URL, "--json", "/no/such/folder/r.json"], "No such file or directory"),
        ([], "Missing argument 'URL'"),
        ([URL, "--efort", "deep"], "--effort"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_to_do(
    run: Run, target: FakeTarget, args: list[str], message: str
) -> None:
    result = run("check", *args)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert not target.connected


def test_unreachable_server_ends_with_4_and_a_remedy(run: Run, target: FakeTarget) -> None:
    target.trouble = Unreachable("No connection to http://127.0.0.1:1.", "Is the server running?")
    result = run("check", URL)
    assert result.exit_code == 4
    assert result.stderr == "draftproof: No connection to http://127.0.0.1:1.\n  Is the server running?\n"


def test_instrument_that_fails_its_own_test_ends_with_70_before_the_first_request(
    run: Run, checks: list[AnyCheck], target: FakeTarget
) -> None:
    checks.append(replace(FAULTY, examples=(Example("zeros", Seen((0.0,)), Verdict.PASS),)))
    result = run("check", URL)
    assert result.exit_code == 70
    assert "6 of 7 controls" in result.stderr
    assert not target.connected


def test_unforeseen_trouble_is_short_and_has_a_traceback_on_request_only(run: Run, target: FakeTarget) -> None:
    target.trouble = ZeroDivisionError("1/0 \x1b[2J")
    result = run("check", URL)
    assert result.exit_code == 70
    assert r"ZeroDivisionError: 1/0 \x1b[2J" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in run("check", URL, "-v").stderr


def test_dry_run_prints_the_plan_and_asks_no_check(run: Run, target: FakeTarget, tmp_path: Path) -> None:
    result = run("check", URL, "--dry-run", "--json", "r.json")
    assert result.exit_code == 0
    document = json.loads(Path("r.json").read_text())
    assert (document["exit_code"], document["exit_meaning"]) == (0, "a dry run: nothing was checked")
    assert document["verdict"] == "inconclusive"
    Path("r.json").unlink()
    assert "in all about 3 requests" in result.stdout
    assert "n/a" in result.stdout
    assert target.requests == 1
    assert list(tmp_path.iterdir()) == []


def test_json_goes_to_standard_output_alone_when_asked(run: Run) -> None:
    result = run("check", URL, "--json", "-")
    assert json.loads(result.stdout)["verdict"] == "pass"
    assert "logprobs/sound" in result.stderr


def test_json_goes_to_a_file_beside_the_report(run: Run, checks: list[AnyCheck]) -> None:
    checks.append(FAULTY)
    result = run("check", URL, "--json", "r.json")
    document = json.loads(Path("r.json").read_text())
    assert document["exit_code"] == result.exit_code == 1
    assert "FAIL" in result.stdout


def test_json_tells_of_an_audit_that_could_not_be_made(run: Run, target: FakeTarget) -> None:
    target.trouble = Unreachable("nobody there", "start it")
    document = json.loads(run("check", URL, "--json", "-").stdout)
    assert (document["exit_code"], document["error"]["remedy"]) == (4, "start it")


def test_options_reach_the_audit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[AuditConfig] = []

    def audit(config: AuditConfig, **_: object) -> None:
        seen.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr("draftproof.cli.check.audit", audit)
    options = [
        "--effort",
        "deep",
        "--alpha",
        "1e-4",
        "--checks",
        "a,b",
        "--checks",
        "c",
        "--samples",
        "9",
        "--seed",
        "3",
    ]
    more = ["--budget", "requests=5", "--timeout", "2.5", "--out", "e.gz", "--expect-speculation", "yes"]
    result = run("check", URL, *options, *more, env={"DRAFTPROOF_API_KEY_ENV": "LLM_KEY"})
    assert result.exit_code == 130
    (config,) = seen
    assert (config.effort, config.alpha, config.checks) == ("deep", 1e-4, ("a", "b", "c"))
    assert (config.samples, config.seed, config.budget.requests) == (9, 3, 5)
    assert (config.timeout, config.out, config.expect_speculation) == (2.5, Path("e.gz"), "yes")
    assert config.api_key_env == "LLM_KEY"


def test_environment_sets_what_no_option_does(run: Run) -> None:
    env = {"DRAFTPROOF_URL": URL, "DRAFTPROOF_JSON": "r.json", "DRAFTPROOF_EFFORT": "deep"}
    assert run("check", env=env).exit_code == 0
    assert json.loads(Path("r.json").read_text())["effort"] == "deep"
    run("check", "--effort", "standard", env=env)
    assert json.loads(Path("r.json").read_text())["effort"] == "standard"
    assert run("check", env={**env, "DRAFTPROOF_EFFORT": "heroic"}).exit_code == 2


def test_evidence_is_judged_again_offline(run: Run, checks: list[AnyCheck]) -> None:
    checks.append(FAULTY)
    first = run("check", URL, "--out", "e.jsonl.gz")
    again = run("rejudge", "e.jsonl.gz")
    assert again.exit_code == first.exit_code == 1
    assert "every verdict that was recorded comes out the same" in again.stdout
    document = json.loads(run("rejudge", "e.jsonl.gz", "--json", "-").stdout)
    assert (document["exit_code"], document["differences"]) == (1, [])


def test_other_verdict_than_recorded_is_told(run: Run, checks: list[AnyCheck]) -> None:
    run("check", URL, "--out", "e.jsonl.gz")
    examples = tuple(replace(e, verdict=Verdict.FAIL, codes=()) for e in SOUND.examples)
    failing = FAULTY.judge(Seen((0.0,)), None)  # type: ignore[arg-type]
    checks[0] = replace(SOUND, judge=lambda _e, _t: failing, examples=examples)
    result = run("rejudge", "e.jsonl.gz")
    assert result.exit_code == 1
    assert "differs: logprobs/sound: recorded as pass, now fail" in result.stdout


def test_evidence_cut_short_is_judged_and_told(run: Run) -> None:
    run("check", URL, "--out", "e.jsonl")
    path = Path("e.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    result = run("rejudge", path)
    assert result.exit_code == 3
    assert "cut short" in result.stdout


@pytest.mark.parametrize("content", ["not evidence", '{"a": 1}\n'])
def test_file_that_is_no_evidence_is_wrong_usage(run: Run, content: str) -> None:
    Path("x").write_text(content)
    result = run("rejudge", "x")
    assert result.exit_code == 2
    assert "evidence" in result.stderr


def test_explain_lists_all_checks(run: Run) -> None:
    result = run("explain")
    assert result.exit_code == 0
    assert "logprobs/sound" in result.stdout
    assert "the claim of self_report/absent" in result.stdout


def test_explain_tells_claim_decision_blindness_remedy_and_controls(run: Run) -> None:
    result = run("explain", "logprobs/sound")
    assert result.exit_code == 0
    for part in ("the claim of", "FAIL when every logprob is zero", "everything else", "the remedy of"):
        assert part in result.stdout
    assert "3 of 3 judged as they must be" in result.stdout
    assert "PLACEHOLDER" in result.stdout


def test_explain_knows_the_nearest_name(run: Run) -> None:
    result = run("explain", "sond")
    assert result.exit_code == 2
    assert "Did you mean logprobs/sound" in result.stderr


def test_version_and_help(run: Run) -> None:
    assert run("--version").stdout == f"draftproof {__version__}\n"
    text = run("--help").stdout
    assert all(name in text for name in COMMANDS)
    assert run().exit_code == 2
    text = run("check", "--help").stdout
    assert all(meaning in text for meaning in EXIT_CODES.values())
    assert "draftproof check http" in text


def test_unknown_command_is_wrong_usage(run: Run) -> None:
    result = run("chek", URL)
    assert result.exit_code == 2
    assert "chek" in result.stderr


def test_explain_tells_codes_and_terms(run: Run) -> None:
    told = run("explain", "PLACEHOLDER", "nat")
    assert told.exit_code == 0
    assert told.stdout.startswith("PLACEHOLDER: A token that was drafted carries a constant")
    assert "logprobs/sound" in told.stdout  # a check that says it
    assert "\nnat: The unit of logprobs" in told.stdout
    terms = run("explain", "terms").stdout
    for term in ("nat", "TV", "one-token oracle", "e-value", "countable model", "near-tie"):
        assert f"{term}: " in terms
    assert "draftproof explain terms" in run("explain").stdout


def test_explain_knows_the_nearest_code(run: Run) -> None:
    result = run("explain", "PLACEHOLDR")
    assert result.exit_code == 2
    assert "Did you mean PLACEHOLDER" in result.stderr


def test_refused_port_is_told_before_controls_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(draftproof.auditing, "all_checks", lambda: pytest.fail("checks were loaded"))
    result = CliRunner().invoke(cli, ["check", URL])
    assert result.exit_code == 4
    assert result.stdout == ""
    assert result.stderr.startswith(f"draftproof: No connection to {URL}")
    assert list(tmp_path.iterdir()) == []


def test_refused_port_of_a_comparison_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["compare", URL, URL])
    assert (result.exit_code, result.stdout) == (4, "")


@pytest.mark.parametrize("module", ["draftproof.cli.check", "draftproof.cli.compare"])
def test_help_and_refusals_need_no_check(module: str) -> None:
    loaded = (
        f"import {module}, sys; print([m for m in sys.modules if m in ('scipy.stats', 'draftproof.checks.builtin')])"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
