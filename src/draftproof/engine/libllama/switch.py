"""A switch that libllama looks at while it computes, so that a long call can be given up."""

from __future__ import annotations

from typing import Any

from draftproof.engine.libllama import libc


class Switch:
    """libllama calls `function` with `argument` between the steps of a computation and gives it up when it returns true.

    The function is the C library's strlen, and the argument a text that is empty until `turn`: one in Python would have to
    take the interpreter's lock hundreds of times for each token. Both are NULL where there is no C library to be asked.
    """

    def __init__(self, ffi: Any) -> None:
        self._text = ffi.new("char[2]")
        address = libc.address("strlen", "size_t strlen(const char *);")
        self.function = ffi.cast("void *", address)
        self.argument = ffi.cast("void *", self._text) if address else ffi.NULL

    def turn(self) -> None:
        """From any thread. It cannot be turned back."""
        self._text[0] = b"x"
