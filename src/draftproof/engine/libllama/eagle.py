"""EAGLE-3: a draft of one block that guesses on from what three layers of its target read.

Its encoder makes one row of the three; its decoder reads each token with the row of the position before, or with its own
last one. Embeddings and output are the target's where the file has none. Li et al. 2025, arXiv 2503.01840.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from draftproof.engine.libllama import cdefs
from draftproof.engine.libllama.context import Context
from draftproof.engine.libllama.errors import ContextRejected, DecodeFailed, InvalidBatch
from draftproof.engine.libllama.follower import (
    ENCODE,
    Follower,
    Hidden,
    check_build,
    hidden_rows,
    put_out_hidden_rows,
    view_rows,
)
from draftproof.engine.libllama.model import Model


def target_layers(draft: Model) -> tuple[int, ...]:
    """The layers of its target whose inputs a draft reads, as its file names them."""
    lib = draft.library.lib
    layers = getattr(lib, cdefs.TARGET_LAYERS)(draft.pointer)
    return tuple(layers[i] for i in range(getattr(lib, cdefs.TARGET_LAYERS_COUNT)(draft.pointer)))


def check_fit(target: Model, draft: Model) -> None:
    """Raises ContextRejected for a draft that was made for another target. Whether the target shows its layers is not
    asked here: a libllama that cannot do that says so by aborting the process (see `rehearsal`).
    """
    wanted = draft.metadata.get("eagle3.target_hidden_size")
    if wanted is not None and int(wanted) != target.width:
        raise ContextRejected(
            f"{draft.path} drafts for a target with hidden rows of {wanted} numbers; {target.path} has {target.width}.",
            "Take the EAGLE-3 draft of this very model.",
        )
    layers = target_layers(draft)
    if not layers or not all(0 <= layer <= target.layers for layer in layers):
        raise ContextRejected(
            f"{draft.path} reads the layers {', '.join(map(str, layers)) or 'none'} of its target; {target.path} has "
            f"{target.layers}.",
            "Take the EAGLE-3 draft of this very model.",
        )


class LayersTap:
    """What the layers of the target read, made into rows for the draft."""

    def __init__(self, eagle: Eagle, layers: Sequence[int]) -> None:
        self._eagle = eagle
        self._layers = tuple(layers)

    def open(self, context: Context) -> None:
        check_build(context)
        for layer in self._layers:
            if layer == context.model.layers:  # what the last block puts out is no layer's input
                put_out_hidden_rows(context)
            else:
                getattr(context.library.lib, cdefs.PUT_OUT_LAYER)(context.pointer, layer, True)

    def rows(self, context: Context, counts: Sequence[int]) -> list[Hidden]:
        # one call for each sequence: its rows must not depend on who else is read
        features = np.concatenate([self._layer(context, layer, sum(counts)) for layer in self._layers], axis=1)
        return [self._eagle.encode(own) for own in np.split(features, np.cumsum(counts)[:-1])]

    def _layer(self, context: Context, layer: int, count: int) -> Hidden:
        if layer == context.model.layers:
            return hidden_rows(context, count)
        pointer = getattr(context.library.lib, cdefs.GET_LAYER)(context.pointer, layer)
        return view_rows(context, pointer, count, context.model.width)


class Eagle(Follower):
    """An EAGLE-3 draft beside the context of its target. `tap` takes from the target what it reads."""

    lag: ClassVar[int] = 1
    set_hidden: ClassVar[str] = "llama_batch_ext_set_embd_token"

    def __init__(self, target: Context, draft: Model) -> None:
        """Raises ContextRejected for a draft that does not fit, or a build that is not known to work so."""
        check_build(target)
        check_fit(target.model, draft)
        context = Context(draft, replace(target.options, tokens=target.tokens), beside=target)
        put_out_hidden_rows(context, masked=True)
        super().__init__(context, draft.width)
        layers = target_layers(draft)
        self.features = len(layers) * target.model.width
        self.tap = LayersTap(self, layers)

    def encode(self, features: Hidden) -> Hidden:
        """float32[n, width], copied: the rows that the decoder reads, from float32[n, features]."""
        if features.ndim != 2 or features.shape[1] != self.features:
            raise InvalidBatch(f"Features have shape {features.shape}; expected (n, {self.features}).")
        # all rows are put out, so no more at once than there is room for
        size = self.context.outputs
        parts = [self._encode(features[i : i + size]) for i in range(0, len(features), size)]
        return np.concatenate(parts) if parts else np.empty((0, self.width), np.float32)

    def _encode(self, features: Hidden) -> Hidden:
        ffi, lib, batch = self.library.ffi, self.library.lib, self.pointer
        lib.llama_batch_ext_clear(batch)
        features = np.ascontiguousarray(features, np.float32)
        row, first = ffi.new("struct llama_embd *"), ffi.cast("float *", features.ctypes.data)
        row.n_rows, row.n_embd = 1, self.features
        # the encoder looks at no position, but a batch has some; up to four for each row
        position, start = ffi.new("llama_pos[4]"), self.context.length(0)
        for i in range(len(features)):
            row.data = first + i * self.features
            position[0:3] = [start + i] * 3
            index = lib.llama_batch_ext_add_embd(batch, 0, row[0])
            if not (
                index == i
                and lib.llama_batch_ext_set_pos(batch, i, position)
                and lib.llama_batch_ext_set_output_logits(batch, i, True)
            ):
                raise InvalidBatch(f"libllama refused row {i} of a batch for the encoder (code {index}).")
        code = lib.llama_process(self.context.pointer, ENCODE, batch)
        if code:
            raise DecodeFailed(code, self.library.log.trouble())
        return hidden_rows(self.context, len(features), self.width).copy()
