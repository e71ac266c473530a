"""`draftproof serve` on loopback, in a process of its own, as its users start it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from types import TracebackType
from typing import IO, Self

from draftproof.core.errors import UsageError
from draftproof.launch.llama_wheel import ServerDied

_LISTENS = "draftproof serves "
_STOP_S = 20


class OwnServer:
    """`with OwnServer("-m", target, "-md", draft) as server: server.url`.

    `flags` are those of `draftproof serve`; the port is a free one. Raises UsageError when the server refuses its flags or lacks
    packages, ServerDied when it does not start, or does not end cleanly (exit code 0) when it is told to.
    """

    def __init__(self, *flags: object) -> None:
        self.flags = tuple(map(str, flags))
        self.url = ""
        self._log: IO[bytes] | None = None
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._process is None:
            raise ServerDied("The server is not running.")
        return self._process.pid

    def log(self) -> str:
        """What the server has written to its standard error so far."""
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def start(self) -> Self:
        command = [sys.executable, "-m", "draftproof", "serve", "--port", "0", *self.flags]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in _end()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_LISTENS):
                self.url = line.removeprefix(_LISTENS).strip()
                return self
        code, log = self._end()
        text = f"draftproof serve ended with code {code} before it listened: {log[-800:]}"
        raise UsageError(text) if code == UsageError.exit_code else ServerDied(text)

    def stop(self) -> None:
        """By SIGTERM. Raises ServerDied unless it ends with exit code 0."""
        if self._process is None:
            return
        self._process.terminate()
        code, log = self._end()
        if code != 0:
            raise ServerDied(f"draftproof serve ended with code {code}: {log[-800:]}")

    def _end(self) -> tuple[int, str]:
        """Exit code and last words of a process that is about to end; it is killed if it does not."""
        process, self._process = self._process, None
        assert process is not None
        assert process.stdout is not None
        try:
            code = process.wait(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        process.stdout.close()
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
