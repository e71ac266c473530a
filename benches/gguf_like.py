"""GGUF files that are like another one, but for some fields and tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gguf
from numpy.typing import NDArray


def write_like(
    old: gguf.GGUFReader,
    path: Path,
    tensors: Iterable[tuple[str, NDArray[Any], gguf.GGMLQuantizationType | None]],
    fields: Mapping[str, Any],
) -> Path:
    """Writes all fields of `old`, those of its architecture that are named in `fields` with that value, and the tensors.

    tensors: name, data and type; None: the data's own. Returns the path.
    """
    architecture = str(old.fields["general.architecture"].contents())
    writer = gguf.GGUFWriter(path, architecture)
    for field in old.fields.values():
        if not field.name.startswith(("GGUF.", "general.architecture")):
            value = fields.get(field.name.removeprefix(f"{architecture}."), field.contents())
            writer.add_key_value(field.name, value, field.types[0], sub_type=field.types[-1])
    for name, data, kind in tensors:
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
