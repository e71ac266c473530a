"""Functions of the C library for libllama to call: one in Python would have to take the interpreter's lock each time."""

from __future__ import annotations

from functools import cache
from typing import Any

import cffi


@cache
def address(name: str, declaration: str) -> int:
    """Where a function of the C library is; 0 where there is no such library to be asked, as on Windows."""
    ffi: Any = cffi.FFI()
    ffi.cdef(declaration)
    try:
        library: Any = ffi.dlopen(None)
    except OSError:
        return 0
    return int(ffi.cast("uintptr_t", ffi.addressof(library, name)))
