from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.core import chain
from draftproof.core.distribution import shape
from draftproof.core.sampling import NEUTRAL, SAMPLERS, Sampling

ROW = np.log([0.4, 0.3, 0.2, 0.1])

some_sampling = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_k=st.integers(0, 9),
    top_p=st.floats(0, 1),
    min_p=st.floats(0, 1),
    typical_p=st.floats(0, 1.2),
    top_n_sigma=st.floats(-1, 3),
    repeat_penalty=st.floats(0.5, 2),
    presence_penalty=st.floats(-1, 1),
    frequency_penalty=st.floats(-1, 1),
    repeat_last_n=st.integers(-1, 6),
    dry_multiplier=st.sampled_from([0.0, 1.0]),
    dry_allowed_length=st.integers(0, 3),
    xtc_probability=st.sampled_from([0.0, 0.5, 1.0]),
    xtc_threshold=st.floats(0, 0.6),
    dynatemp_range=st.sampled_from([0.0, 0.5]),
    mirostat=st.sampled_from([0, 0, 0, 1, 2]),
    min_keep=st.integers(0, 5),
    samplers=st.permutations(SAMPLERS).map(tuple),
)


@settings(deadline=None, max_examples=200)
@given(sampling=some_sampling, seed=st.integers(0, 2**32 - 1), banned=st.sets(st.integers(0, 7), max_size=7))
def test_every_chain_leaves_a_law_on_possible_tokens(sampling: Sampling, seed: int, banned: set[int]) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=8).round(1).astype(np.float32)
    sampling = replace(sampling, logit_bias=tuple((t, -np.inf) for t in banned))
    before = logits.copy()
    p = shape(logits, rng.integers(0, 8, 12).tolist(), sampling)
    assert p.shape == (8,)
    assert p.dtype == np.float64
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (p >= 0).all()
    assert not p[list(banned)].any()
    np.testing.assert_array_equal(logits, before)


@settings(deadline=None, max_examples=30)
@given(sampling=some_sampling, seed=st.integers(0, 2**32 - 1))
def test_a_large_vocabulary_takes_no_other_way(sampling: Sampling, seed: int) -> None:
    """Short cuts for large rows: the same tokens far below the rest of a small row must not change its law."""
    sampling = replace(sampling, typical_p=1.0, mirostat=0, top_n_sigma=-1.0, dynatemp_range=0.0, min_keep=0)
    rng = np.random.default_rng(seed)
    small = rng.normal(size=8).round(1).astype(np.float32)
    large = np.full(9000, -400.0, dtype=np.float32)
    ids = np.sort(rng.permutation(9000)[:8])
    large[ids] = small
    context = rng.integers(0, 8, 12)
    p = chain.law(large, ids[context].tolist(), replace(sampling, presence_penalty=0.0, frequency_penalty=0.0))
    r = chain.law(small, context.tolist(), replace(sampling, presence_penalty=0.0, frequency_penalty=0.0))
    np.testing.assert_allclose(p.on(ids), r.dense(), atol=1e-12)


def test_neutral_is_the_softmax() -> None:
    assert shape(ROW, (), NEUTRAL) == pytest.approx([0.4, 0.3, 0.2, 0.1], abs=1e-15)


def test_without_a_coin_xtc_is_the_mixture() -> None:
    sampling = Sampling(xtc_probability=0.25, xtc_threshold=0.25)
    cut = np.array([0, 0.3, 0.2, 0.1]) / 0.6
    assert shape(ROW, (), sampling) == pytest.approx(0.75 * np.exp(ROW) + 0.25 * cut, abs=1e-15)


def test_ties_at_an_edge_go_to_the_lower_id() -> None:
    assert np.flatnonzero(shape(np.zeros(5), (), Sampling(top_k=2))).tolist() == [0, 1]
    assert np.flatnonzero(shape(np.zeros(5), (), Sampling(temperature=0))).tolist() == [0]


def test_temperature_zero_is_no_greedy_when_a_sampler_can_drop_the_best_token() -> None:
    assert Sampling(temperature=0).greedy
    assert not Sampling(temperature=0, typical_p=0.5).greedy
    assert not Sampling(temperature=0, xtc_probability=0.5).greedy
    assert not Sampling(temperature=0, samplers=("top_k",)).greedy


def test_a_ban_on_every_token_is_an_error() -> None:
    with pytest.raises(ValueError, match="no token is left"):
        shape(ROW, (), Sampling(logit_bias=tuple((t, -np.inf) for t in range(4))))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", -0.1),
        ("min_p", 1.5),
        ("repeat_penalty", 0.0),
        ("mirostat", 3),
        ("dry_base", float("nan")),
        ("samplers", ("top_k", "nonsense")),
        ("logit_bias", ((-1, 0.5),)),
        ("logit_bias", ((1, float("nan")),)),
        ("repeat_last_n", -2),
    ],
)
def test_a_value_that_no_sampler_can_use_is_named(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"nonsense" if field == "samplers" else field):
        replace(NEUTRAL, **{field: value})


def test_llama_cpp_names_samplers_in_more_than_one_way() -> None:
    assert Sampling(samplers=("typical_p", "temp")).samplers == ("typ_p", "temperature")
