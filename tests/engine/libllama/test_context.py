from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.engine.libllama.models import LAWS, PROMPT, exact, model, read, rows

from draftproof.core.distribution import log_softmax
from draftproof.engine.backend import ContextFull, UnknownToken
from draftproof.engine.libllama import CacheType, Context, ContextOptions, Model, Row
from draftproof.engine.libllama.context import _rejected
from draftproof.engine.libllama.errors import ContextRejected, DecodeFailed, InvalidBatch

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def target() -> Iterator[Model]:
    with model("target.gguf") as loaded:
        yield loaded


@pytest.fixture
def context(target: Model) -> Iterator[Context]:
    with Context(target, exact(sequences=3, batch=32, outputs=8)) as made:
        yield made


@pytest.mark.parametrize("name", ["target", "draft"])
def test_the_laws_are_those_of_an_independent_computation(name: str) -> None:
    with model(f"{name}.gguf") as loaded, Context(loaded, exact()) as context:
        np.testing.assert_allclose(np.exp(log_softmax(read(context, PROMPT)[-1])), LAWS[name]["first"], atol=1e-5)
        for token, law in enumerate(LAWS[name]["second_given_first"].values()):
            logits = read(context, [token], start=len(PROMPT))[0]
            np.testing.assert_allclose(np.exp(log_softmax(logits)), law, atol=1e-5)
            assert context.remove(0, len(PROMPT))


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        ([], InvalidBatch),
        ([Row(0, i, 0, False) for i in range(33)], InvalidBatch),
        ([Row(0, i, 0, True) for i in range(9)], InvalidBatch),
        ([Row(3, 0, 0, True)], InvalidBatch),
        ([Row(-1, 0, 0, True)], InvalidBatch),
        ([Row(0, 1, 0, True)], InvalidBatch),
        ([Row(0, 0, 0, True), Row(0, 0, 0, True)], InvalidBatch),
        ([Row(0, 0, 0, True), Row(0, 2, 0, True)], InvalidBatch),
        ([Row(0, 0, 8, True)], UnknownToken),
        ([Row(0, 0, -1, True)], UnknownToken),
    ],
)
def test_what_would_abort_the_process_is_refused_and_nothing_is_read(
    context: Context, batch: list[Row], error: type[Exception]
) -> None:
    with pytest.raises(error):
        context.decode(batch)
    assert [context.length(sequence) for sequence in range(3)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("said", "told", "remedy"),
    [
        ("", "No memory for 9 tokens in 2 sequences: libllama gives no reason", "fewer"),
        ("failed to allocate a buffer of 9 bytes", "No memory for 9 tokens", "fewer"),
        ("V cache quantization requires flash_attn", "libllama refuses 9 tokens", "-fa"),
    ],
)
def test_why_there_is_no_context(said: str, told: str, remedy: str) -> None:
    error = _rejected(ContextOptions(tokens=9, sequences=2), said)
    assert told in str(error)
    assert remedy in error.remedy


def test_a_cache_type_that_does_not_fit_is_no_want_of_memory(target: Model) -> None:
    with pytest.raises(ContextRejected, match=r"libllama refuses .*q8_0.*-ctk"):
        Context(target, ContextOptions(tokens=64, keys=CacheType.Q8_0))


def test_a_full_sequence_is_refused_and_the_others_go_on(context: Context) -> None:
    for start in range(0, context.tokens, 32):
        context.decode(rows([0] * 32, start=start, last=0))
    with pytest.raises(ContextFull):
        context.decode([Row(0, context.tokens, 0, True)])
    assert read(context, PROMPT, sequence=1).shape == (5, 8)


def test_sequences_that_share_their_cells_can_run_out_of_them(target: Model) -> None:
    with Context(target, exact(128, sequences=2, unified=True, batch=256)) as shared:
        assert shared.tokens == 256
        shared.decode(rows([0] * 200, last=0))
        with pytest.raises(ContextFull, match="no room"):
            shared.decode(rows([0] * 100, sequence=1, last=0))
        assert (shared.length(0), shared.length(1)) == (200, 0)
        shared.decode(rows([0] * 50, sequence=1, last=0))


def test_the_result_is_a_read_only_view_of_the_last_call(context: Context) -> None:
    first = context.decode(rows(PROMPT))
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 0
    kept = first.copy()
    context.decode(rows([0, 1, 2], sequence=1))
    assert not np.array_equal(first[:3], kept[:3])


def test_only_the_rows_asked_for_come_back_in_order(context: Context) -> None:
    every = read(context, PROMPT)
    wanted = context.decode([Row(1, i, token, i % 2 == 0) for i, token in enumerate(PROMPT)])
    np.testing.assert_array_equal(wanted, every[::2])
    assert context.decode(rows(PROMPT, sequence=2, last=0)).shape == (0, 8)


def test_sequences_read_together_give_the_numbers_of_each_alone(context: Context) -> None:
    alone = [read(context, PROMPT), read(context, [7, 7, 0], sequence=1)]
    for sequence in range(2):
        context.remove(sequence, 0)
    together = context.decode([*rows(PROMPT), *rows([7, 7, 0], sequence=1)])
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-5)


def test_going_back_and_on_gives_the_numbers_of_a_fresh_start(context: Context) -> None:
    read(context, [*PROMPT, 6, 6])
    assert context.remove(0, 5)
    again = read(context, [0, 4], start=5)
    read(context, PROMPT, sequence=1)
    np.testing.assert_array_equal(again, read(context, [0, 4], sequence=1, start=5))


def test_a_copy_goes_its_own_way(context: Context) -> None:
    read(context, PROMPT)
    context.copy(0, 2)
    context.copy(0, 0)
    read(context, [7], start=5)
    context.remove(0, 0)
    assert context.length(2) == 5
    np.testing.assert_allclose(
        np.exp(log_softmax(read(context, [5], sequence=2, start=5)[0])),
        LAWS["target"]["second_given_first"]["f"],
        atol=1e-5,
    )


def test_a_saved_state_comes_back_bit_for_bit_in_any_sequence(context: Context) -> None:
    read(context, PROMPT)
    state = context.save(0)
    expected = read(context, [0, 1], start=5)
    read(context, [4, 4, 4], sequence=1)
    for sequence in (0, 1):
        context.load(sequence, state)
        np.testing.assert_array_equal(read(context, [0, 1], sequence=sequence, start=5), expected)


def test_a_damaged_state_is_refused(context: Context) -> None:
    read(context, PROMPT)
    state = context.save(0)
    with pytest.raises(DecodeFailed, match="refused"):
        context.load(1, state[: len(state) // 2])
    assert context.length(1) == 0


def test_a_running_state_cannot_lose_a_token_but_can_be_restored() -> None:
    with model("mtarget.gguf") as recurrent, Context(recurrent, exact(sequences=2)) as context:
        assert recurrent.is_recurrent
        read(context, PROMPT)
        state = context.save(0)
        expected = read(context, [6], start=5)
        assert not context.remove(0, 5)
        context.load(0, state)
        np.testing.assert_array_equal(read(context, [6], start=5), expected)


def test_what_is_abandoned_reads_nothing_more(target: Model) -> None:
    with Context(target, exact(sequences=2, batch=32, outputs=8)) as context:
        read(context, PROMPT)
        context.abandon()
        with pytest.raises(DecodeFailed, match="aborted"):
            context.decode(rows(PROMPT, sequence=1))
        assert (context.length(0), context.length(1)) == (len(PROMPT), 0)
