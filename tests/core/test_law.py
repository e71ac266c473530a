from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftproof.core.law import TokenLaw, log_softmax, total_variation


@given(st.lists(st.integers(0, 3), min_size=3, max_size=12).filter(any), st.sets(st.integers(0, 2)))
def test_a_law_says_the_same_however_it_is_stored(weights: list[int], asked: set[int]) -> None:
    p = np.array(weights) / sum(weights)
    dense = TokenLaw.of(p)
    ids = np.flatnonzero(p)
    sparse = TokenLaw(ids, p[ids], len(p))
    some = np.array(sorted(asked), dtype=np.int64)
    for law in (dense, sparse):
        np.testing.assert_array_equal(law.dense(), p)
        np.testing.assert_array_equal(law.on(some), p[some])
        np.testing.assert_array_equal(law.on(np.arange(len(p))), p)
        assert [law.at(t) for t in range(len(p))] == p.tolist()
        assert law.argmax == int(np.argmax(p))


def test_one_hot() -> None:
    assert TokenLaw.one_hot(2, 4).dense().tolist() == [0, 0, 1, 0]
    assert TokenLaw.one_hot(2, 4).at(3) == 0.0


def test_log_softmax_keeps_impossible_tokens_impossible() -> None:
    rows = log_softmax(np.array([[0.0, -np.inf, 0.0], [1000.0, 1000.0, -1000.0]]))
    assert rows[0].tolist() == pytest.approx([np.log(0.5), -np.inf, np.log(0.5)])
    assert np.exp(rows).sum(axis=-1) == pytest.approx([1, 1])


def test_total_variation_is_half_the_l1_distance() -> None:
    assert total_variation(np.array([0.5, 0.5, 0]), np.array([0, 0.5, 0.5])) == pytest.approx(0.5)
