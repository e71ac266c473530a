"""Every kind of pair: as files, in memory, and beside a stock llama-server and libllama."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.countable.test_real_server import contexts, reported

from draftproof.core.errors import UsageError
from draftproof.countable import gguf, kinds
from draftproof.countable.catalogue import named, servable
from draftproof.countable.files import open_pair, write_pair
from draftproof.countable.kinds import KINDS
from draftproof.countable.power import fault_strengths, sampled_contexts
from draftproof.countable.transformer import PredictionHead, Transformer
from draftproof.countable.vocabulary import Vocabulary
from draftproof.countable.weights import Architecture, random_weights
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel

SAME_SIZE = [name for name in KINDS if name != "size"]
LEAST = {"lenient_ratio_0.95": 5e-4, "shared_gumbel": 1.5e-3}


@pytest.mark.parametrize("name", SAME_SIZE)
def test_the_files_are_the_pair_in_memory(name: str, tmp_path: Path) -> None:
    written = write_pair(tmp_path, kind=name)
    assert [path.read_bytes() for path in written] == [
        path.read_bytes() for path in write_pair(tmp_path / "again", kind=name)
    ]
    assert all(path.stat().st_size < 40_000 for path in written if path.suffix == ".gguf")
    opened, memory = open_pair(tmp_path), kinds.pair(name)
    assert (opened.alphabet, opened.pieces, opened.end) == (memory.alphabet, memory.pieces, memory.end)
    asked = contexts(20, 12, seed=1, vocabulary=memory.vocabulary)
    assert opened.target_logits(asked) == pytest.approx(memory.target_logits(asked), abs=1e-12)
    assert opened.draft_many(asked) == pytest.approx(memory.draft_many(asked), abs=1e-12)


@pytest.mark.parametrize("name", KINDS)
def test_a_pair_is_known_by_its_name(name: str) -> None:
    assert named(KINDS[name].model_name) is kinds.pair(name)


def test_no_two_targets_are_alike() -> None:
    laws = [pair.target(kinds.PROMPT) for pair in servable(8)]
    assert len(laws) >= 5
    for i, law in enumerate(laws):
        assert all(np.abs(law - other).max() > 0.5 for other in laws[:i])


def test_only_the_pairs_of_a_size_are_tried() -> None:
    assert [pair.name for pair in servable(9)] == ["countable-end"]
    assert [pair.name for pair in servable(10)] == ["countable-bytes"]


@pytest.mark.parametrize("name", KINDS)
def test_every_named_fault_shows(name: str) -> None:
    pair = kinds.pair(name)
    strengths = fault_strengths(pair, sampled_contexts(pair.target_many, kinds.PROMPT))
    weak = {fault: x for fault, x in strengths.items() if x < LEAST.get(fault, 1.9e-3)}
    assert not weak


def test_a_text_ends_now_and_then() -> None:
    pair = kinds.pair("end")
    p = np.exp(pair.target_many(sampled_contexts(pair.target_many, kinds.PROMPT)))
    assert 0.03 < p[:, pair.end].mean() < 0.1


def test_bytes_spell_characters() -> None:
    pair = kinds.pair("bytes")
    assert len(set(pair.alphabet)) == pair.vocabulary
    assert b"".join(pair.pieces[i] for i in (0, 2, 3, 4, 5, 6, 7, 8, 9)).decode() == "aé€é😀"
    with pytest.raises(UnicodeDecodeError):
        pair.pieces[8].decode()


def test_the_draft_of_another_order_has_the_same_letters(tmp_path: Path) -> None:
    target, draft = (gguf.read(path).vocabulary for path in write_pair(tmp_path, kind="order")[:2])
    assert sorted(target.pieces) == sorted(draft.pieces)
    assert (target.pieces[:5], target.pieces[5:]) == (draft.pieces[4::-1], draft.pieces[5:])


def test_the_draft_of_another_size_is_cut_to_the_target(tmp_path: Path) -> None:
    pair = kinds.pair("size")
    assert np.exp(pair.draft_many(contexts(5, 6, seed=2))).sum(axis=1) == pytest.approx(1)
    write_pair(tmp_path, kind="size")
    with pytest.raises(UsageError, match="different sizes"):
        open_pair(tmp_path)


def test_another_kind_replaces_all_files(tmp_path: Path) -> None:
    write_pair(tmp_path)
    write_pair(tmp_path, kind="head", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["law.json", "target.gguf"]
    assert open_pair(tmp_path).draft_model.vocabulary == 8
    with pytest.raises(UsageError, match="Known: letters, end"):
        write_pair(tmp_path, kind="nothing")


def test_what_has_no_head_is_refused(tmp_path: Path) -> None:
    sizes = Architecture()
    tensors = random_weights(sizes, 1)
    with pytest.raises(UsageError, match="llama model has no prediction head"):
        PredictionHead(Transformer(sizes, tensors))
    gguf.write(tmp_path / "target.gguf", "alone", "abcdefgh", sizes, tensors)
    with pytest.raises(UsageError, match=r"no model file .*draft.gguf"):
        open_pair(tmp_path)


def test_a_vocabulary_without_letters_of_its_own_is_refused() -> None:
    with pytest.raises(UsageError, match="no letter of its own"):
        _ = Vocabulary((b"\xc3", b"\xc3")).alphabet
    with pytest.raises(UsageError, match="stands for no byte"):
        Vocabulary.of_spellings(["a", "\u4e00"], None)
    assert Vocabulary.of_spellings(Vocabulary(kinds.PIECES).spellings, None).pieces == kinds.PIECES


@pytest.mark.real
@pytest.mark.parametrize("name", KINDS)
def test_probabilities_are_those_of_llama_server(name: str, tmp_path: Path) -> None:
    """The largest difference of a logprob, seen over 200 contexts: 7e-6 (mamba), 3e-6 (the others)."""
    pytest.importorskip("xllamacpp")
    write_pair(tmp_path, kind=name)
    files = [tmp_path / "target.gguf"] + [p for p in (tmp_path / "draft.gguf",) if p.is_file() and name in SAME_SIZE]
    pair = kinds.pair(name)
    asked = contexts(60, 60, seed=1, vocabulary=pair.vocabulary)
    for path, law in zip(files, (pair.target_many, pair.draft_many), strict=False):
        with LlamaWheel(path, options=EXACT_NUMBERS) as server:
            rows = np.stack([reported(server.url, context, pair.vocabulary) for context in asked])
        assert np.abs(rows - law(asked)).max() < 5e-5


@pytest.mark.real
def test_the_law_of_the_head_is_that_of_libllama(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    from tests.engine.libllama.models import exact

    from draftproof.core.distribution import log_softmax
    from draftproof.engine.backends.llama import LlamaBackend, LlamaOptions
    from draftproof.engine.backends.llama_head import LlamaHead
    from draftproof.engine.libllama import ModelOptions

    options = LlamaOptions(ModelOptions(heads=True), exact(outputs=64), test_rows=4, hidden=True)
    backend = LlamaBackend(write_pair(tmp_path, kind="head")[0], options)
    for context in contexts(10, 40, seed=3):
        sequence = backend.sequence()
        sequence.extend(list(context))
        follower = LlamaHead(backend).follow(sequence)
        found = follower.extend(list(context))
        expected = kinds.pair("head").draft_many([context[: i + 1] for i in range(len(context))])
        assert np.abs(log_softmax(found) - expected).max() < 5e-5
        follower.close()
        sequence.close()
    backend.close()
