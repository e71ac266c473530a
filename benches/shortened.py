"""A draft model of another law for any GGUF file: the same model without a tenth of its layers.

    python -m benches.shortened MODEL.gguf DRAFT.gguf

A model that drafts for itself has every draft accepted, which shows nothing of what replaces a rejected one. Of the drafts of this
one a fifth to a half are accepted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gguf
from benches.gguf_like import write_like
from numpy.typing import NDArray


def shortened(model: Path, draft: Path) -> Path:
    """Writes the draft, of the same vocabulary and width, and returns its path."""
    old = gguf.GGUFReader(model)
    architecture = str(old.fields["general.architecture"].contents())
    layers = int(old.fields[f"{architecture}.block_count"].contents())
    kept = [i for i in range(layers) if i not in range(layers // 2 + 1, layers - 4, 4)]
    return write_like(old, draft, _renumbered(old.tensors, kept), {"block_count": len(kept)})


def _renumbered(
    tensors: Sequence[gguf.ReaderTensor], kept: Sequence[int]
) -> Iterator[tuple[str, NDArray[Any], gguf.GGMLQuantizationType]]:
    for tensor in tensors:
        kind, _, rest = tensor.name.partition(".")
        layer, _, part = rest.partition(".")
        if kind != "blk":
            yield tensor.name, tensor.data, tensor.tensor_type
        elif int(layer) in kept:
            yield f"blk.{kept.index(int(layer))}.{part}", tensor.data, tensor.tensor_type


if __name__ == "__main__":
    shortened(Path(sys.argv[1]), Path(sys.argv[2]))
