"""Exit codes, pipes, signals and full disks, as a shell sees them."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The real command on fake checks; `long` sends a request every 10 ms until somebody stops it.
SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it
import draftproof.auditing, draftproof.auditing.live, draftproof.cli.rejudge
from draftproof.auditing import record
from draftproof.cli.main import main
from draftproof.core.ask import Ask
from tests.fakes import FAULTY, SOUND, FakeTarget, Seen, check

def long(probe):
    print("asking", file=sys.stderr, flush=True)
    for _ in range(2000):
        probe.ask(Ask("x", 1))
        time.sleep(0.01)
    return Seen((-1.0,))

def large(probe):
    return Seen(tuple(float(hash((i, "x")) % 1000003) for i in range(400000)))

CHECKS = {"sound": SOUND, "faulty": FAULTY, "long": check("a/long", long), "large": check("a/large", large)}
chosen = tuple(CHECKS[name] for name in sys.argv.pop(1).split(","))
for module in (draftproof.auditing, draftproof.cli.rejudge):
    module.all_checks = lambda: chosen
draftproof.auditing.live.open_live = FakeTarget().open
draftproof.auditing.require_listening = lambda url: None
main()
"""


def start(checks: str, *args: str, **extra: object) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **extra.pop("env", {})}  # type: ignore[dict-item]
    command = [sys.executable, "-c", SCRIPT, checks, *args]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **extra}
    return subprocess.Popen(command, env=env, **pipes)  # type: ignore[call-overload,no-any-return]


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


@pytest.mark.parametrize(("checks", "code"), [("sound", 0), ("sound,faulty", 1)])
def test_shell_sees_the_exit_code(checks: str, code: int) -> None:
    assert finish(start(checks, "check", "http://x"))[0] == code


def test_interrupt_keeps_evidence_and_reports_what_was_done(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl.gz"
    process = start("faulty,long,sound", "check", "http://x", "--out", str(path))
    assert process.stderr is not None
    assert process.stderr.readline() == b"asking\n"
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130
    assert "FAIL          logprobs/faulty" in out
    assert "interrupted" in out
    assert "exit 130" in out
    assert "Traceback" not in err
    kinds = [json.loads(line)["kind"] for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert kinds[-1] == "final"
    assert kinds.count("judgement") == 3
    assert finish(start("faulty,long,sound", "rejudge", str(path)))[0] == 1


def test_killed_audit_leaves_evidence_that_can_be_judged(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl.gz"
    process = start("faulty,long", "check", "http://x", "--out", str(path))
    assert process.stderr is not None
    process.stderr.readline()
    time.sleep(1.3)
    process.kill()
    finish(process)
    code, out, _ = finish(start("faulty,long", "rejudge", str(path)))
    assert code == 1
    assert "cut short" in out


def test_reader_that_goes_away_changes_no_exit_code() -> None:
    process = start("sound,faulty", "check", "http://x", "-v")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    code, _, err = finish(process)
    assert code == 1
    assert err == ""


def test_report_that_cannot_be_written_is_told() -> None:
    with Path("/dev/full").open("wb") as full:
        code, _, err = finish(start("sound,faulty", "check", "http://x", stdout=full))
    assert code == 1
    assert "No space left on device" in err
    assert "Traceback" not in err


def test_json_that_cannot_be_written_is_told_and_not_sound() -> None:
    code, out, err = finish(start("sound", "check", "http://x", "--json", "/dev/full"))
    assert code == 3
    assert "No space left on device" in err
    assert "logprobs/sound" in out


def test_evidence_that_outgrows_the_disk_stops_the_audit(tmp_path: Path) -> None:
    import resource

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    path = tmp_path / "e.jsonl.gz"
    process = start("faulty,large,sound", "check", "http://x", "--out", str(path), preexec_fn=small_files)
    code, out, err = finish(process)
    assert code == 1
    assert "FAIL          logprobs/faulty" in out
    assert "could not be continued" in out
    assert "not run" in out
    assert "Traceback" not in err
    code, out, _ = finish(start("faulty,large,sound", "rejudge", str(path)))
    assert code == 1
    assert "cut short" in out


def test_any_encoding_of_the_terminal_will_do() -> None:
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    code, out, err = finish(start("sound", "check", "http://x", env=env))
    assert code == 0
    assert err == ""
    assert r"\xb7" in out
