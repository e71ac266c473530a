from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.core.candidates import Candidates, largest


@settings(deadline=None, max_examples=40)
@given(
    size=st.sampled_from([1, 7, 1024, 4097, 5000, 20_000]),
    n=st.integers(1, 3000),
    levels=st.sampled_from([2, 30, 1_000_000]),
    seed=st.integers(0, 2**32 - 1),
)
def test_largest_are_those_of_a_stable_sort_ties_included(size: int, n: int, levels: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, levels, size).astype(np.float32)
    np.testing.assert_array_equal(largest(values, n), np.argsort(-values, kind="stable")[:n])


def test_largest_bears_banned_tokens() -> None:
    values = np.full(10_000, -np.inf, dtype=np.float32)
    values[[17, 9_999]] = [1.0, 2.0]
    assert largest(values, 2).tolist() == [9_999, 17]
    assert largest(values, 3).tolist() == [9_999, 17, 0]


def test_kept_candidates_are_counted_as_llama_cpp_counts_them() -> None:
    c = Candidates.of(np.array([0.0, -np.inf, 2.0, 1.0])).sort()
    assert c.ids is not None
    assert (c.ids.tolist(), c.size) == ([2, 3, 0], 4)
    assert c.best(2).size == 2
    assert c.best(9).size == 4


def test_law_is_by_ascending_id() -> None:
    law = Candidates.of(np.log([0.1, 0.5, 0.4])).best(2).law()
    assert law.ids.tolist() == [1, 2]
    assert law.p == pytest.approx([5 / 9, 4 / 9], abs=1e-15)
