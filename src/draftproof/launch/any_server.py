"""Any server that a command line starts, on a free port of loopback."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import time
from typing import Self

from draftproof.core.errors import UsageError
from draftproof.launch.process import LAST_WORDS, ServerDied, ServerProcess

PORT = "{port}"
_POLL_S = 0.1
_ANSWER_S = 5.0


class AnyServer(ServerProcess):
    """`with AnyServer("my-engine", "-m", target, "--port", "{port}") as server: server.url`.

    `command` is a program and its arguments; "{port}" in any of them becomes a free port. The server is there when it answers
    GET `health` with a status of 2xx or 3xx, for which it has `wait_s` seconds: enough to load a model. It runs in a process
    group of its own, so that stopping it stops the workers that it started.
    Raises UsageError for a command that cannot be run, ServerDied when the server does not start. Needs POSIX.
    """

    def __init__(self, *command: object, health: str = "/health", wait_s: float = 300.0) -> None:
        super().__init__()
        words = tuple(map(str, command))
        if not any(PORT in word for word in words):
            raise UsageError(
                f"The command {' '.join(words)!r} does not say where the port goes.",
                f'Write {PORT} in its place: any_server("my-engine", "--port", "{PORT}").',
            )
        if not health.startswith("/"):
            raise UsageError(f"health must be a path such as /health, not {health!r}.")
        self.command, self.health, self.wait_s = words, health, wait_s
        self.name = words[0].rpartition(os.sep)[2]

    def start(self) -> Self:
        port = _free_port()
        command = [word.replace(PORT, str(port)) for word in self.command]
        try:
            self._spawn(command, own_group=True)
        except OSError as error:
            raise UsageError(
                f"{command[0]!r} cannot be started: {error.strerror or error}.",
                "The program and each of its arguments are arguments of their own.",
            ) from None
        try:
            self._wait(port)
        except BaseException:  # Ctrl-C too: it does not reach another process group
            self.stop()
            raise
        self.url = f"http://127.0.0.1:{port}"
        return self

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + self.wait_s
        while not _answers(port, self.health):
            if (code := self.ended) is not None:
                raise ServerDied(f"{self.name} ended with code {code} before it listened: {self.log()[-LAST_WORDS:]}")
            if time.monotonic() > deadline:
                raise ServerDied(
                    f"{self.name} did not answer GET {self.health} within {self.wait_s:g} s: {self.log()[-LAST_WORDS:]}",
                    "Give it longer (wait_s=...), or name the path at which it says that it is ready (health=...).",
                )
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """By SIGTERM to it and to what it started; what is left then, or does not end, is killed."""
        if self._process is None:
            return
        group = self.pid
        _signal_group(group, signal.SIGTERM)
        self._end()
        _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # all of it has ended
        os.killpg(group, number)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    return port


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)
    try:
        connection.request("GET", path)
        return 200 <= connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
