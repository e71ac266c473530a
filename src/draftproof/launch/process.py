"""A server in a process of its own: its log, its end, and how it is stopped by its own process id."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Self

from draftproof.core.errors import DraftproofError

STOP_S = 20.0
LAST_WORDS = 800
"""Characters of a log that go into a message."""


class ServerDied(DraftproofError):
    """The server ended before it listened, or while it was needed."""

    exit_code = 3


class ServerProcess(ABC):
    """`with` starts it, waits until it listens at `url`, and stops it."""

    name = "the server"

    def __init__(self) -> None:
        self.url = ""
        self._log: IO[bytes] | None = None
        self._process: subprocess.Popen[str] | None = None

    @abstractmethod
    def start(self) -> Self:
        """Returns when the server listens. Raises ServerDied when it does not come to that."""

    @abstractmethod
    def stop(self) -> None:
        """Returns when the process is gone; does nothing for a server that was not started."""

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._process is None:
            raise ServerDied("The server is not running.")
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """Exit code of a server that was started and ended by itself (below 0: the signal that ended it); None otherwise."""
        return None if self._process is None else self._process.poll()

    def log(self) -> str:
        """What the server has written to its log so far; "" when it is not running."""
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def require_running(self, *, patience_s: float = 0.0) -> None:
        """Raises ServerDied, with the end of its log, for a server that ended by itself, or does so within `patience_s`."""
        if self._process is not None and patience_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=patience_s)
        if (code := self.ended) is not None:
            raise ServerDied(f"{self.name} at {self.url} ended with code {code}: {self.log()[-LAST_WORDS:]}")

    def _spawn(self, command: Sequence[str], *, talks: bool = False, own_group: bool = False) -> subprocess.Popen[str]:
        """Starts `command`. It `talks` when its standard output is read here and its input held open; else both outputs are its
        log. Signals to `own_group` reach what it starts, too.
        """
        log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in _end()
        piped = subprocess.PIPE if talks else None
        try:
            self._process = subprocess.Popen(
                command,
                stdin=piped or subprocess.DEVNULL,
                stdout=piped or log,
                stderr=log,
                text=True,
                start_new_session=own_group,
            )
        except BaseException:
            log.close()
            raise
        self._log = log
        return self._process

    def _listens(self, greeting: str) -> bool:
        """Reads what a server that talks says, until it greets with its URL; False when it ended before."""
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(greeting):
                self.url = line.removeprefix(greeting).strip()
                return True
        return False

    def _end(self, patience_s: float = STOP_S) -> tuple[int, str]:
        """Exit code and log of a process that is about to end; it is killed if it does not."""
        process, self._process = self._process, None
        assert process is not None
        try:
            code = process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        for pipe in filter(None, (process.stdin, process.stdout)):
            pipe.close()
        log = self.log()
        if self._log is not None:
            self._log.close()
            self._log = None
        return code, log

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
