"""`draftproof serve` on loopback, in a process of its own, as its users start it."""

from __future__ import annotations

import sys
from typing import Self

from draftproof.core.errors import UsageError
from draftproof.launch.process import LAST_WORDS, ServerDied, ServerProcess


class OwnServer(ServerProcess):
    """`with OwnServer("-m", target, "-md", draft) as server: server.url`.

    `flags` are those of `draftproof serve`; the port is a free one. Raises UsageError when the server refuses its flags or lacks
    packages, ServerDied when it does not start, or does not end cleanly (exit code 0) when it is told to.
    """

    name = "draftproof serve"

    def __init__(self, *flags: object) -> None:
        super().__init__()
        self.flags = tuple(map(str, flags))

    def start(self) -> Self:
        self._spawn([sys.executable, "-m", "draftproof", "serve", "--port", "0", *self.flags], talks=True)
        if self._listens("draftproof serves "):
            return self
        code, log = self._end()
        text = f"draftproof serve ended with code {code} before it listened: {log[-LAST_WORDS:]}"
        raise UsageError(text) if code == UsageError.exit_code else ServerDied(text)

    def stop(self) -> None:
        """By SIGTERM. Raises ServerDied unless it ends with exit code 0."""
        if self._process is None:
            return
        self._process.terminate()
        code, log = self._end()
        if code != 0:
            raise ServerDied(f"draftproof serve ended with code {code}: {log[-LAST_WORDS:]}")
