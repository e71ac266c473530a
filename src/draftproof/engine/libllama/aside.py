"""Calls of libllama that are not the engine's, in threads that end.

OpenMP, which libllama computes with, keeps helpers for every thread that has called it. Where all helpers together outnumber
the processors they sleep between two operations, of which a token has hundreds: two threads then took 1.6 times as long.
The helpers of a thread end with it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def aside(call: Callable[[], T]) -> T:
    """What `call` returns or raises, called in a thread of its own."""
    with ThreadPoolExecutor(1, "aside") as own:
        return own.submit(call).result()
