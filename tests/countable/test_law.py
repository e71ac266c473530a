from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.core.distribution import shape
from draftproof.core.errors import UsageError
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.countable.catalogue import builtin, named
from draftproof.countable.law import (
    by_text,
    conditional_laws,
    greedy_path,
    joint_law,
    next_law,
    table,
    token_ids,
)

SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.6, 1.0, 1.7]),
    top_k=st.integers(0, 4),
    top_p=st.sampled_from([0.5, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.1]),
    repeat_penalty=st.sampled_from([1.0, 1.3]),
    repeat_last_n=st.integers(-1, 3),
    presence_penalty=st.sampled_from([0.0, 0.5]),
    frequency_penalty=st.sampled_from([0.0, 0.4]),
    logit_bias=st.sampled_from([(), ((1, -1.0),), ((2, -math.inf),)]),
)
NAMES = ["story", "zeros", "point-masses", "ties", "near-deterministic"]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NAMES), SAMPLINGS)
def test_joint_laws_are_products_of_what_each_prefix_gives(name: str, sampling: Sampling) -> None:
    pair = named(name)
    context = (0, 1)
    if name == "point-masses" and sampling.logit_bias == ((2, -math.inf),):
        with pytest.raises(ValueError, match="no token is left"):
            joint_law(pair.target_logits, context, 3, sampling)
        return
    joint = joint_law(pair.target_logits, context, 3, sampling)
    assert joint.shape == (pair.vocabulary,) * 3
    assert joint.sum() == pytest.approx(1)
    rng = np.random.default_rng(3)
    for a, b, c in rng.integers(0, pair.vocabulary, size=(20, 3)).tolist():
        expected = 1.0
        for before, token in (((), a), ((a,), b), ((a, b), c)):
            if expected:
                here = (*context, *before)
                expected *= shape(pair.target_logits([here])[0], here, sampling)[token]
        assert joint[a, b, c] == pytest.approx(expected, abs=1e-12)


def test_conditional_laws_give_back_the_steps() -> None:
    pair = named("zeros")
    first, second, third = conditional_laws(joint_law(pair.target_many, (0,), 3))
    assert first == pytest.approx(next_law(pair.target_many, (0,)))
    assert second[1] == pytest.approx(next_law(pair.target_many, (0, 1)))
    assert (second[3] == 0).all()
    assert third[1, 2] == pytest.approx(next_law(pair.target_many, (0, 1, 2)))


def test_the_greedy_path_takes_the_likeliest_each_time() -> None:
    pair = builtin()
    path = greedy_path(pair.target_logits, (1, 2), 6)
    for i, token in enumerate(path):
        assert token == np.argmax(pair.target((1, 2, *path[:i])))


def test_the_greedy_path_minds_penalties() -> None:
    plain = greedy_path(builtin().target_logits, (1, 2), 12)
    punished = greedy_path(builtin().target_logits, (1, 2), 12, Sampling(presence_penalty=50, repeat_last_n=3))
    assert len(set(plain)) < 8
    assert all(len(set(punished[i : i + 3])) == 3 for i in range(10))


def test_a_repeat_penalty_needs_logits() -> None:
    pair, sampling = builtin(), Sampling(repeat_penalty=1.5)
    from_logits = next_law(pair.target_logits, (1, 2, 3), sampling)
    from_logprobs = next_law(pair.target_many, (1, 2, 3), sampling)
    assert np.abs(from_logits - from_logprobs).max() > 0.01


def test_sampling_at_rest_is_the_softmax() -> None:
    pair = builtin()
    assert next_law(pair.target_logits, (5, 1), NEUTRAL) == pytest.approx(np.exp(pair.target((5, 1))), abs=1e-14)


@pytest.mark.parametrize("tokens", [0, 8])
def test_what_cannot_be_counted_is_refused(tokens: int) -> None:
    with pytest.raises(UsageError, match="sequences"):
        joint_law(builtin().target_many, (1,), tokens)


def test_texts_and_tables() -> None:
    law = np.array([[0.5, 0.0], [0.2, 0.3]])
    texts = by_text("ab", law)
    assert texts == {"aa": 0.5, "ba": 0.2, "bb": 0.3}
    assert table(texts, rows=2, width=10).splitlines() == [
        "  aa  0.500000  ##########",
        "  bb  0.300000  ######",
        "  and 1 more, together 0.200000",
    ]
    assert len(table(texts).splitlines()) == 3
    assert table({}) == ""


def test_letters_are_token_ids() -> None:
    assert token_ids("abcdefgh", "bcdbc") == (1, 2, 3, 1, 2)
    for text, letter in (("bcx", "x"), ("B", "B"), ("b c", " "), ("é", "é")):
        with pytest.raises(UsageError, match=f'"{letter}" is not a letter of the model.*"abcdefgh"'):
            token_ids("abcdefgh", text)


def test_every_sequence_has_its_text() -> None:
    joint = joint_law(named("uniform").target_many, (), 2)
    assert by_text("abcd", joint) == {"".join(pair): 0.0625 for pair in itertools.product("abcd", repeat=2)}
