"""Readings of a temperature: seeded, with how often they may be wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from draftproof.checks.sampling.thermometer import Reading, read
from draftproof.core.distribution import log_softmax
from draftproof.core.law import Law

ASKED = 2.0


def visits(drawn: float, contexts: int, seed: int, noise: float = 0.0, each: int = 4) -> list[tuple[Law, Law]]:
    """Laws of eight tokens, and tokens drawn at that temperature (0: greedily) from laws that differ from them by noise."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(contexts):
        logits = rng.normal(scale=1.5, size=8)
        true = log_softmax(logits + rng.normal(scale=noise, size=8) if noise else logits)
        p = np.eye(8)[int(true.argmax())] if drawn == 0 else np.exp(log_softmax(true / drawn))
        found.append((log_softmax(logits), rng.multinomial(each, p / p.sum()).astype(np.float64)))
    return found


def reading(drawn: float, contexts: int = 150, seed: int = 0, noise: float = 0.0) -> Reading:
    return read(visits(drawn, contexts, seed, noise), ASKED, noise, 1e-3)


def test_the_interval_holds_the_temperature_in_at_least_as_many_runs_as_it_promises() -> None:
    """100 runs at error .05: with Ville's inequality to spare, 5 misses would be the average of the worst case."""
    runs = [read(visits(ASKED, 15, seed), ASKED, 0.0, 0.05) for seed in range(100)]
    assert sum(not r.low <= ASKED <= r.high for r in runs) <= 5
    assert sum(r.log_e >= math.log(20) for r in runs) <= 5


@pytest.mark.parametrize("noise", [0.05, 0.2])
def test_noise_of_the_laws_is_allowed_for(noise: float) -> None:
    assert max(reading(ASKED, 200, seed, noise).log_e for seed in range(5)) < math.log(20)


@pytest.mark.parametrize("drawn", [0.0, 0.3, 0.7, 1.0, 5.0])
def test_another_temperature_is_found_and_named(drawn: float) -> None:
    found = reading(drawn)
    assert found.log_e > math.log(2e7)
    assert found.low <= max(drawn, 0.02) <= found.high
    assert found.best == pytest.approx(max(drawn, 0.02), rel=0.5)


def test_the_temperature_that_was_asked_for_is_bounded_on_both_sides() -> None:
    found = reading(ASKED)
    assert 1 <= found.low < ASKED < found.high < 8


def test_half_of_the_tokens_greedy_is_no_temperature() -> None:
    half = [
        (law, a + b)
        for (law, a), (_, b) in zip(visits(0.0, 150, 1, each=2), visits(ASKED, 150, 1, each=2), strict=True)
    ]
    found = read(half, ASKED, 0.0, 1e-3)
    assert found.log_e > math.log(2e7)
    assert found.mixed


def test_a_law_that_leaves_one_token_shows_nothing() -> None:
    peaked = np.array([0.0, -60.0, -61.0])
    found = read([(peaked, np.array([1000.0, 0.0, 0.0]))], ASKED, 0.0, 1e-3)
    assert found.low <= 0.02
    assert found.log_e < 1


def test_no_tokens_show_nothing() -> None:
    found = read([], ASKED, 0.0, 1e-3)
    assert (found.low, found.high, found.n) == (0.02, math.inf, 0)


def test_many_tokens_leave_the_temperature_that_was_asked_for_and_no_other() -> None:
    found = read(visits(ASKED, 60, 3, each=4000), ASKED, 0.0, 1e-3)
    assert (found.low, found.best, found.high) == pytest.approx((1 / 0.6, 2.0, 1 / 0.4))
    assert found.n == 240_000
    assert not found.mixed


@pytest.mark.parametrize("asked", [0.7, 1.0, 1.3])
def test_any_temperature_can_be_asked_for(asked: float) -> None:
    right = read(visits(asked, 150, 2), asked, 0.0, 1e-3)
    assert right.low < asked < right.high
    assert right.log_e < math.log(1000)
    assert read(visits(3 * asked, 150, 2), asked, 0.0, 1e-3).log_e > math.log(2e7)


def test_half_of_the_tokens_at_temperature_one_is_no_temperature() -> None:
    half = [
        (law, a + b)
        for (law, a), (_, b) in zip(visits(1.0, 400, 1, each=30), visits(5.0, 400, 1, each=30), strict=True)
    ]
    assert read(half, 5.0, 0.0, 1e-3).mixed


@pytest.mark.parametrize("asked", [0.5, 0.7, 2.0])
def test_evidence_is_the_mean_of_the_bets_each_less_what_noise_may_give_it(asked: float) -> None:
    """By the docstring, one bet after the other: laws at every temperature of the grid, and mixtures with two of them."""
    noise, seen = 0.05, visits(asked, 12, 9)
    inverse = sorted(
        {0.0, 0.03, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 50.0, 1 / asked}
    )
    bets = len(inverse) + 6
    wealth = np.zeros(bets)
    for row, counts in seen:
        laws = [np.exp(log_softmax(b * row)) for b in inverse]
        own = np.exp(log_softmax(row / asked))
        rivals = (laws[-1], laws[inverse.index(1.0)])
        every = [*laws, *((1 - s) * own + s * r for r in rivals for s in (0.85, 0.5, 0.2))]
        for i, bet in enumerate(every):
            chi2 = max(float((bet**2 / own).sum()) - 1, 0.0)
            allowed = math.log1p(noise * max(1 / asked, 1.0) * math.sqrt(chi2))
            wealth[i] += float((counts * (np.log(bet) - np.log(own))).sum()) - counts.sum() * allowed
    expected = float(np.logaddexp.reduce(wealth)) - math.log(bets)
    assert read(seen, asked, noise, 1e-3).log_e == pytest.approx(expected)


def test_few_tokens_of_one_temperature_are_no_mixture() -> None:
    assert not any(read(visits(ASKED, 3, seed), ASKED, 0.0, 1e-3).mixed for seed in range(10))
