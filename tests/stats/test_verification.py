from __future__ import annotations

import numpy as np
import pytest

from draftproof.stats.verification import entropy, nucleus, one_uniform, tempered


def test_the_entropy_of_equally_likely_tokens_is_the_log_of_their_number() -> None:
    laws = np.array([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(entropy(laws), np.log([[4.0], [2.0], [1.0]]))


def test_a_nucleus_ends_with_the_token_that_reaches_the_mass() -> None:
    law = np.array([0.25, 0.5, 0.125, 0.125])
    np.testing.assert_array_equal(nucleus(law, 0.5), [0, 1, 0, 0])
    np.testing.assert_allclose(nucleus(law, 0.51), [1 / 3, 2 / 3, 0, 0])


def test_hardly_any_temperature_is_greedy_even_over_many_tokens() -> None:
    """1e-5 to the power of 100 is no float64."""
    law = np.full(100_000, 1e-5)
    law[7] *= 2
    assert tempered(law / law.sum(), 0.01)[7] == pytest.approx(1.0)


def test_rows_with_impossible_tokens_are_independent_under_one_uniform_number() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.0, 0.3, 0.7], [0.2, 0.0, 0.8]])
    q = np.array([[0.2, 0.5, 0.3], [0.6, 0.4, 0.0], [0.1, 0.1, 0.8]])
    together = one_uniform(p, q)
    for i in range(3):
        np.testing.assert_allclose(together.law[i], one_uniform(p[i], q[i]).law, atol=1e-12)
        assert together.law[i].sum() == pytest.approx(1.0)
