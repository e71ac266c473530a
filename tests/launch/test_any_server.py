"""Servers that a command line starts."""

from __future__ import annotations

import os
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from draftproof.core.errors import UsageError
from draftproof.launch.any_server import AnyServer
from draftproof.launch.process import ServerDied

FILES = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "{port}")
PARENT = """
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", sys.argv[1]])
pathlib.Path(sys.argv[2]).write_text(str(child.pid))
child.wait()
"""


def is_there(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_server_listens_on_a_port_of_its_own_until_it_is_stopped() -> None:
    with AnyServer(*FILES, health="/") as server:
        pid = server.pid
        with urllib.request.urlopen(f"{server.url}/") as answer:
            assert answer.status == 200
        assert server.ended is None
        assert '"GET / HTTP/1.1" 200' in server.log()
        assert server.name == os.path.basename(sys.executable)  # noqa: PTH119 - no path is looked up
    assert not is_there(pid)


def test_what_a_server_started_is_stopped_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with AnyServer(sys.executable, "-c", PARENT, "{port}", note, health="/"):
        child = int(note.read_text(encoding="utf-8"))
        assert is_there(child)
    deadline = time.monotonic() + 5
    while is_there(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_there(child)


def test_server_that_dies_is_reported_with_its_last_words() -> None:
    with pytest.raises(ServerDied, match=r"ended with code 3 before it listened: no weights on port \d+"):
        AnyServer(sys.executable, "-c", "print('no weights on port {port}'); raise SystemExit(3)").start()


def test_server_that_is_never_ready_is_stopped() -> None:
    server = AnyServer(*FILES, health="/ready", wait_s=0.5)
    with pytest.raises(ServerDied, match=r"did not answer GET /ready within 0.5 s:") as caught:
        server.start()
    assert "health=" in caught.value.remedy
    assert server.ended is None
    with pytest.raises(ServerDied, match="not running"):
        server.pid  # noqa: B018 - raises


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("engine", "--port", "8080"), "does not say where the port goes"),
        (("/no/such/engine", "{port}"), "cannot be started: No such file"),
        (("engine --port {port}",), "cannot be started"),
    ],
)
def test_command_that_cannot_be_run_is_refused(command: tuple[str, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        AnyServer(*command).start()
    assert caught.value.__cause__ is None  # no second traceback above the message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
