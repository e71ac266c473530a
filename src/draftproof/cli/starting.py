"""`draftproof serve` before it serves: SIGINT and SIGTERM end it at once, whatever is imported, loaded or measured.

Nothing is raised where the signal finds the program: an exception in a callback from libllama, or in the import system's own
code, is swallowed there. This module is imported before anything that takes long, so it imports nothing that does.
"""

from __future__ import annotations

import os
import signal
import socket
import threading

ENDED = "stopped while loading"
_STDERR = 2


class Starting:
    """From `begin` until `over`, a signal ends the process with exit code 0. Both belong to the main thread.

    Handlers in Python run only between two steps of the main thread, which may be in libllama for long. The interpreter's own
    handler writes to a socket at once, and a thread that waits there ends the process.
    """

    def __init__(self) -> None:
        self._heard, self._told = socket.socketpair()
        self._is_over = False

    def begin(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        self._told.setblocking(False)
        signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._wait, name="starting", daemon=True).start()

    def _wait(self) -> None:
        self._heard.recv(1)
        if self._is_over:
            return
        try:
            os.write(_STDERR, f"{ENDED}\n".encode())
        finally:
            os._exit(0)  # nothing is open but what the system closes; to unwind would have to wait for libllama

    def over(self) -> None:
        """It serves: whoever serves has taken the signals."""
        self._is_over = True
        ours = self._told.fileno()
        other = signal.set_wakeup_fd(-1)
        if other != ours:
            signal.set_wakeup_fd(other)
        self._told.close()  # ends the thread


_starting: Starting | None = None


def begin() -> None:
    """The process is `draftproof serve`, and has not done anything yet."""
    global _starting  # noqa: PLW0603 - the signals of a process are one for all of it
    _starting = Starting()
    _starting.begin()


def over() -> None:
    """It serves. Does nothing without `begin`."""
    if _starting is not None:
        _starting.over()
