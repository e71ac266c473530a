from __future__ import annotations

import numpy as np
import pytest

from draftproof.core.distribution import log_softmax
from draftproof.core.law import TokenLaw
from draftproof.engine.emit import Origin, Report, logsumexp, top_of


@pytest.mark.parametrize("vocab", [8, 49_152])
def test_logprobs_are_those_of_the_whole_row(vocab: int) -> None:
    row = (np.random.default_rng(1).normal(size=vocab) * 4).astype(np.float32)
    raw = log_softmax(row)
    assert logsumexp(row) == pytest.approx(float(np.logaddexp.reduce(row.astype(np.float64))), abs=2e-7)
    listed = Report(10).describe(3, Origin.PLAIN, 0, row, None).alternatives
    assert listed is not None
    np.testing.assert_array_equal(listed.ids, np.argsort(-row, kind="stable")[:10])
    np.testing.assert_allclose(listed.values, raw[listed.ids], atol=2e-7)


def test_logits_out_of_the_range_of_exponentials_and_rows_with_nan() -> None:
    row = np.linspace(-900, 700, 5000, dtype=np.float32)
    assert logsumexp(row) == pytest.approx(float(np.logaddexp.reduce(row.astype(np.float64))), rel=1e-6)
    assert logsumexp(row - 1500) == pytest.approx(float(np.logaddexp.reduce(row.astype(np.float64) - 1500)), rel=1e-6)
    row[4000] = np.nan
    for alternatives in (0, 10):
        with pytest.raises(ValueError, match="not numbers"):
            Report(alternatives).describe(3, Origin.PLAIN, 0, row, None)


def test_more_alternatives_than_tokens_are_all_tokens() -> None:
    row = np.zeros(3, dtype=np.float32)
    listed = Report(10).describe(0, Origin.PLAIN, 0, row, None).alternatives
    assert listed is not None
    assert len(listed.ids) == 3


def test_impossible_tokens_are_not_listed_as_sampled() -> None:
    listed = top_of(TokenLaw.of(np.array([0.0, 0.25, 0.75])), 3)
    assert listed.ids.tolist() == [2, 1]
    assert listed.values.tolist() == [0.75, 0.25]


def test_a_report_keeps_no_view_of_the_row() -> None:
    row = np.array([1.0, 2.0], dtype=np.float32)
    emitted = Report(alternatives=2, rows=True).describe(1, Origin.PLAIN, 4, row, TokenLaw.of(np.array([0.5, 0.5])))
    row[:] = 0
    assert emitted.row is not None
    assert emitted.row.tolist() == [1.0, 2.0]
    assert emitted.logprob == pytest.approx(log_softmax(np.array([1.0, 2.0]))[1])


def test_a_banned_token_has_logprob_minus_infinity() -> None:
    row = np.array([0.0, -np.inf], dtype=np.float32)
    assert Report().describe(1, Origin.PROMPT, 1, row, None).logprob == -np.inf
