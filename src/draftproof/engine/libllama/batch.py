"""Rows of input for one call of the model, in the arrays that libllama reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from draftproof.engine.libllama.library import Library


class Row(NamedTuple):
    """One token to read: into which sequence, at which position, and whether the logits after it are wanted."""

    sequence: int
    position: int
    token: int
    wants_logits: bool


class Batch:
    """Room for `capacity` rows. The memory is Python's, so there is nothing to free by hand."""

    def __init__(self, library: Library, capacity: int) -> None:
        ffi = library.ffi
        self._token = ffi.new("llama_token[]", capacity)
        self._position = ffi.new("llama_pos[]", capacity)
        self._sequence = ffi.new("llama_seq_id[]", capacity)
        self._logits = ffi.new("int8_t[]", capacity)
        self._counts = ffi.new("int32_t[]", [1] * capacity)
        self._sequences = ffi.new("llama_seq_id *[]", [self._sequence + i for i in range(capacity)])
        self.pointer: Any = ffi.new("llama_batch *")
        self.pointer.token = self._token
        self.pointer.pos = self._position
        self.pointer.n_seq_id = self._counts
        self.pointer.seq_id = self._sequences
        self.pointer.logits = self._logits

    def fill(self, rows: Sequence[Row]) -> Any:
        """Replaces the content; returns the C structure. At most `capacity` rows, each of them checked before."""
        tokens, positions, sequences, logits = self._token, self._position, self._sequence, self._logits
        for i, (sequence, position, token, wants_logits) in enumerate(rows):
            tokens[i] = token
            positions[i] = position
            sequences[i] = sequence
            logits[i] = wants_logits
        self.pointer.n_tokens = len(rows)
        return self.pointer[0]
