"""Tests without an end keep to their alpha, and see a change however late it comes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from draftproof.stats.forever import accumulated, alpha_at


def test_all_looks_together_spend_alpha() -> None:
    spent = sum(alpha_at(look, 1e-3) for look in range(1, 200_000))
    assert spent == pytest.approx(1e-3, rel=1e-4)
    assert spent < 1e-3


def wealth(rng: np.random.Generator, rounds: int, change: int, p: float = 0.5, after: float = 0.8) -> list[float]:
    """Log wealth round by round of bets on coins: e = 1.5 for heads, 0.5 for tails, fair while heads have probability 1/2."""
    log, path = -math.inf, []
    for look in range(1, rounds + 1):
        heads = rng.random(20) < (p if look < change else after)
        log = accumulated(log, float(np.log(np.where(heads, 1.5, 0.5)).sum()), look)
        path.append(log)
    return path


def test_false_alarms_stay_below_alpha_however_long_it_goes_on() -> None:
    """400 watches of 200 rounds without a change at alpha 0.05: at most 20 alarms expected (seeded)."""
    rng = np.random.default_rng(2)
    alarms = sum(max(wealth(rng, 200, change=10**9)) >= math.log(1 / 0.05) for _ in range(400))
    assert alarms <= 20


def test_a_product_that_begins_at_a_look_has_the_weight_of_that_look() -> None:
    for look in (1, 2, 3, 10):
        assert accumulated(-math.inf, 0.5, look) == pytest.approx(0.5 + math.log(alpha_at(look, 1.0)))
        assert accumulated(1.0, 0.5, look) == pytest.approx(0.5 + math.log(math.e + alpha_at(look, 1.0)))


@pytest.mark.parametrize("change", [1, 50, 500])
def test_a_change_is_seen_soon_whenever_it_comes(change: int) -> None:
    path = wealth(np.random.default_rng(3), change + 40, change)
    alarm = next(i for i, log in enumerate(path, 1) if log >= math.log(1e6))
    assert change <= alarm <= change + 15
