"""How the threads wait that libllama computes with: after each of the hundreds of operations that a token takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_SPINS = 1000
"""SmolLM2 with two threads on two processors, milliseconds for a token with nothing else at work and with one other process:
7 and 1300 by default (300,000), 6 and 24 with 1000, 6 and 13 with 200, 19 and 11 where threads sleep at once."""


def wait_briefly() -> None:
    """Threads look a thousand times whether the others are done before they sleep; unless GOMP_SPINCOUNT or OMP_WAIT_POLICY is set.

    By default they look so long that where another process has one of their processors, each operation waits for it to be
    scheduled again. Before OpenMP is loaded; for libgomp.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(_SPINS))


def aside(call: Callable[[], T]) -> T:
    """What `call` returns or raises, called in a thread that ends.

    OpenMP keeps helpers for every thread that has called it, until that ends. Where all helpers together outnumber the
    processors they sleep between two operations: two threads then took 1.6 times as long.
    """
    with ThreadPoolExecutor(1, "aside") as own:
        return own.submit(call).result()
