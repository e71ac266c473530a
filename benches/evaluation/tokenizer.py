"""A model's own vocabulary as the file that Hugging Face's tokenizers read. For byte-level BPE that cuts numbers into digits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf

_CONTROL = 3


def _values(reader: gguf.GGUFReader, name: str) -> list[Any]:
    found = reader.get_field(f"tokenizer.ggml.{name}")
    assert found is not None
    contents = found.contents()
    assert isinstance(contents, list)
    return contents


def write_tokenizer(model: Path, folder: Path) -> Path:
    """`folder`, with tokenizer.json and its configuration in it."""
    reader = gguf.GGUFReader(model)
    tokens, kinds = _values(reader, "tokens"), _values(reader, "token_type")
    ends = reader.get_field("tokenizer.ggml.eos_token_id")
    assert ends is not None
    digits = {"type": "Digits", "individual_digits": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": token, **flags}
            for i, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
            if kind == _CONTROL
        ],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": _values(reader, "merges"),
        },
    }
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    configuration = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": tokens[ends.contents()]}
    (folder / "tokenizer_config.json").write_text(json.dumps(configuration))
    return folder
