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
