from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.core.candidates import Candidates, Leading, largest
from draftproof.core.chain import Chain
from draftproof.core.sampling import Sampling

BANS = ((2, -np.inf), (3, -np.inf))


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


@settings(deadline=None, max_examples=60)
@given(
    size=st.sampled_from([5, 1024, 5000]),
    known=st.integers(1, 60),
    levels=st.sampled_from([3, 1000]),
    sampling=st.sampled_from(
        [
            Sampling(temperature=0),
            Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05),
            Sampling(top_k=3, top_p=0.5, min_keep=2),
            Sampling(top_p=0.9),
            Sampling(min_p=0.2, temperature=1.5),
            Sampling(top_k=20, typical_p=0.7),
            Sampling(temperature=0.7, repeat_penalty=1.3, top_k=10),
            Sampling(logit_bias=((1, 5.0),), top_k=4),
            Sampling(logit_bias=BANS, top_k=4, top_p=0.9),
            Sampling(logit_bias=BANS, temperature=0),
            Sampling(logit_bias=(*BANS, (1, 5.0)), top_k=4),
        ]
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_is_known_of_the_largest_logits_changes_no_law(
    size: int, known: int, levels: int, sampling: Sampling, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    row = (rng.integers(0, levels, size) * 8.0 / levels).astype(np.float32)
    row[rng.random(size) < 0.1] = -np.inf
    row[[2, 4]] = 9.0, 3.0
    chain = Chain(sampling)
    alone, helped = (chain.law(row, [1, 2], leading=leading) for leading in (None, Leading.of(row, known)))
    np.testing.assert_array_equal(alone.ids, helped.ids)
    np.testing.assert_array_equal(alone.p, helped.p)


def test_as_many_more_of_the_largest_logits_are_wanted_as_are_banned() -> None:
    row = np.arange(9.0, dtype=np.float32)
    chain = Chain(Sampling(logit_bias=((8, -np.inf), (7, -np.inf), (0, -np.inf)), top_k=2))
    assert chain.leading == 5
    assert chain.law(row, [], leading=Leading.of(row, chain.leading)).ids.tolist() == [5, 6]
    assert chain.law(row, [], leading=Leading.of(row, 3)).ids.tolist() == [5, 6]


def test_a_bias_that_can_lift_a_token_wants_the_whole_row() -> None:
    assert Chain(Sampling(logit_bias=((8, -np.inf), (3, 0.5)), top_k=2)).leading == 0
