"""How far two measurements of one logprob may be apart: a multiple of the measured noise, not a test, so no alpha is spent."""

from __future__ import annotations

from collections.abc import Sequence

MOST, ALL = 0.01, 0.05
MOST_NOISE, ALL_NOISE = 8, 20
MOST_SHARE = 0.99
NOISE_LIMIT = 0.05
"""RMS noise in nats above which the tolerance would hide what single values are compared for."""


def tolerances(noise: float) -> tuple[float, float]:
    """For 99 % of the differences and for all of them, in nats. noise: RMS, in nats."""
    return max(MOST, MOST_NOISE * noise), max(ALL, ALL_NOISE * noise)


def exceeded(differences: Sequence[float], noise: float) -> float:
    """The tolerance in nats that the differences do not keep, 0 where they keep both. One of them may always pass the smaller."""
    most, every = tolerances(noise)
    if any(abs(d) > every for d in differences):
        return every
    within = sum(abs(d) <= most for d in differences)
    return most if within < min(len(differences) - 1, MOST_SHARE * len(differences)) else 0.0


def too_noisy(differences: Sequence[float], noise: float) -> bool:
    """Whether differences that the noise explains may hide a fault. Those that keep the smallest tolerance hide none."""
    return noise > NOISE_LIMIT and exceeded(differences, 0.0) > 0
