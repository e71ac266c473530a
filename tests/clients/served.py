"""`draftproof serve` in a process of its own, as clients find it."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PAIR = Path(__file__).parent.parent / "data" / "countable-independent"
EXACT = ("-c", 512, "-ctk", "f32", "-ctv", "f32", "--flash-attn", "off")
TARGET = ("-m", PAIR / "target.gguf", *EXACT)
DRAFTING = (*TARGET, "-md", PAIR / "draft.gguf", "--no-spec-adaptive")
_LISTENS = "draftproof serves "


class Ended(Exception):
    """The server ended before it listened."""


@contextmanager
def serve(*flags: object) -> Iterator[str]:
    """The URL of a server that was started with these flags, on a free port. It must end cleanly when it is told to."""
    command = [sys.executable, "-m", "draftproof", "serve", "--port", "0", *map(str, flags)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        with process.stdout:
            try:
                yield _url(process.stdout, log)
            finally:
                process.terminate()
                code = process.wait(timeout=20)
        assert code in (0, -signal.SIGTERM), f"the server ended with {code}"


def _url(said: IO[str], log: IO[bytes]) -> str:
    for line in said:
        if line.startswith(_LISTENS):
            return line.removeprefix(_LISTENS).strip()
    log.seek(0)
    raise Ended(log.read().decode(errors="replace")[-2000:])
