"""A switch that libllama looks at while it computes, so that a long call can be given up."""

from __future__ import annotations

from functools import cache
from typing import Any

import cffi


class Switch:
    """libllama calls `function` with `argument` between the steps of a computation and gives it up when it returns true.

    The function is the C library's strlen, and the argument a text that is empty until `turn`: one in Python would have to
    take the interpreter's lock hundreds of times for each token. Both are NULL where there is no C library to be asked.
    """

    def __init__(self, ffi: Any) -> None:
        self._text = ffi.new("char[2]")
        address = _strlen()
        self.function = ffi.cast("void *", address)
        self.argument = ffi.cast("void *", self._text) if address else ffi.NULL

    def turn(self) -> None:
        """From any thread. It cannot be turned back."""
        self._text[0] = b"x"


@cache
def _strlen() -> int:
    ffi: Any = cffi.FFI()
    ffi.cdef("size_t strlen(const char *);")
    try:
        library: Any = ffi.dlopen(None)
    except OSError:  # Windows has no library of the process
        return 0
    return int(ffi.cast("uintptr_t", ffi.addressof(library, "strlen")))
