"""EAGLE-3 drafts through libllama: the drafts of llama-server, those of reading everything again, and what is refused."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from tests.engine.libllama.models import (
    COUNTABLE,
    EAGLE_DRAFT,
    EAGLE_TARGET,
    PROMPT,
    backend,
    exact,
    model,
    other_eagle,
    rows,
)

from draftproof.core.errors import UsageError
from draftproof.core.prefix import common_prefix
from draftproof.core.sampling import GREEDY
from draftproof.core.speculation import DraftModel, Speculation
from draftproof.engine.backend import ContextFull, Feed
from draftproof.engine.backends.llama import LlamaBackend
from draftproof.engine.backends.llama_eagle import LlamaEagle
from draftproof.engine.draft import kind
from draftproof.engine.draft.kind import Setup
from draftproof.engine.generate import Generation, Job, generate
from draftproof.engine.in_step import run_alone
from draftproof.engine.libllama import Context, Eagle, HeadRow, load_library
from draftproof.engine.libllama.errors import Closed, ContextRejected, InvalidBatch, ModelRejected
from draftproof.engine.verify import greedy
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel, Option

pytestmark = pytest.mark.real
DEFAULT = DraftModel()


@pytest.fixture
def target() -> Iterator[LlamaBackend]:
    made = backend(EAGLE_TARGET, sequences=2)
    yield made
    made.close()


def beside(target: LlamaBackend, path: Path = EAGLE_DRAFT) -> LlamaEagle:
    return LlamaEagle(target, path, rehearse=False)


def narrow(path: Path) -> Path:
    """A draft that knows six of the ten letters, as most published ones know a part of the vocabulary."""
    letters = np.array([9, 0, 3, 5, 7, 4], np.int64)
    output = np.random.default_rng(5).standard_normal((len(letters), 16)).astype(np.float32)
    return other_eagle(path, {"d2t": letters, "output.weight": output})


def of_the_end(path: Path) -> Path:
    """A draft that reads what the last layer puts out, which is no layer's input."""
    return other_eagle(path, target_layers=[1, 2, 4])


def drafted(target: LlamaBackend, n: int, settings: DraftModel = DEFAULT, path: Path = EAGLE_DRAFT) -> Generation:
    eagle, sequence = beside(target, path), target.sequence()
    setup = Setup(target, Speculation(draft=settings), GREEDY, eagle=eagle, eagle_sequence=eagle.follow(sequence))
    drafter = kind("draft-eagle3").open(setup)
    generation = Generation(target, sequence, Job(tuple(PROMPT), n, GREEDY), drafter=drafter, rule=greedy.RULE)
    while not generation.finish:
        feed = run_alone(generation.feed())
        generation.take(sequence.extend(feed.tokens, feed.rows))
    eagle.close()
    return generation


@pytest.mark.parametrize(
    ("n_max", "p_min", "made"), [(3, 0.0, None), (5, 0.4, None), (3, 0.0, narrow), (3, 0.0, of_the_end)]
)
def test_greedy_text_and_draft_counts_are_those_of_llama_server(
    target: LlamaBackend, n_max: int, p_min: float, made: Callable[[Path], Path] | None, tmp_path: Path
) -> None:
    path = made(tmp_path / "other.gguf") if made else EAGLE_DRAFT
    draft: dict[str, Option] = {"n_max": n_max, "p_min": p_min, "backend_sampling": False}
    draft |= {"cache_type_k": "F32", "cache_type_v": "F32"}
    options = {
        "n_parallel": 1,
        **EXACT_NUMBERS,
        **{f"speculative.draft.{name}": value for name, value in draft.items()},
    }
    with LlamaWheel(COUNTABLE / EAGLE_TARGET, draft=path, types=["draft-eagle3"], options=options) as server:
        body = {"prompt": PROMPT, "n_predict": 64, "temperature": 0, "return_tokens": True}
        asked = urllib.request.Request(f"{server.url}/completion", json.dumps(body).encode())
        with urllib.request.urlopen(asked) as response:
            answer = json.load(response)
    generation = drafted(target, 64, DraftModel(n_max=n_max, p_min=p_min), path)
    assert generation.context[len(PROMPT) :] == answer["tokens"]
    counters, timings = generation.counters, answer["timings"]
    assert (counters.drafted, counters.accepted) == (timings["draft_n"], timings["draft_n_accepted"])
    assert counters.accepted > 0


def test_greedy_text_is_that_without_drafts(target: LlamaBackend) -> None:
    alone = backend(EAGLE_TARGET)
    plain = [emitted.token for emitted in generate(alone, Job(tuple(PROMPT), 40, GREEDY))]
    with_drafts = drafted(target, 40)
    assert with_drafts.context[len(PROMPT) :] == plain
    assert with_drafts.counters.drafted > with_drafts.counters.accepted
    alone.close()


def test_it_drafts_up_to_the_last_place_of_a_context() -> None:
    target, alone = backend(EAGLE_TARGET), backend(EAGLE_TARGET)
    generation = drafted(target, 400)
    plain = [emitted.token for emitted in generate(alone, Job(tuple(PROMPT), 400, GREEDY))]
    assert generation.context[len(PROMPT) :] == plain
    assert len(generation.context) >= target.context
    target.close()
    alone.close()


def naive_drafts(eagle: Eagle, tokens: Sequence[int], hidden: Sequence[np.ndarray], k: int) -> list[int]:
    """Every token but the first read by itself with the row before it, then k greedy drafts with the draft's own rows."""
    eagle.context.remove(0, 0)
    for i, token in enumerate(tokens[1:]):
        out = eagle.decode([HeadRow(0, i, token, hidden[i])])
    drafts = [int(out.logits[0].argmax())]
    while len(drafts) < k:
        out = eagle.decode([HeadRow(0, len(tokens) + len(drafts) - 2, drafts[-1], out.hidden[0].copy())])
        drafts.append(int(out.logits[0].argmax()))
    return drafts


def test_drafts_are_those_of_reading_everything_again(target: LlamaBackend) -> None:
    eagle, sequence = beside(target), target.sequence()
    sequence.extend(PROMPT)
    assert isinstance(eagle.head, Eagle)
    agreed = naive_drafts(eagle.head, PROMPT, sequence.hidden, 3)
    tokens = [*PROMPT, *agreed, 0, 7, 2, 2, 1]
    sequence.extend(tokens[len(PROMPT) : -1])
    hidden = list(sequence.hidden)
    expected = {n: naive_drafts(eagle.head, tokens[:n], hidden, 3) for n in range(2, len(tokens) + 1)}
    eagle.head.context.remove(0, 0)
    sequence.truncate(0)
    sequence.extend(tokens[:1])
    follower, n, most_kept = eagle.follow(sequence), 2, 0
    while n <= len(tokens):
        drafts: list[int] = []
        fed = tokens[follower.length : n]
        while len(drafts) < 3:
            drafts.append(int(follower.extend(fed, rows=1)[0].argmax()))
            fed = drafts[-1:]
        assert drafts == expected[n]
        # as if the target had accepted what agrees with the text: those cells were guessed, and must be read again
        kept = common_prefix(drafts, tokens[n:])
        sequence.extend(tokens[n - 1 : n + kept])
        follower.truncate(min(follower.length, n + kept))
        n, most_kept = n + kept + 1, max(most_kept, kept)
    assert most_kept >= 2


def test_what_it_reads_of_a_text_depends_on_no_neighbour(target: LlamaBackend) -> None:
    eagle = beside(target)
    first, second = target.sequence(), target.sequence()
    first.extend(PROMPT)
    alone = np.array(first.hidden)
    first.truncate(0)
    target.extend([Feed(first, tuple(PROMPT)), Feed(second, (7, 0, 7, 0, 5))])
    np.testing.assert_allclose(np.array(first.hidden), alone, atol=1e-5)
    assert not np.allclose(np.array(second.hidden), alone, atol=0.1)
    assert np.array(first.hidden).shape == (5, eagle.head.width)


def test_rows_are_encoded_by_the_fusion_layer_however_many(target: LlamaBackend) -> None:
    eagle = beside(target).head
    assert isinstance(eagle, Eagle)
    features = np.random.default_rng(1).standard_normal((150, eagle.features)).astype(np.float32)
    assert len(features) > 2 * eagle.context.outputs
    fusion = next(tensor.data for tensor in gguf.GGUFReader(EAGLE_DRAFT).tensors if tensor.name == "fc.weight")
    np.testing.assert_allclose(eagle.encode(features), features @ fusion.T, atol=1e-4)
    with pytest.raises(InvalidBatch, match="Features"):
        eagle.encode(features[:, 1:])


def test_its_sequences_keep_to_the_protocol(target: LlamaBackend) -> None:
    eagle, sequence = beside(target), target.sequence()
    follower = eagle.follow(sequence)
    sequence.extend(PROMPT)
    with pytest.raises(ValueError, match="no rows after the first"):
        follower.extend(PROMPT)
    assert follower.extend(PROMPT[:1], rows=0).shape == (0, target.vocab)
    expected = follower.extend(PROMPT[1:])
    assert expected.shape == (4, target.vocab)
    checkpoint = follower.checkpoint()
    follower.truncate(1)
    np.testing.assert_allclose(follower.extend(PROMPT[1:]), expected, atol=1e-5)
    follower.truncate(0)
    np.testing.assert_allclose(follower.extend(PROMPT, 4), expected, atol=1e-5)
    follower.extend([6, 7])
    follower.restore(checkpoint)
    assert follower.length == 5
    with pytest.raises(ContextFull):
        follower.extend([0] * 256, rows=0)
    follower.close()
    with pytest.raises(Closed):
        follower.extend([0])
    eagle.close()
    sequence.extend([0])
    assert len(sequence.hidden) == 5  # nobody listens any more


def test_a_target_that_has_read_something_is_refused(target: LlamaBackend) -> None:
    target.sequence().extend(PROMPT)
    with pytest.raises(UsageError, match="read something"):
        beside(target)


@pytest.mark.parametrize(
    ("name", "fields", "error", "reason"),
    [
        (EAGLE_TARGET, {"target_layers": [1, 2, 5]}, ContextRejected, "reads the layers 1, 2, 5 .* has 4"),
        ("target.gguf", {"target_layers": [0, 1, 2]}, UsageError, "has 10 tokens, the target 8"),
        ("mtarget.gguf", {}, ContextRejected, "running state"),
    ],
)
def test_a_draft_of_another_target_is_refused(
    name: str, fields: dict[str, Any], error: type[Exception], reason: str, tmp_path: Path
) -> None:
    other, made = other_eagle(tmp_path / "other.gguf", **fields), backend(name)
    with pytest.raises(error, match=reason):
        beside(made, other)
    made.close()


def test_a_draft_for_hidden_rows_of_another_length_is_refused(target: LlamaBackend, tmp_path: Path) -> None:
    wide = {"fc.weight": np.zeros((16, 3 * 24), np.float32)}
    other = other_eagle(tmp_path / "other.gguf", wide, target_hidden_size=24)
    with pytest.raises(ContextRejected, match=r"hidden rows of 24 numbers; .* has 16"):
        beside(target, other)


def test_a_target_that_does_not_show_its_layers_is_refused_by_a_rehearsal(tmp_path: Path) -> None:
    draft, made = other_eagle(tmp_path / "other.gguf", target_layers=[0, 1, 1]), backend("mtp-hy_v3-v10.gguf")
    with pytest.raises(ContextRejected, match=r"architecture hy_v3, whose layers .* does not show"):
        LlamaEagle(made, draft)
    made.close()


def test_whatever_stops_the_rehearsal_is_told(tmp_path: Path) -> None:
    # half as wide as its target, whose embeddings it means to borrow
    fields = {"embedding_length": 8, "attention.head_count": 1, "attention.head_count_kv": 1}
    shapes = {"fc": (8, 48), "output_norm": 8, "blk.0.attn_norm": 8, "blk.0.attn_norm_2": 8, "blk.0.ffn_norm": 8}
    shapes |= {f"blk.0.attn_{name}": (8, 16) for name in "qkv"}
    shapes |= {
        "blk.0.attn_output": (8, 8),
        "blk.0.ffn_gate": (32, 8),
        "blk.0.ffn_up": (32, 8),
        "blk.0.ffn_down": (8, 32),
    }
    tensors = {f"{name}.weight": np.ones(shape, np.float32) for name, shape in shapes.items()}
    draft, made = other_eagle(tmp_path / "other.gguf", tensors, **fields), backend(EAGLE_TARGET)
    with pytest.raises(ContextRejected, match=r"does not work beside .*GGML_ASSERT"):
        LlamaEagle(made, draft)
    made.close()


def test_a_rehearsal_that_goes_well_changes_nothing(target: LlamaBackend) -> None:
    with LlamaEagle(target, EAGLE_DRAFT).head as head:
        assert head.width == 16


def test_files_of_other_kinds_are_refused(target: LlamaBackend) -> None:
    with pytest.raises(ModelRejected, match="works beside its target only"):
        model(EAGLE_DRAFT.name)
    with pytest.raises(ModelRejected, match="is no EAGLE-3 draft"):
        beside(target, COUNTABLE / EAGLE_TARGET)


def test_an_unknown_build_runs_no_eagle3(target: LlamaBackend) -> None:
    object.__setattr__(load_library(), "has_heads", False)
    try:
        with pytest.raises(ContextRejected, match="not a build"):
            beside(target)
    finally:
        object.__setattr__(load_library(), "has_heads", True)


def test_rows_come_in_the_order_of_the_batch() -> None:
    with model(EAGLE_TARGET) as loaded, model(EAGLE_DRAFT.name, eagle=True) as draft:
        context = Context(loaded, exact(sequences=2))
        eagle = Eagle(context, draft)
        eagle.tap.open(context)
        context.decode(rows(PROMPT, last=1))
        alone = eagle.tap.rows(context, [5])[0]
        context.remove(0, 0)
        context.decode([*rows(PROMPT[:2], last=0), *rows(PROMPT[:3], sequence=1)])
        first, second = eagle.tap.rows(context, [2, 3])
        np.testing.assert_allclose(first, alone[:2], atol=1e-5)
        np.testing.assert_allclose(second, alone[:3], atol=1e-5)
        eagle.close()
