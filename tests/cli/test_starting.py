"""`draftproof serve` is told to end before it serves, or as soon as it does: in imports, while it loads or measures, deep in C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.engine.libllama.models import smollm2

from draftproof.cli.starting import ENDED
from draftproof.countable.files import write_pair

BOTH = (signal.SIGINT, signal.SIGTERM)
IN_C = """
import hashlib
from draftproof.cli import starting
starting.begin()
print("computing", flush=True)
hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)  # gives the interpreter free, and takes minutes
"""
IN_C_AND_OVER = IN_C.replace("print(", "starting.over(); print(").replace("10**9", "10**6")


def told_to_end(process: subprocess.Popen[str], at: str, number: signal.Signals) -> tuple[int, str]:
    """Sends the signal once a line of stderr has `at` in it. Exit code, and what was said after that line."""
    impatient = threading.Timer(30, process.kill)
    impatient.start()
    try:
        assert process.stderr is not None
        assert any(at in line for line in process.stderr), f"never said {at!r}"
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
        return process.returncode, said
    finally:
        impatient.cancel()
        process.kill()


def serve(*flags: object, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [sys.executable, *options, "-m", "draftproof", "serve", "--port", "0", *map(str, flags)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", BOTH, ids=str)
@pytest.mark.parametrize("module", ["click.core", "draftproof.cli.serve_options", "numpy", "uvicorn"])
def test_a_signal_in_the_midst_of_imports_is_a_clean_end(module: str, number: signal.Signals) -> None:
    process = serve("--table", "story", options=("-X", "importtime"))
    code, said = told_to_end(process, f" {module}\n", number)
    spoken = [line for line in said.splitlines() if not line.startswith("import time:")]
    assert (code, spoken[-1:]) == (0, [ENDED])
    assert "Traceback" not in said
    assert "ignored" not in said


@pytest.mark.real
@pytest.mark.parametrize("number", BOTH, ids=str)
@pytest.mark.parametrize("phase", ["loading", "measuring"])
def test_a_signal_while_a_model_is_loaded_or_measured_is_a_clean_end(
    phase: str, number: signal.Signals, tmp_path: Path
) -> None:
    target, draft, _ = write_pair(tmp_path)
    code, said = told_to_end(serve("-m", target, "-md", draft), phase, number)
    assert code == 0
    assert (ENDED in said) == (phase == "loading")  # it serves while it measures
    assert "Traceback" not in said
    assert "ignored" not in said


@pytest.mark.real
def test_a_signal_does_not_wait_for_the_measurement() -> None:
    process = serve("-m", smollm2(), "--spec-type", "ngram-simple", "-t", 1)
    code, said = told_to_end(process, "measuring", signal.SIGTERM)
    assert (code, said) == (0, "")


@pytest.mark.parametrize("number", BOTH, ids=str)
def test_a_signal_that_finds_the_program_deep_in_c_does_not_wait(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", IN_C], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        try:
            assert process.wait(timeout=10) == 0
        finally:
            process.kill()
        assert process.stderr is not None
        assert process.stderr.read().decode() == f"{ENDED}\n"


def test_once_it_serves_signals_are_for_whoever_serves() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", IN_C_AND_OVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, b"")
