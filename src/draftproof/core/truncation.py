"""Samplers that leave tokens out, one function each, in the way of llama.cpp. All keep at least one token."""

from __future__ import annotations

import math

import numpy as np

from draftproof.core.candidates import Candidates


def top_n_sigma(c: Candidates, n: float) -> Candidates:
    """Logits within n standard deviations of the largest. Those left out are still counted."""
    if n <= 0 or c.size <= 1:
        return c
    x = c.logits.astype(np.float64)
    finite = x[np.isfinite(x)]
    return c.keep(np.flatnonzero(x >= finite.max() - n * finite.std()), size=c.size)


def top_k(c: Candidates, k: int) -> Candidates:
    """The k largest logits; k <= 0 keeps all."""
    return c.best(k) if k > 0 else c


def typical_p(c: Candidates, mass: float, min_keep: int) -> Candidates:
    """Locally typical sampling (Meister et al. 2023, arXiv 2202.00666): tokens whose surprise is nearest to the entropy.

    Tokens are taken until their probability exceeds `mass`. Tokens at -inf play no part (in llama.cpp they make the entropy
    NaN, and the order of the tokens is then left to its sorting routine).
    """
    if mass >= 1:
        return c
    c = c.sort()
    p = c.probabilities()
    surprise = -np.log(np.maximum(p, np.finfo(np.float64).tiny))
    order = np.argsort(np.abs(surprise - (p * surprise).sum()), kind="stable")
    past = np.flatnonzero(np.cumsum(p[order]) > mass)
    enough = max(int(past[0]) + 1, min_keep) if len(past) else len(p)
    return c.keep(order[:enough])


def top_p(c: Candidates, mass: float, min_keep: int) -> Candidates:
    """Nucleus sampling (Holtzman et al. 2020, arXiv 1904.09751): the fewest largest tokens that reach `mass`."""
    if mass >= 1:
        return c
    if c.ordered:
        reached = np.exp(c.logits - c.logits[0]).cumsum()
        return c.head(max(int(reached.searchsorted(mass * reached[-1])) + 1, min_keep))
    wanted = mass * _mass(c)
    n = max(256, min_keep)
    while True:
        head = c.best(n)
        reached = np.cumsum(np.exp(head.logits.astype(np.float64) - head.logits[0]))
        if reached[-1] >= wanted or n >= c.size:
            break
        n *= 8
    enough = max(int(np.searchsorted(reached, wanted, side="left")) + 1, min_keep)
    return head.head(enough)


def _mass(c: Candidates) -> float:
    """Sum of exp(logit - largest logit)."""
    x = c.logits.astype(np.float64)
    return float(np.exp(x - x.max()).sum())


def min_p(c: Candidates, share: float, min_keep: int) -> Candidates:
    """Tokens at least `share` times as likely as the likeliest."""
    if share <= 0:
        return c
    floor = c.top + math.log(share)
    if c.ordered:
        return c.head(max(int((-c.logits).searchsorted(-floor, side="right")), min_keep))
    places = np.flatnonzero(c.logits >= floor)
    if len(places) < min_keep:
        return c.best(min_keep)
    return c.keep(places)


def xtc(c: Candidates, threshold: float, min_keep: int) -> Candidates:
    """Exclude top choices (p-e-w): of the tokens that reach `threshold` only the least likely stays."""
    if threshold > 0.5 or c.size < 2:
        return c
    c = c.sort()
    last = int((c.probabilities() >= threshold).sum()) - 1
    if last <= 0 or c.size - last < min_keep:
        return c
    return c.keep(np.arange(last, len(c.logits)), size=c.size - last, ordered=True)
