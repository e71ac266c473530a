"""Tokens that may come seldom: bets on how often they do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from draftproof.stats.slips import RATES, Slips


def test_a_bet_that_was_never_made_is_worth_what_it_was() -> None:
    slips = Slips()
    assert slips.log_e == 0
    assert slips.observe(np.zeros(3), np.zeros(3, dtype=bool)).tolist() == [0, 0, 0]
    assert slips.observe(np.zeros(0), np.zeros(0, dtype=bool)).tolist() == []
    assert slips.log_e == 0


@pytest.mark.parametrize("most", [0.001, 0.01, 0.2, 0.5])
def test_on_average_the_money_does_not_grow_up_to_the_allowed_rate(most: float) -> None:
    for rate in np.linspace(0, most, 5):
        value = sum(
            chance * math.exp(Slips().observe(np.array([most]), np.array([came]))[0])
            for came, chance in ((True, rate), (False, 1 - rate))
        )
        assert value <= 1 + 1e-12


def test_half_of_the_money_is_kept_and_the_rest_is_soon_lost_where_none_comes() -> None:
    slips = Slips()
    log_e = slips.observe(np.full(5000, 0.001), np.zeros(5000, dtype=bool))
    assert log_e[-1] == pytest.approx(math.log(0.5), abs=1e-6)
    assert (np.diff(log_e) <= 0).all()
    assert slips.log_e == log_e[-1]


def test_one_is_worth_what_the_rates_say() -> None:
    (log_e,) = Slips().observe(np.array([0.001]), np.array([True]))
    assert math.exp(log_e) == pytest.approx(0.5 + 0.5 * np.mean(RATES) / 0.001)


def test_rates_below_what_is_allowed_are_not_bet_on() -> None:
    """A bet on fewer slips than may come would win on average where the most that is allowed comes."""
    (log_e,) = Slips().observe(np.array([0.1]), np.array([False]))
    kept = 0.5 + 0.5 * (3 + 0.9 + 0.7) / 5
    assert math.exp(log_e) == pytest.approx(kept)


def test_it_goes_on_where_it_was() -> None:
    came = np.array([False, True, False, False, True])
    whole, parts = Slips(), Slips()
    together = whole.observe(np.full(5, 0.002), came)
    apart = np.r_[parts.observe(np.full(2, 0.002), came[:2]), parts.observe(np.full(3, 0.002), came[2:])]
    np.testing.assert_allclose(apart, together, rtol=1e-12)
