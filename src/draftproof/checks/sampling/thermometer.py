"""At which temperature were tokens drawn? Likelihoods over a grid of temperatures, valid at every number of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from draftproof.core.distribution import Law

COLDEST = 0.02
_INVERSE = (0.0, 0.03, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 1 / COLDEST)
_SHARES = (0.85, 0.5, 0.2)
"""Shares of the tokens that greedy choice, or temperature 1, may have beside the temperature that was asked for."""

_TINY = 1e-100
_RARE = 1e-30
_CLEARLY = 3.0


@dataclass(frozen=True, slots=True)
class Reading:
    """`best` fits best; [low, high] holds the temperature unless a chance of `error` came true (inf: no limit).

    `log_e`: evidence in nats against the temperature that was asked for, by a bet that starts at 1. `n` tokens. `mixed` says
    that a share of greedy tokens, or of temperature 1, fits better than any single temperature.
    """

    best: float
    low: float
    high: float
    log_e: float
    n: int
    mixed: bool


def read(visits: Sequence[tuple[Law, Law]], asked: float, noise: float, error: float) -> Reading:
    """The temperature of tokens that were drawn from softmax(logprobs / T).

    visits: per context float64[cells], the law's log-probabilities at temperature 1 of the tokens that could come, and how
    often each of them came. noise: RMS error of the log-probabilities in nats; a law at temperature T < 1 has 1/T of it. Each bet
    is divided by 1 + noise * sqrt(chi2 of the bet against the law that it bets against).
    A grid of temperatures, from 0.02 to none at all, is betted on at equal stakes; a temperature is refuted when the bets
    against it reach 1/error (Ville's inequality: the sample may grow until the answer is known). The likelihood is
    log-concave in 1/T, so what lies beyond a refuted temperature is refuted too.
    """
    inverse = np.array(sorted({*_INVERSE, 1 / asked}))
    own = int(np.argmin(np.abs(inverse - 1 / asked)))
    bets = len(inverse) + 2 * len(_SHARES)
    wealth, fits = np.zeros((len(inverse), bets)), np.zeros(bets)
    for row, counts in visits:
        laws = np.exp(_tempered(row, inverse))
        rivals = laws[-1], laws[int(np.argmin(np.abs(inverse - 1)))]
        every = np.vstack([laws, *((1 - s) * laws[own] + s * rival for rival in rivals for s in _SHARES)])
        own_fits = np.log(np.maximum(every, _TINY)) @ counts
        fits += own_fits
        wealth += own_fits[None, :] - own_fits[: len(inverse), None]
        wealth -= counts.sum() * _allowance(every, laws, noise * np.maximum(inverse, 1.0))
    against = logsumexp(wealth, axis=1) - math.log(bets)
    refuted = against >= -math.log(error)
    start = int(np.argmin(against))
    colder, warmer = np.flatnonzero(refuted[start:]), np.flatnonzero(refuted[: start + 1])
    low = inverse[start + colder[0]] if len(colder) else inverse[-1]
    high = inverse[warmer[-1]] if len(warmer) else 0.0
    single = int(np.argmax(fits[: len(inverse)]))
    return Reading(
        _temperature(inverse[single]),
        _temperature(low),
        _temperature(high),
        float(against[own]),
        int(sum(counts.sum() for _, counts in visits)),
        bool(fits[len(inverse) :].max() > fits[single] + _CLEARLY),
    )


def _tempered(row: Law, inverse: Law) -> Law:
    scaled = inverse[:, None] * np.maximum(row, -1e6)
    out: Law = scaled - logsumexp(scaled, axis=1, keepdims=True)
    return out


def _allowance(bets: Law, laws: Law, noise: Law) -> Law:
    """float64[laws, bets]: log of what noise alone may give a bet per token."""
    chi2 = np.maximum((bets**2 @ (1 / np.maximum(laws, _RARE)).T).T - 1, 0.0)
    out: Law = np.log1p(noise[:, None] * np.sqrt(chi2))
    return out


def _temperature(inverse: float) -> float:
    return math.inf if inverse == 0 else float(1 / inverse)
