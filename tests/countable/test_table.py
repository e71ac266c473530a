from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.core.errors import UsageError
from draftproof.countable.table import Table, TablePair, random_table


def test_the_last_tokens_choose_the_row() -> None:
    table = random_table(3, 2, seed=1)
    assert np.exp(table.logprobs([(0, 2, 1)])[0]) == pytest.approx(table.law[2, 1])


def test_a_short_context_gets_the_mean_over_what_could_stand_before() -> None:
    table = random_table(3, 2, seed=1)
    one, none = np.exp(table.logprobs([(1,), ()]))
    assert one == pytest.approx(table.law[:, 1].mean(axis=0))
    assert none == pytest.approx(table.law.mean(axis=(0, 1)))


def test_order_zero_forgets_everything() -> None:
    table = Table(np.array([0.2, 0.8]))
    assert np.exp(table.logprobs([(), (0,), (1, 1, 0)])) == pytest.approx(np.array([[0.2, 0.8]] * 3))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(0, 3), st.floats(0, 3), st.integers(0, 99))
def test_noise_keeps_laws_and_zeros(vocabulary: int, order: int, noise: float, seed: int) -> None:
    law = random_table(vocabulary, order, seed).law.copy()
    law[..., 0] = 0
    law /= law.sum(axis=-1, keepdims=True)
    copy = Table(law).noisy(noise, seed + 1)
    assert (copy.law[..., 0] == 0).all()
    assert (copy.law[..., 1:] > 0).all()
    if noise == 0:
        assert copy.law == pytest.approx(law, abs=1e-12)


@pytest.mark.parametrize(
    "law", [[0.5, 0.6], [1.5, -0.5], [[0.5, 0.5]], [np.nan, 1.0], 1.0], ids=["sum", "negative", "axes", "nan", "scalar"]
)
def test_what_is_no_table_is_refused(law: object) -> None:
    with pytest.raises(UsageError):
        Table(np.array(law))


def test_unknown_tokens_and_unlike_vocabularies_are_refused() -> None:
    table = random_table(3, 1, seed=1)
    with pytest.raises(UsageError, match=r"0\.\.2"):
        table.logprobs([(3,)])
    with pytest.raises(UsageError, match="different sizes"):
        TablePair("x", table, random_table(4, 1, seed=1))
