"""`draftproof serve` in a process of its own, as clients find it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftproof.launch.own_server import OwnServer

PAIR = Path(__file__).parent.parent / "data" / "countable-independent"
EXACT = ("-c", 512, "-ctk", "f32", "-ctv", "f32", "--flash-attn", "off")
TARGET = ("-m", PAIR / "target.gguf", *EXACT)
DRAFTING = (*TARGET, "-md", PAIR / "draft.gguf", "--no-spec-adaptive")


@contextmanager
def serve(*flags: object) -> Iterator[str]:
    """The URL of a server that was started with these flags, on a free port. It must end cleanly when it is told to."""
    with OwnServer(*flags) as server:
        yield server.url
