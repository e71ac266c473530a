"""libllama's log lines as records of the logger `draftproof.engine.libllama`.

Quiet unless the application configures logging. The last warnings and errors are kept, because libllama reports why a
file does not load in its log only.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from draftproof.engine.libllama import libc

LOGGER = logging.getLogger("draftproof.engine.libllama")
LOGGER.addHandler(logging.NullHandler())

_LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.WARNING, 4: logging.ERROR}
_CONTINUES = 5
KEPT_LINES = 20


class Log:
    """Receives pieces of lines. libllama calls it from whatever thread it runs in; cffi takes the GIL first."""

    def __init__(self) -> None:
        self._level = logging.DEBUG
        self._line = ""
        self._trouble: deque[str] = deque(maxlen=KEPT_LINES)

    def write(self, level: int, text: str) -> None:
        """`level` is ggml's: 1 debug, 2 information, 3 warning, 4 error, 5 goes on with the line before."""
        if level != _CONTINUES:
            self._level = _LEVELS.get(level, logging.DEBUG)
        self._line += text
        if "\n" not in self._line:
            return
        *lines, self._line = self._line.split("\n")
        for line in lines:
            LOGGER.log(self._level, "%s", line)
            if self._level >= logging.WARNING and line.strip():
                self._trouble.append(line.strip())

    def forget(self) -> None:
        """Starts a new collection of trouble, before a call whose failure is to be explained."""
        self._trouble.clear()

    def trouble(self) -> str:
        """The warnings and errors since `forget`, on one line; empty when there were none."""
        return " | ".join(self._trouble)


class Ear:
    """Has a library tell its log. Must live as long as the library is used."""

    def __init__(self, ffi: Any, lib: Any, log: Log) -> None:
        def receive(level: int, text: Any, _: Any) -> None:
            log.write(level, ffi.string(text).decode(errors="replace"))

        self._lib, self._nothing = lib, ffi.NULL
        self._listens = ffi.callback("ggml_log_callback", receive)
        address = libc.address("abs", "int abs(int);")  # does nothing with the line
        self._ignores = ffi.cast("ggml_log_callback", address) if address else self._listens
        self.open()

    def open(self) -> None:
        """Every line is heard."""
        self._lib.llama_log_set(self._listens, self._nothing)

    def close(self) -> None:
        """Nothing is heard, and the interpreter's lock, which a line has to wait for, is not needed."""
        self._lib.llama_log_set(self._ignores, self._nothing)
