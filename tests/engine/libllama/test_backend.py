from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

import numpy as np
import pytest
from tests.engine.libllama.models import LAWS, PROMPT, backend

from draftproof.core.distribution import log_softmax
from draftproof.core.sampling import Sampling
from draftproof.core.speculation import DraftModel
from draftproof.engine.backend import Backend, CannotTruncate, ContextFull, Feed, UnknownToken
from draftproof.engine.backends.llama import LlamaBackend, LlamaOptions
from draftproof.engine.draft.model import ModelDrafter
from draftproof.engine.generate import Job, generate
from draftproof.engine.libllama import Context, Row
from draftproof.engine.libllama.errors import Closed, DecodeFailed, ModelRejected
from draftproof.engine.libllama.openmp import aside
from draftproof.engine.libllama.rows import RowTest
from draftproof.engine.slot import Models, Order, Run
from draftproof.engine.slots import Slots
from draftproof.engine.verify import greedy

pytestmark = pytest.mark.real
TASKS = Path("/proc/self/task")


@pytest.fixture
def target() -> Iterator[LlamaBackend]:
    made = backend("target.gguf", sequences=3, batch=16, outputs=8)
    yield made
    made.close()


@pytest.fixture
def recurrent() -> Iterator[LlamaBackend]:
    made = backend("mtarget.gguf", sequences=3, batch=16, outputs=8)
    yield made
    made.close()


def test_what_it_says_of_itself_was_measured(target: LlamaBackend, recurrent: LlamaBackend) -> None:
    protocol: Backend = target
    assert (protocol.vocab, protocol.context, protocol.eog) == (8, 256, frozenset())
    assert (target.can_truncate, recurrent.can_truncate) == (True, False)
    assert 1 <= target.max_rows_exact <= 4
    assert len(target.row_test.seconds) == 4  # all that were to be tried, exact or not
    assert min(target.row_test.seconds) > 0
    assert target.vocabulary == recurrent.vocabulary


@pytest.mark.skipif(not TASKS.exists(), reason="counts threads in Linux's /proc")
def test_what_is_measured_leaves_no_threads_behind() -> None:
    """Beside those of the engine they would outnumber the processors, and then OpenMP has all of them sleep between operations."""

    def started_by_a_new_thread() -> int:
        made = backend("target.gguf", threads=2)
        _ = made.row_test
        time.sleep(0.5)  # a thread is joined a little before the system knows that it ended
        before = set(TASKS.iterdir())
        made.sequence().extend(PROMPT)
        after = set(TASKS.iterdir())
        made.close()
        return len(after - before)

    assert aside(started_by_a_new_thread) == 1, "its first helper: it was left none"


def test_rows_are_the_known_law(target: LlamaBackend) -> None:
    sequence = target.sequence()
    rows = sequence.extend([*PROMPT, 5], rows=2)
    np.testing.assert_allclose(np.exp(log_softmax(rows[0])), LAWS["target"]["first"], atol=1e-5)
    np.testing.assert_allclose(np.exp(log_softmax(rows[1])), LAWS["target"]["second_given_first"]["f"], atol=1e-5)
    assert sequence.length == 6


def test_any_number_of_rows_of_a_long_text_comes_back(target: LlamaBackend) -> None:
    tokens = [i * i % 8 for i in range(50)]
    every = target.sequence().extend(tokens).copy()
    assert every.shape == (50, 8)
    for n in (0, 1, 9, 17, 49):
        with_close = target.sequence()
        np.testing.assert_allclose(with_close.extend(tokens, rows=n), every[50 - n :], atol=1e-5)
        with_close.close()


def test_a_prompt_in_parts_gives_the_numbers_of_the_whole_bit_for_bit(target: LlamaBackend) -> None:
    tokens = [i * i % 8 for i in range(50)]
    whole = target.sequence().extend(tokens, rows=1).copy()
    parts = target.sequence()
    parts.extend(tokens[:32], rows=0)
    np.testing.assert_array_equal(parts.extend(tokens[32:], rows=1), whole)


@pytest.mark.parametrize(
    ("tokens", "rows", "error"),
    [
        ([], None, ValueError),
        ([1], 2, ValueError),
        ([1], -1, ValueError),
        ([8], None, UnknownToken),
        ([-1], None, UnknownToken),
        ([0] * 257, 1, ContextFull),
    ],
)
def test_wrong_input_is_refused_and_nothing_is_read(
    target: LlamaBackend, tokens: list[int], rows: int | None, error: type[Exception]
) -> None:
    sequence = target.sequence()
    with pytest.raises(error):
        sequence.extend(tokens, rows)
    assert sequence.length == target.memory.length(sequence.number) == 0


def test_the_whole_context_can_be_filled(target: LlamaBackend) -> None:
    sequence = target.sequence()
    sequence.extend([0] * 256, rows=1)
    with pytest.raises(ContextFull):
        sequence.extend([0])


def test_sequences_fed_together_give_what_each_gives_alone(target: LlamaBackend) -> None:
    texts = [PROMPT, [7] * 20, [0, 1], [6]]
    alone = []
    for text in texts[:3]:
        sequence = target.sequence()
        alone.append(sequence.extend(text).copy())
        sequence.close()
    sequences = [target.sequence() for _ in range(3)]
    together = target.extend([Feed(s, tuple(text)) for s, text in zip(sequences, texts, strict=False)])
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert [s.length for s in sequences] == [5, 20, 2]
    with pytest.raises(ValueError, match="twice"):
        target.extend([Feed(sequences[0], (1,)), Feed(sequences[0], (2,))])


@pytest.mark.parametrize(("most_cost", "calls"), [(math.inf, 3), (3.1, 3), (2.9, 1)])
def test_company_is_read_in_exact_batches_only_where_that_costs_little(most_cost: float, calls: int) -> None:
    made = backend("target.gguf", sequences=3, threads=2, tokens=512, most_cost=most_cost)
    assert made.max_rows_exact == 1
    made._row_test = RowTest(1, (1.0, 1.0, 1.0, 0.5))
    sequences = [made.sequence() for _ in range(3)]
    with patch.object(made.memory, "decode", wraps=made.memory.decode) as decode:
        made.extend([Feed(s, (1,)) for s in sequences])
    assert decode.call_count == calls
    made.close()


def test_rows_are_exact_beside_several_threads_where_one_reads_a_token_alone() -> None:
    alone, several, shared = (
        backend("target.gguf", tokens=512, threads=threads, token_threads=token_threads)
        for threads, token_threads in ((1, 0), (2, 1), (2, 0))
    )
    assert several.row_test.sizes == alone.row_test.sizes
    assert shared.row_test.sizes == (1,)
    for made in (alone, several, shared):
        made.close()


def test_when_strict_company_changes_no_bit() -> None:
    strict = backend("target.gguf", sequences=3)
    assert strict.max_rows_exact < 3
    texts = [(1, 2), (3, 4), (5, 6)]
    alone = []
    for text in texts:
        sequence = strict.sequence()
        alone.append(sequence.extend(text).copy())
        sequence.close()
    sequences = [strict.sequence() for _ in texts]
    together = strict.extend([Feed(s, text) for s, text in zip(sequences, texts, strict=True)])
    np.testing.assert_array_equal(together, alone)
    strict.close()


def test_truncating_and_going_on_equals_a_fresh_start(target: LlamaBackend) -> None:
    sequence = target.sequence()
    sequence.extend([*PROMPT, 6, 6, 6])
    for length in (-1, 9):
        with pytest.raises(ValueError, match="cannot truncate"):
            sequence.truncate(length)
    sequence.truncate(5)
    after = sequence.extend([2]).copy()
    fresh = target.sequence()
    fresh.extend(PROMPT)
    np.testing.assert_array_equal(after, fresh.extend([2]))


@pytest.mark.parametrize("name", ["target.gguf", "mtarget.gguf"])
def test_a_checkpoint_brings_back_its_tokens_as_often_as_asked(name: str) -> None:
    made = backend(name)
    sequence = made.sequence()
    sequence.extend(PROMPT)
    checkpoint = sequence.checkpoint()
    expected = sequence.extend([6, 7]).copy()
    for _ in range(2):
        sequence.restore(checkpoint)
        assert (sequence.length, sequence.tokens) == (5, PROMPT)
        np.testing.assert_array_equal(sequence.extend([6, 7]), expected)
    sequence.restore(checkpoint)
    sequence.truncate(0)
    sequence.extend([4, 4, 4, 4, 4, 4, 4])
    sequence.restore(checkpoint)
    np.testing.assert_allclose(sequence.extend([6, 7]), expected, atol=1e-5)
    made.close()


def test_a_running_state_cannot_be_truncated_but_emptied(recurrent: LlamaBackend) -> None:
    sequence = recurrent.sequence()
    sequence.extend(PROMPT)
    with pytest.raises(CannotTruncate):
        sequence.truncate(4)
    sequence.truncate(5)
    assert sequence.length == 5
    sequence.truncate(0)
    assert sequence.length == recurrent.memory.length(sequence.number) == 0


@pytest.mark.parametrize("name", ["target.gguf", "mtarget.gguf"])
def test_who_adopts_goes_its_own_way(name: str) -> None:
    made = backend(name, sequences=3)
    sequence, other = made.sequence(), made.sequence()
    sequence.extend(PROMPT)
    other.extend(PROMPT)
    adopting = made.sequence()
    adopting.extend([1])
    adopting.adopt(sequence, sequence.length)
    sequence.extend([7, 7])
    np.testing.assert_allclose(adopting.extend([0]), other.extend([0]).copy(), atol=1e-6)
    assert (sequence.length, adopting.length) == (7, 6)
    made.close()


def test_a_part_of_what_another_holds_can_be_adopted_where_memories_can_be_rolled_back() -> None:
    made = backend("target.gguf", sequences=3)
    long, part, read = made.sequence(), made.sequence(), made.sequence()
    long.extend([*PROMPT, 7, 7])
    read.extend(PROMPT[:3])
    part.adopt(long, 3)
    np.testing.assert_allclose(part.extend([0]), read.extend([0]).copy(), atol=1e-6)
    part.adopt(made.sequences[2], 0)
    assert part.length == made.memory.length(part.number) == 0
    made.close()
    recurrent = backend("mtarget.gguf", sequences=2)
    sequence, other = recurrent.sequence(), recurrent.sequence()
    sequence.extend(PROMPT)
    with pytest.raises(CannotTruncate):
        other.adopt(sequence, 3)
    assert other.length == recurrent.memory.length(other.number) == len(PROMPT)
    made.close()


def test_closed_sequences_make_room_and_cannot_be_used(target: LlamaBackend) -> None:
    sequences = [target.sequence() for _ in range(3)]
    sequences[1].extend(PROMPT)
    with pytest.raises(ContextFull):
        target.sequence()
    sequences[1].close()
    sequences[1].close()
    with pytest.raises(Closed):
        sequences[1].extend([0])
    again = target.sequence()
    assert again.length == target.memory.length(again.number) == 0
    other = backend("target.gguf")
    stranger = other.sequence()
    with pytest.raises(Closed):
        target.extend([Feed(stranger, (1,))])
    other.close()
    with pytest.raises(Closed):
        stranger.extend([1])
    stranger.close()


def test_a_call_that_fails_half_way_leaves_every_sequence_as_it_was(
    target: LlamaBackend, recurrent: LlamaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = Context.decode

    def fail(context: Context, rows: object) -> object:
        if calls.pop():
            raise DecodeFailed(-3, "")
        return decode(context, rows)  # type: ignore[arg-type]

    for made in (target, recurrent):
        assert made.max_rows_exact >= 1  # measured before the trouble begins
        sequences = [made.sequence() for _ in range(2)]
        for sequence in sequences:
            sequence.extend(PROMPT)
        monkeypatch.setattr(Context, "decode", fail)
        calls = [True, False, False]
        with pytest.raises(DecodeFailed):
            made.extend([Feed(sequences[0], (1,) * 30, 1), Feed(sequences[1], (1,), 1)])
        monkeypatch.undo()
        assert [s.length for s in sequences] == [5, 5]
        if made.can_truncate:
            assert [made.memory.length(s.number) for s in sequences] == [5, 5]
        else:
            with pytest.raises(Closed):
                sequences[0].extend([1])


def test_who_is_closed_twice_takes_nothing_from_who_came_after(target: LlamaBackend) -> None:
    first = target.sequence()
    first.close()
    second = target.sequence()
    assert second.number == first.number
    second.extend(PROMPT, 1)
    first.close()
    assert target.memory.length(second.number) == second.length == len(PROMPT)
    second.extend([1], 1)


def test_after_a_failed_call_every_slot_of_a_recurrent_model_has_a_memory_of_its_own(recurrent: LlamaBackend) -> None:
    slots = Slots(Models(recurrent), 2)
    orders = [Order(Job(tuple(PROMPT), 20, Sampling(), 5), slot=slot, reuse=False) for slot in (0, 1)]

    decode = Context.decode

    def half_way(context: Context, rows: list[Row]) -> NoReturn:
        decode(context, rows)
        raise DecodeFailed(-3, "as if")

    def answers() -> list[Run]:
        runs = [slots.start(order) for order in orders]
        while slots.runs:
            slots.step()
        return runs

    right = [run.generation.context for run in answers()]
    for steps in (3, 4):  # the slots are read in turn
        failing = [slots.start(order) for order in orders]
        for _ in range(steps):
            slots.step()
        with patch.object(Context, "decode", half_way):
            slots.step()
        assert [type(run.error) for run in failing] == [DecodeFailed, DecodeFailed]
        assert {id(slot.memory) for slot in slots.slots} == {id(sequence) for sequence in recurrent.sequences}
        assert [run.generation.context for run in answers()] == right


@pytest.mark.parametrize(("name", "draft_name"), [("target.gguf", "draft.gguf"), ("mtarget.gguf", "mdraft.gguf")])
def test_greedy_text_is_the_same_with_a_draft_model(name: str, draft_name: str) -> None:
    target, draft = backend(name), backend(draft_name)
    job = Job(tuple(PROMPT), 60, Sampling(temperature=0))
    plain = [emitted.token for emitted in generate(target, job)]
    drafter = ModelDrafter(draft, draft.sequence(), job.sampling, DraftModel(n_max=3), drawn=False)
    speculated = list(generate(target, job, drafter=drafter, rule=greedy.RULE))
    assert [emitted.token for emitted in speculated] == plain
    assert {emitted.origin.value for emitted in speculated} > {"accepted", "recovered"}
    target.close()
    draft.close()


def test_outputs_need_not_divide_the_batch() -> None:
    made, tokens = backend("target.gguf", batch=16, outputs=5), [i * i % 8 for i in range(50)]
    whole, by_one = made.sequence().extend(tokens), backend("target.gguf").sequence()
    np.testing.assert_allclose(whole, np.concatenate([by_one.extend([token]).copy() for token in tokens]), atol=1e-5)
    made.close()


def test_progress_and_errors_of_loading_come_through(tmp_path: Path) -> None:
    with pytest.raises(ModelRejected):
        LlamaBackend(tmp_path / "no.gguf", LlamaOptions())
