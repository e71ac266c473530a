from __future__ import annotations

import hashlib
from pathlib import Path

import gguf as official
import numpy as np
import pytest

from draftproof.core.errors import UsageError
from draftproof.countable import gguf, story
from draftproof.countable.catalogue import builtin
from draftproof.countable.files import NAMES, open_pair, write_pair
from draftproof.countable.oracle import CountablePair
from draftproof.countable.transformer import Transformer
from draftproof.countable.weights import Architecture, Tensors, noisy, random_weights

TARGET_DIGEST = "813d1c87ba1464ca"
DRAFT_DIGEST = "69e0dd0d0a2f3831"
"""If these move, so do all published laws: then raise `FORMAT` too."""


def digest(tensors: Tensors) -> str:
    return hashlib.sha256(b"".join(x.tobytes() for x in tensors.values())).hexdigest()[:16]


def test_the_weights_are_the_same_everywhere() -> None:
    target = story.target_weights()
    assert (digest(target), digest(story.draft_weights(target))) == (TARGET_DIGEST, DRAFT_DIGEST)


def test_files_are_small_and_the_same_bytes_every_time(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in write_pair(tmp_path / "one")]
    again = [path.read_bytes() for path in write_pair(tmp_path / "two")]
    assert first == again
    assert all(len(data) < 25_000 for data in first[:2])


def test_the_files_are_the_pair_in_memory(tmp_path: Path) -> None:
    write_pair(tmp_path)
    pair, memory = open_pair(tmp_path), builtin()
    assert (pair.alphabet, pair.vocabulary) == (memory.alphabet, memory.vocabulary)
    assert pair.name == str(tmp_path)
    assert CountablePair(tmp_path / NAMES[0], tmp_path / NAMES[1]).name == memory.name
    contexts = [(1, 2, 3), (7,), (0, 5, 5, 2, 1)]
    assert pair.target_logits(contexts) == pytest.approx(memory.target_logits(contexts), abs=1e-12)
    assert pair.draft_many(contexts) == pytest.approx(memory.draft_many(contexts), abs=1e-12)
    assert isinstance(pair.target_model, Transformer)
    for name, x in story.target_weights().items():
        assert (pair.target_model.tensors[name] == x).all()


def test_what_a_server_reads_in_the_files(tmp_path: Path) -> None:
    fields = official.GGUFReader(write_pair(tmp_path)[0]).fields
    value = {name: field.contents() for name, field in fields.items()}
    assert value["general.name"] == "countable-8"
    assert value["tokenizer.ggml.tokens"] == list("abcdefgh")
    assert not value["tokenizer.ggml.add_bos_token"]
    assert not any(name.endswith(("bos_token_id", "eos_token_id")) for name in fields)
    merged = value["tokenizer.ggml.merges"][0].split()
    assert not set(merged) & set("abcdefgh")


def test_other_sizes_and_grouped_queries_survive_the_file(tmp_path: Path) -> None:
    architecture = Architecture(vocabulary=5, width=12, blocks=3, heads=6, kv_heads=2, hidden=20, context=64)
    tensors = random_weights(architecture, 4)
    gguf.write(tmp_path / "m.gguf", "odd", "vwxyz", architecture, tensors)
    opened = gguf.read(tmp_path / "m.gguf")
    assert (opened.name, opened.alphabet) == ("odd", "vwxyz")
    assert opened.model.architecture == architecture
    direct = Transformer(architecture, tensors)
    assert (opened.model.logprobs([(0, 4, 2)]) == direct.logprobs([(0, 4, 2)])).all()


def test_tied_output_weights_are_the_embedding() -> None:
    architecture = Architecture()
    tensors = dict(random_weights(architecture, 1))
    tensors["output.weight"] = tensors["token_embd.weight"]
    explicit = Transformer(architecture, tensors).logprobs([(1, 2)])
    del tensors["output.weight"]
    assert (Transformer(architecture, tensors).logprobs([(1, 2)]) == explicit).all()


def test_noise_is_relative_to_each_tensor() -> None:
    tensors = random_weights(Architecture(width=64, hidden=128), 1)
    copy = noisy(tensors, 0.5, 2)
    for name in ("token_embd.weight", "blk.0.ffn_up.weight", "output.weight"):
        assert np.std(copy[name] - tensors[name]) == pytest.approx(0.5 * np.std(tensors[name]), rel=0.1)
    assert all((noisy(tensors, 0, 2)[name] == x).all() for name, x in tensors.items())


def test_missing_and_foreign_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no model file .*target.gguf"):
        open_pair(tmp_path)
    for junk in (b"", b"junk", b"not a model at all, but long enough to have a header"):
        (tmp_path / NAMES[0]).write_bytes(junk)
        with pytest.raises(UsageError, match="is not a GGUF file"):
            open_pair(tmp_path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = write_pair(tmp_path)[0]
    data = path.read_bytes()
    for size in (30, 400, 2000, len(data) - 100):
        path.write_bytes(data[:size])
        with pytest.raises(UsageError, match=r"is not a GGUF file"):
            gguf.read(path)


def test_another_architecture_or_type_is_refused(tmp_path: Path) -> None:
    writer = official.GGUFWriter(tmp_path / "other.gguf", "qwen2")
    _finish(writer)
    with pytest.raises(UsageError, match="architecture qwen2"):
        gguf.read(tmp_path / "other.gguf")
    architecture = Architecture()
    tensors = {name: x.astype(np.float16) for name, x in random_weights(architecture, 1).items()}
    _write_f16(tmp_path / "half.gguf", tensors)
    with pytest.raises(UsageError, match="F16; exact laws need F32"):
        gguf.read(tmp_path / "half.gguf")


def test_missing_tensors_are_named() -> None:
    tensors = dict(random_weights(Architecture(), 1))
    del tensors["blk.1.attn_k.weight"]
    tensors["blk.0.attn_q.bias"] = np.zeros(16, dtype=np.float32)
    with pytest.raises(UsageError, match=r"blk.0.attn_q.bias, blk.1.attn_k.weight"):
        Transformer(Architecture(), tensors)


def _write_f16(path: Path, tensors: dict[str, np.ndarray]) -> None:
    writer = official.GGUFWriter(path, "llama")
    writer.add_token_list(list("abcdefgh"))
    writer.add_embedding_length(16)
    writer.add_block_count(2)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_context_length(64)
    for name, x in tensors.items():
        writer.add_tensor(name, x)
    _finish(writer)


def _finish(writer: official.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
