"""Objects that hold something libllama allocated, and give it back exactly once."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from draftproof.engine.libllama.errors import Closed
from draftproof.engine.libllama.library import Library


class Owner:
    """Frees its pointer on `close`, at the end of a `with`, or when it is collected, whichever comes first."""

    def __init__(self, library: Library, pointer: Any, free: Any) -> None:
        self.library = library
        self._pointer: Any = library.ffi.gc(pointer, free)

    @property
    def pointer(self) -> Any:
        """The C pointer. Raises Closed when it was freed."""
        if self._pointer is None:
            raise Closed(f"This {type(self).__name__} was closed.")
        return self._pointer

    @property
    def is_closed(self) -> bool:
        return self._pointer is None

    def close(self) -> None:
        """Gives the memory back. Closing twice is allowed."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self.library.ffi.release(pointer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
