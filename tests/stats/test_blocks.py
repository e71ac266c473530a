from __future__ import annotations

import numpy as np
import pytest

from draftproof.core.distribution import Law
from draftproof.stats.blocks import LENGTHS, BlockBets, Relative
from draftproof.stats.learners import Rows

TOKENS = (0, 1, 2, 1)


def rows(first: int, last: int) -> Rows:
    """Tokens `first` to `last` of one answer."""
    n = last - first
    contexts = [TOKENS[:i] for i in range(first, last)]
    return Rows(np.ones((n, 3)) / 3, np.array(TOKENS[first:last]), None, None, contexts, np.zeros(n, dtype=np.int64))


def relative(first: int, last: int, impossible: tuple[int, ...] = ()) -> Relative:
    """Of one rule: how much likelier each token is, as an accepted draft and otherwise."""
    accepted, instead = np.array([[0.9], [0.2], [1.4], [0.7]]), np.array([[0.3], [0.5], [0.1], [0.6]])
    for n in impossible:
        accepted[n] = instead[n] = 0.0
    part = slice(first, last)
    return Relative(accepted[part], instead[part], 0.8 * accepted[part], 0.9 * instead[part])


def test_an_answer_at_once_is_the_answer_token_by_token() -> None:
    together = BlockBets(1).factors(rows(0, 4), relative(0, 4))
    one = BlockBets(1)
    single = [one.factors(rows(n, n + 1), relative(n, n + 1)) for n in range(4)]
    for i in range(2):
        np.testing.assert_allclose(np.concatenate([s[i] for s in single]), together[i])


def test_the_first_token_is_most_likely_the_first_of_a_block() -> None:
    factor, ruled = BlockBets(1).factors(rows(0, 1), relative(0, 1))
    for k, length in enumerate(LENGTHS):
        later = 0.1 * (length - 1) / length
        bonus = 0.1 / length
        assert factor[0, 0, k] == pytest.approx(0.9 * (0.9 + 0.3) + later * (0.72 + 0.27) + bonus)
        assert ruled[0, 0, k] == pytest.approx(1 - bonus)


def test_after_a_token_that_the_rule_cannot_give_the_block_begins_anew() -> None:
    """Only a bonus token leaves the rule alive, so that its places are certain; with K = 1 that is one place of two."""
    bets, fresh = BlockBets(1), BlockBets(1)
    bets.rules = 1
    dead = Relative(*(np.zeros((1, 1)) for _ in range(4)))
    places: Law = np.zeros((1, 1, sum(LENGTHS) + len(LENGTHS)))
    for end in np.cumsum(np.array(LENGTHS) + 1):
        places[0, 0, end - 2] = 1.0  # the last place before the bonus
    bets._open[0, ()] = places[0]
    factor, _ = bets.factors(rows(0, 1), dead)
    np.testing.assert_array_equal(factor, 0.0)
    after = bets.factors(rows(1, 2), relative(1, 2))[0]
    begun = fresh.factors(Rows(np.ones((1, 3)) / 3, np.array([1]), None, None, [()], np.array([0])), relative(1, 2))[0]
    np.testing.assert_allclose(after, begun)
