"""Multi-token-prediction heads: a block of the model that guesses on from the model's own hidden rows.

Every token is read together with a hidden row: the one that the model (or, further ahead, the head itself) put out at the
position before. These calls are no public interface of libllama, so they are made for the pinned build only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from draftproof.engine.backend import Rows
from draftproof.engine.libllama.cdefs import GET_HIDDEN, PUT_OUT_HIDDEN
from draftproof.engine.libllama.context import Context
from draftproof.engine.libllama.errors import ContextRejected, DecodeFailed, InvalidBatch
from draftproof.engine.libllama.owner import Owner

Hidden = NDArray[np.float32]
_DECODE = 1


class HeadRow(NamedTuple):
    """One token to read, with the hidden row of the position before: float32[width]."""

    sequence: int
    position: int
    token: int
    hidden: Hidden


@dataclass(frozen=True, slots=True)
class HeadRows:
    """What a head put out after each row: logits float32[n, vocab] and hidden float32[n, width].

    Both are read-only views, valid until the next `decode` of the head.
    """

    logits: Rows
    hidden: Hidden


def put_out_hidden_rows(context: Context) -> None:
    """From here on every `decode` of the context also gives one hidden row for each row read; see `hidden_rows`."""
    library = context.library
    if not library.has_heads:
        raise ContextRejected(f"{library.source} is not a build whose prediction heads are known to work.")
    _put_out(context, masked=False)


def hidden_rows(context: Context, count: int) -> Hidden:
    """float32[count, width]: the hidden rows of the last `decode`, which read `count` rows. A view, like the logits."""
    library, width = context.library, context.model.output_width
    pointer = getattr(library.lib, GET_HIDDEN)(context.pointer)
    if pointer == library.ffi.NULL:
        raise DecodeFailed(-2, "The model put out no hidden rows.")
    view = np.frombuffer(library.ffi.buffer(pointer, 4 * count * width), np.float32).reshape(count, width)
    view.flags.writeable = False
    return view


def _put_out(context: Context, *, masked: bool) -> None:
    getattr(context.library.lib, PUT_OUT_HIDDEN)(context.pointer, True, masked)


class Head(Owner):
    """The prediction head of a target context's model, with a memory of its own for as many sequences."""

    def __init__(self, target: Context) -> None:
        """Makes `target` put out hidden rows.

        Raises ContextRejected when the model has no head, was loaded without it (`ModelOptions.heads`), or the build is not
        the one that heads are known to work with.
        """
        model, library = target.model, target.library
        if not model.heads:
            raise ContextRejected(f"{model.path} has no prediction head.")
        if not model.options.heads:
            raise ContextRejected(f"{model.path} was loaded without its prediction head.")
        put_out_hidden_rows(target)
        self.context = Context(
            model,
            replace(target.options, tokens=target.tokens),
            head_of=target,
        )
        _put_out(self.context, masked=True)
        super().__init__(
            library, library.lib.llama_batch_ext_init(self.context.pointer), library.lib.llama_batch_ext_free
        )
        self.width = model.output_width

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
        return HeadRows(self.context.logits(len(rows)), hidden_rows(self.context, len(rows)))

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
        code = self.library.lib.llama_process(self.context.pointer, _DECODE, self._fill(rows, states, wants))
        if code:
            for sequence, length in lengths.items():
                self.context.remove(sequence, length)
            raise DecodeFailed(code, self.library.log.trouble())

    def _fill(self, rows: Sequence[HeadRow], states: Hidden, wants: bool) -> Any:
        ffi, lib, batch = self.library.ffi, self.library.lib, self.pointer
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
                and lib.llama_batch_ext_set_embd_state(batch, i, state[0])
                and lib.llama_batch_ext_set_output_logits(batch, i, wants)
            ):
                raise InvalidBatch(f"libllama refused row {i} of a batch for the prediction head (code {index}).")
        return batch
