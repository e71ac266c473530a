"""Little llama models as GGUF files that a stock llama-server loads, and back.

One letter is one token: tokenizer `gpt2` whose only merge joins two letters that the alphabet lacks. There is no token that
begins or ends a text, so every context is what was asked for and no text ends by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from draftproof.core.errors import UsageError
from draftproof.countable.transformer import Transformer
from draftproof.countable.weights import Architecture, Tensors

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
MERGE_THAT_NEVER_APPLIES = "< >"


@dataclass(frozen=True, slots=True)
class Opened:
    """A model read from a file. `alphabet[i]` is the text of token i; `name` is `general.name`."""

    name: str
    alphabet: str
    model: Transformer


MOST_LETTERS = 11


def write(path: Path, name: str, alphabet: str, architecture: Architecture, tensors: Tensors) -> None:
    """Write one model. The same arguments give the same bytes.

    Raises OSError, and UsageError for an alphabet of 12 letters or more.
    """
    if len(alphabet) > MOST_LETTERS:
        raise UsageError(
            f"{len(alphabet)} letters: llama.cpp takes token {MOST_LETTERS} of such a vocabulary for the end of a text.",
            f"Use at most {MOST_LETTERS} letters.",
        )
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_context_length(architecture.context)
    writer.add_embedding_length(architecture.width)
    writer.add_block_count(architecture.blocks)
    writer.add_feed_forward_length(architecture.hidden)
    writer.add_head_count(architecture.heads)
    writer.add_head_count_kv(architecture.kv_heads)
    writer.add_layer_norm_rms_eps(architecture.epsilon)
    writer.add_rope_freq_base(architecture.rope_base)
    writer.add_rope_dimension_count(architecture.head_width)
    _add_tokenizer(writer, alphabet)
    for tensor, x in tensors.items():
        writer.add_tensor(tensor, np.ascontiguousarray(x, dtype=np.float32))
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, alphabet: str) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(list(alphabet))
    writer.add_token_types([int(gguf.TokenType.NORMAL)] * len(alphabet))
    writer.add_token_merges([MERGE_THAT_NEVER_APPLIES])
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def read(path: Path) -> Opened:
    """Read a llama model of F32 tensors. Raises UsageError for a missing file, another format or architecture."""
    if not path.is_file():
        raise UsageError(f"There is no model file {path}.", "Run: draftproof countable write DIR")
    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError, OSError) as error:
        raise UsageError(f"{path} is not a GGUF file: {error}") from error
    architecture = _architecture(path, reader)
    letters = _value(reader, "tokenizer.ggml.tokens", [])
    if any(len(letter) != 1 for letter in letters):
        raise UsageError(f"{path}: every token must be one letter.")
    model = Transformer(architecture, _tensors(path, reader))
    return Opened(str(_value(reader, "general.name", "")), "".join(letters), model)


def _architecture(path: Path, reader: gguf.GGUFReader) -> Architecture:
    kind = _value(reader, "general.architecture", None)
    if kind != "llama":
        raise UsageError(f"{path}: architecture {kind}; exact laws are known for llama only.")
    scaled = [key for key in reader.fields if key.startswith("llama.rope.scaling")]
    if scaled:
        raise UsageError(f"{path}: scaled rotary positions are not known here ({scaled[0]}).")
    heads = int(_value(reader, "llama.attention.head_count", 1))
    architecture = Architecture(
        vocabulary=len(_value(reader, "tokenizer.ggml.tokens", [])),
        width=int(_value(reader, "llama.embedding_length", 0)),
        blocks=int(_value(reader, "llama.block_count", 0)),
        heads=heads,
        kv_heads=int(_value(reader, "llama.attention.head_count_kv", heads)),
        hidden=int(_value(reader, "llama.feed_forward_length", 0)),
        context=int(_value(reader, "llama.context_length", 0)),
        epsilon=float(_value(reader, "llama.attention.layer_norm_rms_epsilon", 0.0)),
        rope_base=float(_value(reader, "llama.rope.freq_base", 10000.0)),
    )
    if int(_value(reader, "llama.rope.dimension_count", architecture.head_width)) != architecture.head_width:
        raise UsageError(f"{path}: partly rotated heads are not known here.")
    return architecture


def _tensors(path: Path, reader: gguf.GGUFReader) -> dict[str, NDArray[np.float32]]:
    tensors = {}
    for tensor in reader.tensors:
        if tensor.tensor_type != gguf.GGMLQuantizationType.F32:
            raise UsageError(f"{path}: {tensor.name} is {tensor.tensor_type.name}; exact laws need F32.")
        tensors[tensor.name] = np.array(tensor.data, dtype=np.float32)
    return tensors


def _value(reader: gguf.GGUFReader, key: str, default: Any) -> Any:
    field = reader.fields.get(key)
    return default if field is None else field.contents()
