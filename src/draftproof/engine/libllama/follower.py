"""Contexts that draft for another one: they read every token together with a hidden row of the position before.

The row is one that the target put out or, further ahead, their own. These calls are no public interface of libllama, so they
are made for the pinned build only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from draftproof.engine.backend import Rows
from draftproof.engine.libllama.carrier import REMEDY
from draftproof.engine.libllama.cdefs import GET_HIDDEN, PUT_OUT_HIDDEN
from draftproof.engine.libllama.context import Context
from draftproof.engine.libllama.errors import ContextRejected, DecodeFailed, InvalidBatch
from draftproof.engine.libllama.owner import Owner

Hidden = NDArray[np.float32]
ENCODE, DECODE = 0, 1


class Tap(Protocol):
    """Takes from a target, at every `decode`, the hidden rows that drafts are made from."""

    def open(self, context: Context) -> None:
        """From here on every `decode` of the context also gives them. Raises ContextRejected."""
        ...

    def rows(self, context: Context, counts: Sequence[int]) -> list[Hidden]:
        """float32[n, width], copied, for each n of `counts`: the last `decode` read so many rows, of one sequence after
        the other.
        """
        ...


class HeadRow(NamedTuple):
    """One token to read, with the hidden row of the position before: float32[width]."""

    sequence: int
    position: int
    token: int
    hidden: Hidden


@dataclass(frozen=True, slots=True)
class HeadRows:
    """What was put out after each row: logits float32[n, vocab] and hidden float32[n, width].

    Both are read-only views, valid until the next `decode`.
    """

    logits: Rows
    hidden: Hidden


def put_out_hidden_rows(context: Context, *, masked: bool = False) -> None:
    """From here on every `decode` of the context also gives one hidden row for each row read (`masked`: for each that wants
    logits); see `hidden_rows`. Raises ContextRejected.
    """
    check_build(context)
    getattr(context.library.lib, PUT_OUT_HIDDEN)(context.pointer, True, masked)


def check_build(context: Context) -> None:
    """Raises ContextRejected for a library that is not known to work so."""
    library = context.library
    if not library.has_heads:
        raise ContextRejected(
            f"{library.source} is not a build whose prediction heads and EAGLE-3 drafts are known to work.",
            REMEDY,
        )


def hidden_rows(context: Context, count: int, width: int = 0) -> Hidden:
    """float32[count, width]: the hidden rows of the last call, which put out `count` rows. A view, like the logits.

    width: 0 for that of the model's output.
    """
    pointer = getattr(context.library.lib, GET_HIDDEN)(context.pointer)
    return view_rows(context, pointer, count, width or context.model.output_width)


def view_rows(context: Context, pointer: Any, count: int, width: int) -> Hidden:
    """float32[count, width] at a pointer into a context's memory, read-only. Raises DecodeFailed for NULL."""
    ffi = context.library.ffi
    if pointer == ffi.NULL:
        raise DecodeFailed(-2, "The model put out no hidden rows.")
    view = np.frombuffer(ffi.buffer(pointer, 4 * count * width), np.float32).reshape(count, width)
    view.flags.writeable = False
    return view


class Follower(Owner):
    """A context that drafts, with a memory for as many sequences as its target has.

    width: the length of its hidden rows. lag: so many tokens at the beginning of a text take no place in its memory: it has
    the token at index i at position i - lag.
    """

    lag: ClassVar[int] = 0
    set_hidden: ClassVar[str] = "llama_batch_ext_set_embd_state"

    def __init__(self, context: Context, width: int) -> None:
        library = context.library
        super().__init__(library, library.lib.llama_batch_ext_init(context.pointer), library.lib.llama_batch_ext_free)
        self.context = context
        self.width = width

    def close(self) -> None:
        super().close()
        self.context.close()

    def decode(self, rows: Sequence[HeadRow]) -> HeadRows:
        """Reads the rows in one pass. On an error nothing was read.

        NOTE: always with an output for each row. With outputs for some of the rows only, this build gives hidden rows of
        the wrong tokens for some architectures, and aborts for others when asked for all of them.
        Raises InvalidBatch, UnknownToken, ContextFull, DecodeFailed.
        """
        self._process(rows, wants=True)
        return HeadRows(self.context.logits(len(rows)), hidden_rows(self.context, len(rows), self.width))

    def read(self, rows: Sequence[HeadRow]) -> None:
        """Like `decode`, without any output."""
        self._process(rows, wants=False)

    def _process(self, rows: Sequence[HeadRow], *, wants: bool) -> None:
        for row in rows:
            if row.hidden.shape != (self.width,):
                raise InvalidBatch(f"A hidden row has shape {row.hidden.shape}; expected ({self.width},).")
        lengths = self.context.check(rows, len(rows) if wants else 0)
        # The batch points into this array rather than copying it.
        states = np.ascontiguousarray([row.hidden for row in rows], np.float32)
        code = self.library.lib.llama_process(self.context.pointer, DECODE, self._fill(rows, states, wants))
        if code:
            for sequence, length in lengths.items():
                self.context.remove(sequence, length)
            raise DecodeFailed(code, self.library.log.trouble())

    def _fill(self, rows: Sequence[HeadRow], states: Hidden, wants: bool) -> Any:
        ffi, lib, batch = self.library.ffi, self.library.lib, self.pointer
        set_hidden = getattr(lib, self.set_hidden)
        lib.llama_batch_ext_clear(batch)
        position = ffi.new("llama_pos *")
        state = ffi.new("struct llama_embd *")
        state.n_rows, state.n_embd = 1, self.width
        first = ffi.cast("float *", states.ctypes.data)
        for i, row in enumerate(rows):
            index = lib.llama_batch_ext_add_token(batch, row.sequence, row.token)
            position[0], state.data = row.position, first + i * self.width
            if not (
                index == i
                and lib.llama_batch_ext_set_pos(batch, i, position)
                and set_hidden(batch, i, state[0])
                and lib.llama_batch_ext_set_output_logits(batch, i, wants)
            ):
                raise InvalidBatch(f"libllama refused row {i} of a batch for what drafts (code {index}).")
        return batch
