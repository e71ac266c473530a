"""A model at work: the memory of several sequences, and the call that reads tokens into it.

libllama answers a wrong argument by aborting the process, so everything is checked here before it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from draftproof.engine.backend import ContextFull, Rows, UnknownToken
from draftproof.engine.libllama import room
from draftproof.engine.libllama.batch import Batch, Row
from draftproof.engine.libllama.errors import ContextRejected, DecodeFailed, InvalidBatch
from draftproof.engine.libllama.model import Model
from draftproof.engine.libllama.owner import Owner
from draftproof.engine.libllama.switch import Switch

MOST_SEQUENCES = 256
"""A limit that is compiled into libllama."""
NO_FREE_CELL = 1
MOST_CELLS = 2**31 - 2**16
"""libllama counts them in 32 bits, rounded up for each sequence."""


class CacheType(IntEnum):
    """Number format of the key-value cache; the values are ggml's."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    IQ4_NL = 20
    BF16 = 30


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """What a context is made with.

    tokens: the most that one sequence can hold (0: what the model was trained for). sequences: how many there can be.
    batch: the most rows of one call. outputs: the most of them that can want logits (0: all); memory for that many rows of
    logits is set aside. threads: for calls of several rows; token_threads: for those of one (0: as
    many), where several would add in another order. flash: flash attention. unified: all sequences share one cache of
    `tokens * sequences` cells, so that sequences with unequal numbers of rows need no separate passes; the rounding of
    their numbers then depends on the neighbours.
    """

    tokens: int = 0
    sequences: int = 1
    batch: int = 512
    outputs: int = 0
    threads: int = 1
    token_threads: int = 0
    flash: bool = True
    keys: CacheType = CacheType.F16
    values: CacheType = CacheType.F16
    unified: bool = False

    @property
    def threads_of_one_row(self) -> int:
        return self.token_threads or self.threads


class AnyRow(Protocol):
    """Where a token goes, whatever else is read with it."""

    @property
    def sequence(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def token(self) -> int: ...


class Context(Owner):
    """Memory for `sequences` sequences, numbered from 0. One thread at a time may use it."""

    model: Model

    def __init__(self, model: Model, options: ContextOptions = ContextOptions(), beside: Context | None = None) -> None:
        """`beside`: this context drafts for that one: it runs the prediction head where both are of one model, else an
        EAGLE-3 draft.

        Raises ContextRejected when libllama cannot make it, most often for want of memory.
        """
        library = model.library
        params = library.lib.llama_context_default_params()
        params.n_ctx = _cells(model, options)
        params.n_batch = params.n_ubatch = options.batch
        params.n_outputs_max = options.outputs
        params.n_seq_max = options.sequences
        params.n_threads, params.n_threads_batch = options.threads_of_one_row, options.threads
        params.flash_attn_type = int(options.flash)
        params.type_k, params.type_v = int(options.keys), int(options.values)
        params.kv_unified = options.unified
        params.swa_full = True
        self._switch = Switch(library.ffi)
        params.abort_callback, params.abort_callback_data = self._switch.function, self._switch.argument
        params.offload_kqv = params.op_offload = model.options.gpu_layers != 0
        if beside is not None:
            params.ctx_type = int(beside.model is model)
            params.ctx_other = beside.pointer
        pointer = library.make(library.lib.llama_init_from_model, model.pointer, params)
        if pointer == library.ffi.NULL:
            raise _rejected(options, library.log.trouble())
        super().__init__(library, pointer, library.lib.llama_free)
        model.adopt(self)
        self.model = model
        self.options = options
        self.tokens = int(library.lib.llama_n_ctx_seq(pointer))
        self.batch = min(int(library.lib.llama_n_batch(pointer)), int(library.lib.llama_n_ubatch(pointer)))
        self.outputs = min(options.outputs or self.batch, self.batch)
        self._memory = library.lib.llama_get_memory(pointer)
        self._batch = Batch(library, self.batch)
        self._viewed: Any = None
        self._views: dict[int, Rows] = {}
        """By number of rows: the same for call after call, as libllama seldom moves its logits."""

    def length(self, sequence: int) -> int:
        """How many tokens the memory holds of a sequence."""
        return int(self.library.lib.llama_memory_seq_pos_max(self._live_memory(), self._known(sequence))) + 1

    def decode(self, rows: Sequence[Row]) -> Rows:
        """Reads the rows in one pass; float32[n, vocab], the logits after each row that wants them, in the order given.

        The result is a read-only view of libllama's own memory: it is valid until the next call of `decode` or `close`.
        The positions of a sequence must go on where its memory ends. Rows of one sequence should be neighbours, and the
        sequences ascend without gaps: only then is one pass over the weights enough for all. On an error nothing was read.
        Raises InvalidBatch, UnknownToken, ContextFull, DecodeFailed.
        """
        wanted = sum(row.wants_logits for row in rows)
        lengths = self.check(rows, wanted)
        code = self.library.lib.llama_decode(self.pointer, self._batch.fill(rows))
        if code:
            for sequence, length in lengths.items():
                self.remove(sequence, length)
            if code == NO_FREE_CELL:
                raise ContextFull(
                    f"The memory of {self.options.sequences} sequences has no room for {len(rows)} tokens more."
                )
            raise DecodeFailed(code, self.library.log.trouble())
        return self.logits(wanted)

    def abandon(self) -> None:
        """From any thread: the call of `decode` that is under way ends with DecodeFailed soon, and every later one at once.

        Where the processor computes, that is; a graphics processor ends its call first.
        """
        self._switch.turn()

    def remove(self, sequence: int, start: int) -> bool:
        """Forgets the tokens from position `start` on. False, and nothing happened, where the memory cannot do that."""
        return bool(self.library.lib.llama_memory_seq_rm(self._live_memory(), self._known(sequence), start, -1))

    def copy(self, source: int, target: int) -> None:
        """Makes the memory of `target` equal to that of `source`."""
        if self._known(source) == self._known(target):
            return
        self.remove(target, 0)
        self.library.lib.llama_memory_seq_cp(self._live_memory(), source, target, -1, -1)

    def save(self, sequence: int) -> bytes:
        """All that the memory holds of a sequence. Bit for bit what `load` brings back."""
        ffi, lib = self.library.ffi, self.library.lib
        size = lib.llama_state_seq_get_size(self.pointer, self._known(sequence))
        buffer = ffi.new("uint8_t[]", size)
        written = lib.llama_state_seq_get_data(self.pointer, buffer, size, sequence)
        return bytes(ffi.buffer(buffer, written))

    def load(self, sequence: int, state: bytes) -> None:
        """Replaces the memory of a sequence by what `save` returned. Raises DecodeFailed when libllama refuses it."""
        ffi, lib = self.library.ffi, self.library.lib
        self.remove(sequence, 0)
        if not lib.llama_state_seq_set_data(self.pointer, ffi.from_buffer("uint8_t[]", state), len(state), sequence):
            raise DecodeFailed(-2, f"A saved state was refused. {self.library.log.trouble()}")

    def logits(self, count: int) -> Rows:
        """float32[count, vocab]: the logits of the last call, which put out `count` rows. A view, as `decode` returns it."""
        vocab = self.model.vocab.size
        if not count:
            return np.empty((0, vocab), np.float32)
        pointer = self.library.lib.llama_get_logits(self.pointer)
        if pointer != self._viewed:
            self._views, self._viewed = {}, pointer
        view = self._views.get(count)
        if view is None:
            view = np.frombuffer(self.library.ffi.buffer(pointer, 4 * count * vocab), np.float32).reshape(count, vocab)
            view.flags.writeable = False
            self._views[count] = view
        return view

    def _live_memory(self) -> object:
        _ = self.pointer  # raises when closed: the memory is gone with the context
        return self._memory

    def _known(self, sequence: int) -> int:
        if not 0 <= sequence < self.options.sequences:
            raise InvalidBatch(f"Sequence {sequence} is outside [0, {self.options.sequences}).")
        return sequence

    def check(self, rows: Sequence[AnyRow], wanted: int) -> dict[int, int]:
        """The length of every sequence that the rows go on with; `wanted` of them want logits.

        Raises what `decode` says of rows that cannot be read.
        """
        if not 0 < len(rows) <= self.batch:
            raise InvalidBatch(f"A batch of {len(rows)} rows: expected 1 to {self.batch}.")
        if wanted > self.outputs:
            raise InvalidBatch(f"{wanted} rows want logits: there is room for {self.outputs}.")
        vocab = self.model.vocab.size
        before: dict[int, int] = {}
        after: dict[int, int] = {}
        for row in rows:
            sequence, position, token = row.sequence, row.position, row.token
            if sequence not in before:
                before[sequence] = after[sequence] = self.length(sequence)
            if not 0 <= token < vocab:
                raise UnknownToken(f"Token id {token} is outside [0, {vocab}).")
            if position != after[sequence]:
                raise InvalidBatch(f"Position {position} of sequence {sequence}: expected {after[sequence]}.")
            if position >= self.tokens:
                raise ContextFull(f"Sequence {sequence} is full: it holds {self.tokens} tokens.")
            after[sequence] += 1
        return before


def _rejected(options: ContextOptions, why: str) -> ContextRejected:
    """Of what libllama said; "" where it said nothing, which is seldom anything but want of memory."""
    wanted = f"{options.tokens or 'all its'} tokens in {options.sequences} sequences"
    if why and "alloc" not in why and "memory" not in why:
        remedy = "Change what it names (serve: -ctk and -ctv for the cache, -fa for flash attention, -c, -np)."
        return ContextRejected(f"libllama refuses {wanted}: {why}.", remedy)
    why = why or "libllama gives no reason"
    return ContextRejected(f"No memory for {wanted}: {why}.", "Take fewer of either (serve: -c, -np).")


def _cells(model: Model, options: ContextOptions) -> int:
    """How many tokens all sequences together hold. Raises ContextRejected for what cannot be."""
    if not 1 <= options.sequences <= MOST_SEQUENCES:
        raise ContextRejected(f"{options.sequences} sequences: expected 1 to {MOST_SEQUENCES}.")
    if min(options.batch, options.threads) < 1 or min(options.tokens, options.outputs, options.token_threads) < 0:
        raise ContextRejected(f"Batch and threads must be positive, tokens not negative: {options}.")
    cells = (options.tokens or model.trained_context) * options.sequences
    if cells > MOST_CELLS:
        raise ContextRejected(f"{cells} tokens in all sequences together: expected at most {MOST_CELLS}.")
    needed, available = room.cache_bytes(model, cells, options.keys, options.values), room.available_bytes()
    if model.options.gpu_layers == 0 and available is not None and needed > available:
        raise ContextRejected(
            f"A cache of {cells} tokens takes {needed / 2**30:.1f} GiB; {available / 2**30:.1f} GiB are available.",
            "Ask for a smaller context, fewer sequences, or a smaller type of cache.",
        )
    return cells
