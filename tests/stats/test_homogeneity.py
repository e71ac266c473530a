"""A bet on two laws being different: fair when they are one, and rich when they are not."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from draftproof.stats.homogeneity import Draws, Homogeneity, homogeneity

P = (0.5, 0.3, 0.2)


def draw(rng: np.random.Generator, law: Sequence[float], n: int, length: int = 1) -> list[tuple[int, ...]]:
    return [tuple(row) for row in rng.choice(len(law), p=law, size=(n, length)).tolist()]


def rounds(
    rng: np.random.Generator, first: Sequence[float], second: Sequence[float], sizes: Sequence[int], length: int = 1
) -> list[list[Draws]]:
    return [[(draw(rng, first, n, length), draw(rng, second, n, length))] for n in sizes]


def test_expected_wealth_is_at_most_one_for_every_law() -> None:
    """All 3^4 outcomes of two pairs in two rounds, weighted by their probability."""
    for law in (P, (0.98, 0.01, 0.01), (1 / 3, 1 / 3, 1 / 3)):
        total = 0.0
        for w in np.ndindex(3, 3, 3, 3):
            draws: list[list[Draws]] = [[([(w[0],)], [(w[1],)])], [([(w[2],)], [(w[3],)])]]
            total += math.exp(homogeneity(draws).log_e) * math.prod(law[i] for i in w)
        assert total <= 1 + 1e-12


def test_false_alarms_stay_below_what_is_stated() -> None:
    """2,000 pairs of streams from one law, looked at after every round: wealth 20 is reached in at most 1 of 20 (seeded)."""
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(2000):
        drawn = rounds(rng, P, P, (8, 8, 16, 32), length=2)
        alarms += any(homogeneity(drawn[:k]).log_e >= math.log(20) for k in range(1, 5))
    assert alarms <= 0.05 * 2000


@pytest.mark.parametrize(("second", "most"), [((0.2, 0.3, 0.5), 250), ((0.4, 0.3, 0.3), 4000)])
def test_another_law_is_refuted(second: tuple[float, ...], most: int) -> None:
    found = homogeneity(rounds(np.random.default_rng(6), P, second, (most,)))
    assert found.log_e >= math.log(1e6)
    assert found.pairs == most


def test_only_pairs_after_the_same_tokens_are_bet_on() -> None:
    found = homogeneity([[([("a", "x")], [("b", "y")])]])
    assert found.pairs == 1
    assert found.log_e == pytest.approx(0.0)


def test_nothing_is_no_evidence() -> None:
    found = homogeneity([])
    assert found.log_e == pytest.approx(0.0)
    assert (found.pairs, found.p_value) == (0, 1.0)
    assert found.statement("two").error_probability == 1.0


def test_equal_answers_at_equal_seeds_are_no_evidence() -> None:
    answers = draw(np.random.default_rng(7), P, 500)
    assert homogeneity([[(answers, answers)]]).log_e <= 0


def test_evidence_is_a_p_value_that_is_never_above_one() -> None:
    assert Homogeneity(3.0, 10).p_value == pytest.approx(math.exp(-3))
    assert Homogeneity(-2.0, 10).p_value == 1.0
    statement = Homogeneity(3.0, 10).statement("draws")
    assert statement.n == 20
    assert statement.error_probability == pytest.approx(math.exp(-3))


def test_bettors_of_very_different_wealth_are_added_up() -> None:
    """After 1500 pairs of different tokens the keenest has exp(1600) times the wealth of the most careful."""
    found = homogeneity([[([("a",)] * 1500, [("b",)] * 1500)]])
    assert found.log_e > 1500
