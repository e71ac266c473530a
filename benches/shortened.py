"""A draft model of another law for any GGUF file: the same model without a tenth of its layers.

    python -m benches.shortened MODEL.gguf DRAFT.gguf

A model that drafts for itself has every draft accepted, which shows nothing of what replaces a rejected one. Of the drafts of this
one a fifth to a half are accepted.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf


def shortened(model: Path, draft: Path) -> Path:
    """Writes the draft, of the same vocabulary and width, and returns its path."""
    old = gguf.GGUFReader(model)
    architecture = str(old.fields["general.architecture"].contents())
    layers = int(old.fields[f"{architecture}.block_count"].contents())
    kept = [i for i in range(layers) if i not in range(layers // 2 + 1, layers - 4, 4)]
    writer = gguf.GGUFWriter(draft, architecture)
    for field in old.fields.values():
        if not field.name.startswith(("GGUF.", "general.architecture")):
            value = len(kept) if field.name == f"{architecture}.block_count" else field.contents()
            writer.add_key_value(field.name, value, field.types[0], sub_type=field.types[-1])
    for tensor in old.tensors:
        kind, _, rest = tensor.name.partition(".")
        layer, _, part = rest.partition(".")
        if kind != "blk":
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        elif int(layer) in kept:
            writer.add_tensor(f"blk.{kept.index(int(layer))}.{part}", tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return draft


if __name__ == "__main__":
    shortened(Path(sys.argv[1]), Path(sys.argv[2]))
