from __future__ import annotations

import numpy as np
import pytest

from draftproof.engine.backend import Backend, CannotTruncate, ContextFull, Feed, UnknownToken
from draftproof.engine.backends.table import TableBackend


def table(order: int, vocab: int = 3) -> TableBackend:
    return TableBackend(np.random.default_rng(order).normal(size=(vocab,) * (order + 1)))


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_rows_are_those_of_the_last_tokens(order: int) -> None:
    model: Backend = table(order)
    rows = model.sequence().extend([2, 0, 1, 2])
    full = [0] * order
    for row, token in zip(rows, [2, 0, 1, 2], strict=True):
        full.append(token)
        np.testing.assert_array_equal(row, table(order).table[tuple(full[len(full) - order :])])


def test_only_the_rows_asked_for_come_back() -> None:
    model = table(1)
    sequence = model.sequence()
    assert sequence.extend([0, 1, 2], rows=0).shape == (0, 3)
    np.testing.assert_array_equal(sequence.extend([0, 1, 2], rows=2), model.table[[1, 2]])
    assert sequence.length == 6


def test_a_batch_is_the_same_as_one_by_one() -> None:
    model = table(2)
    a, b = model.sequence(), model.sequence()
    rows = model.extend([Feed(a, (0, 1)), Feed(b, (2, 2, 1), rows=1)])
    np.testing.assert_array_equal(rows[0], model.sequence().extend([0, 1]))
    np.testing.assert_array_equal(rows[1], model.sequence().extend([2, 2, 1], rows=1))


def test_truncation_forgets() -> None:
    sequence = table(2).sequence()
    sequence.extend([0, 1, 2])
    sequence.truncate(1)
    np.testing.assert_array_equal(sequence.extend([2]), table(2).sequence().extend([0, 2])[1:])


def test_a_model_without_rollback_goes_back_to_a_checkpoint_only() -> None:
    sequence = TableBackend(np.zeros((2, 2)), can_truncate=False).sequence()
    sequence.extend([0, 1])
    saved = sequence.checkpoint()
    sequence.extend([1])
    with pytest.raises(CannotTruncate):
        sequence.truncate(2)
    sequence.restore(saved)
    assert sequence.length == 2
    sequence.truncate(2)


def test_who_adopts_goes_its_own_way() -> None:
    model = table(1)
    sequence, other = model.sequence(), model.sequence()
    sequence.extend([0, 1, 1])
    other.extend([1] * 9)
    other.adopt(sequence, 2)
    other.extend([0])
    assert (sequence.tokens, other.tokens) == ([0, 1, 1], [0, 1, 0])
    with pytest.raises(ValueError, match="cannot truncate"):
        other.adopt(sequence, 4)


def test_bad_tokens_leave_the_sequence_as_it_was() -> None:
    sequence = TableBackend(np.zeros((2, 2)), context=3).sequence()
    with pytest.raises(UnknownToken, match="2"):
        sequence.extend([0, 2])
    with pytest.raises(UnknownToken):
        sequence.extend([-1])
    with pytest.raises(ContextFull):
        sequence.extend([0, 1, 0, 1])
    with pytest.raises(ValueError, match="0 tokens"):
        sequence.extend([])
    with pytest.raises(ValueError, match="2 rows"):
        sequence.extend([0], rows=2)
    assert sequence.length == 0


@pytest.mark.parametrize("shape", [(2, 3), (3, 2, 2)])
def test_a_table_must_be_square(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="square"):
        TableBackend(np.zeros(shape))


def test_a_row_without_a_possible_token_is_refused() -> None:
    with pytest.raises(ValueError, match="possible token"):
        TableBackend(np.array([[0.0, 1.0], [-np.inf, -np.inf]]))
