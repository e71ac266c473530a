"""Little models as GGUF files that a stock llama-server loads, and back: llama, mimo2 with a prediction head, mamba.

Tokenizer `gpt2` whose only merge joins two letters that the alphabet lacks: one letter is one token, and a letter of several
bytes the tokens of its bytes. No token begins a text; one that ends it is there only if the vocabulary has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import gguf
import numpy as np
from numpy.typing import NDArray

from draftproof.core.errors import UsageError
from draftproof.countable.incremental import LanguageModel
from draftproof.countable.mamba import Mamba, Recurrence
from draftproof.countable.transformer import PredictionHead, Transformer
from draftproof.countable.vocabulary import Vocabulary
from draftproof.countable.weights import Architecture, Tensors

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
MERGE_THAT_NEVER_APPLIES = "< >"

Sizes: TypeAlias = Architecture | Recurrence


@dataclass(frozen=True, slots=True)
class Opened:
    """A model read from a file; `head` predicts for it if it has one. `name` is `general.name`."""

    name: str
    vocabulary: Vocabulary
    model: Transformer | Mamba
    head: PredictionHead | None = None

    @property
    def alphabet(self) -> str:
        """`alphabet[i]` is a letter for token i, its text where it is one letter."""
        return self.vocabulary.alphabet


def model(sizes: Sizes, tensors: Tensors) -> Transformer | Mamba:
    """The model in memory. Raises UsageError for tensors that do not fit."""
    return Mamba(sizes, tensors) if isinstance(sizes, Recurrence) else Transformer(sizes, tensors)


def head_of(trunk: LanguageModel) -> PredictionHead | None:
    """The prediction head of a model that has one."""
    has_one = isinstance(trunk, Transformer) and trunk.architecture.family == "mimo2"
    return PredictionHead(trunk) if has_one and isinstance(trunk, Transformer) else None


def write(path: Path, name: str, vocabulary: Vocabulary | str, sizes: Sizes, tensors: Tensors) -> None:
    """Write one model. The same arguments give the same bytes. A `str` is a vocabulary of letters.

    Raises OSError, and UsageError for a vocabulary of 12 tokens or more.
    """
    if isinstance(vocabulary, str):
        vocabulary = Vocabulary.of_letters(vocabulary)
    writer = gguf.GGUFWriter(path, sizes.family)
    writer.add_name(name)
    writer.add_context_length(sizes.context)
    writer.add_embedding_length(sizes.width)
    writer.add_block_count(sizes.blocks + (sizes.family == "mimo2"))
    if isinstance(sizes, Recurrence):
        _add_recurrence(writer, sizes)
    else:
        _add_attention(writer, sizes)
    _add_tokenizer(writer, vocabulary)
    for tensor, x in tensors.items():
        writer.add_tensor(tensor, np.ascontiguousarray(x, dtype=np.float32))
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _add_attention(writer: gguf.GGUFWriter, a: Architecture) -> None:
    writer.add_feed_forward_length(a.hidden)
    writer.add_head_count(a.heads)
    writer.add_head_count_kv(a.kv_heads)
    writer.add_layer_norm_rms_eps(a.epsilon)
    writer.add_rope_freq_base(a.rope_base)
    writer.add_rope_dimension_count(a.head_width)
    if a.family == "mimo2":
        writer.add_key_length(a.head_width)
        writer.add_value_length(a.head_width)
        writer.add_expert_feed_forward_length(a.hidden)
        writer.add_sliding_window(a.context)  # as far as the whole context: no window
        writer.add_sliding_window_pattern([False] + [True] * a.blocks)  # llama.cpp wants a layer of either sort
        writer.add_nextn_predict_layers(1)


def _add_recurrence(writer: gguf.GGUFWriter, r: Recurrence) -> None:
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(r.epsilon)
    writer.add_ssm_conv_kernel(r.kernel)
    writer.add_ssm_inner_size(r.inner)
    writer.add_ssm_state_size(r.state)
    writer.add_ssm_time_step_rank(r.rank)


def _add_tokenizer(writer: gguf.GGUFWriter, vocabulary: Vocabulary) -> None:
    normal, control = int(gguf.TokenType.NORMAL), int(gguf.TokenType.CONTROL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary.spellings)
    writer.add_token_types([control if i == vocabulary.end else normal for i in range(len(vocabulary.pieces))])
    writer.add_token_merges([MERGE_THAT_NEVER_APPLIES])
    writer.add_add_bos_token(False)
    if vocabulary.end is not None:
        writer.add_eos_token_id(vocabulary.end)
    writer.add_chat_template(CHAT_TEMPLATE)


def read(path: Path) -> Opened:
    """Read a model of F32 tensors. Raises UsageError for a missing file, another format or architecture."""
    if not path.is_file():
        raise UsageError(f"There is no model file {path}.", "Run: draftproof countable write DIR")
    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError, OSError) as error:
        raise UsageError(f"{path} is not a GGUF file: {error}") from error
    sizes = _sizes(path, reader)
    spellings = _value(reader, "tokenizer.ggml.tokens", [])
    vocabulary = Vocabulary.of_spellings(spellings, _value(reader, "tokenizer.ggml.eos_token_id", None))
    opened = model(sizes, _tensors(path, reader))
    return Opened(str(_value(reader, "general.name", "")), vocabulary, opened, head_of(opened))


def _sizes(path: Path, reader: gguf.GGUFReader) -> Sizes:
    family = _value(reader, "general.architecture", None)
    if family == "mamba":
        return _recurrence(reader)
    if family not in {"llama", "mimo2"}:
        raise UsageError(f"{path}: architecture {family}; exact laws are known for llama, mimo2 and mamba only.")
    scaled = [key for key in reader.fields if key.startswith(f"{family}.rope.scaling")]
    if scaled:
        raise UsageError(f"{path}: scaled rotary positions are not known here ({scaled[0]}).")
    heads = int(_value(reader, f"{family}.attention.head_count", 1))
    architecture = Architecture(
        **_common(reader, family),
        heads=heads,
        kv_heads=int(_value(reader, f"{family}.attention.head_count_kv", heads)),
        hidden=int(_value(reader, f"{family}.feed_forward_length", 0)),
        rope_base=float(_value(reader, f"{family}.rope.freq_base", 10000.0)),
    )
    if int(_value(reader, f"{family}.rope.dimension_count", architecture.head_width)) != architecture.head_width:
        raise UsageError(f"{path}: partly rotated heads are not known here.")
    return architecture


def _recurrence(reader: gguf.GGUFReader) -> Recurrence:
    return Recurrence(
        **_common(reader, "mamba"),
        inner=int(_value(reader, "mamba.ssm.inner_size", 0)),
        state=int(_value(reader, "mamba.ssm.state_size", 0)),
        kernel=int(_value(reader, "mamba.ssm.conv_kernel", 0)),
        rank=int(_value(reader, "mamba.ssm.time_step_rank", 0)),
    )


def _common(reader: gguf.GGUFReader, family: str) -> dict[str, Any]:
    blocks = int(_value(reader, f"{family}.block_count", 0))
    return {
        "family": family,
        "vocabulary": len(_value(reader, "tokenizer.ggml.tokens", [])),
        "width": int(_value(reader, f"{family}.embedding_length", 0)),
        "blocks": blocks - int(_value(reader, f"{family}.nextn_predict_layers", 0)),
        "context": int(_value(reader, f"{family}.context_length", 0)),
        "epsilon": float(_value(reader, f"{family}.attention.layer_norm_rms_epsilon", 0.0)),
    }


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
