"""Locks between processes: one writer per evidence file, one audit per server. The system frees them when a process ends."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from draftproof.core.errors import Busy

if sys.platform == "win32":

    def lock(file: IO[Any]) -> bool:  # noqa: ARG001 - without such locks two writers are not noticed
        """Takes the lock of an open file until it is closed; False when another one has it."""
        return True

else:
    import fcntl

    def lock(file: IO[Any]) -> bool:
        """Takes the lock of an open file until it is closed; False when another one has it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True


@contextlib.contextmanager
def one_audit_of(url: str) -> Iterator[None]:
    """Holds the server at `url` for one audit on this machine. Raises Busy when another one is at work there."""
    path = Path(tempfile.gettempdir()) / f"draftproof-{hashlib.sha256(_server(url).encode()).hexdigest()[:16]}.lock"
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError:  # somebody else's file: that audit cannot be asked about
        yield
        return
    with file:
        if not lock(file):
            file.seek(0)
            pid = file.read(20).strip()
            raise Busy(
                f"Another audit of {url} is at work on this machine{f' (process {pid})' if pid else ''}.",
                "Wait for it to end: two audits at once would disturb each other's counters, caches and timing.",
            )
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def same_server(one: str, other: str) -> bool:
    """Whether two URLs name one host and port."""
    return _server(one) == _server(other)


def _server(url: str) -> str:
    parts = urlsplit(url)
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
