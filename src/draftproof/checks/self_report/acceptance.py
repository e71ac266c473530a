"""How many drafts of a given text a rule accepts: laws of the count, from the target's and the draft's law at each place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftproof.core.distribution import Law

Acceptance = Callable[[Law, Law, NDArray[np.int64]], Law]


def _rejection(p: Law, q: Law, x: NDArray[np.int64]) -> Law:
    """A drawn draft is accepted and is x with min(p, q)(x), and x is emitted with p(x): on average 1 - TV(p, q)."""
    at = np.arange(len(x))
    given: Law = np.minimum(1.0, q[at, x] / p[at, x])
    return given


def _match_drawn(p: Law, q: Law, x: NDArray[np.int64]) -> Law:
    """The draft is drawn from q, and accepted when it is what the target draws: on average sum p q."""
    drawn: Law = q[np.arange(len(x)), x]
    return drawn


def _top(p: Law, q: Law, x: NDArray[np.int64]) -> Law:
    """The draft is q's favourite, accepted when the target draws it: on average p(argmax q)."""
    is_top: Law = (q.argmax(axis=-1) == x).astype(np.float64)
    return is_top


def _greedy(p: Law, q: Law, x: NDArray[np.int64]) -> Law:
    """The draft is drawn from q, and accepted when it is the target's favourite: on average q(argmax p). Not exact."""
    at, best = np.arange(len(x)), p.argmax(axis=-1)
    given: Law = np.where(best == x, np.minimum(1.0, q[at, best] / p[at, best]), 0.0)
    return given


RULES: Mapping[str, tuple[str, Acceptance]] = {
    "rejection sampling": ("1 - TV(p, q)", _rejection),
    "exact match with a drawn draft": ("sum p q", _match_drawn),
    "draft's favourite, by exact match or by rejection sampling": ("p(argmax q)", _top),
    "drawn draft against the target's favourite": ("q(argmax p)", _greedy),
}
"""By name: what it accepts on average, and its probability to have accepted a draft where the text has x."""

IN_WORDS: Mapping[str, str] = {
    "rejection sampling": "drafts are drawn and verified by rejection sampling",
    "exact match with a drawn draft": "drafts are drawn and kept where the model draws the same token",
    "draft's favourite, by exact match or by rejection sampling": (
        "the draft's likeliest token is proposed and kept where the model draws it too"
    ),
    "drawn draft against the target's favourite": (
        "drawn drafts are kept where they are the model's likeliest token (which is not exact)"
    ),
}
"""Of every rule, how it goes."""


@dataclass(frozen=True, slots=True)
class Count:
    """Mean and variance of a number of accepted tokens, and the mean number of drafted ones."""

    accepted: float = 0.0
    variance: float = 0.0
    drafted: float = 0.0

    def __add__(self, other: Count) -> Count:
        return Count(self.accepted + other.accepted, self.variance + other.variance, self.drafted + other.drafted)


def accepted(a: Sequence[float] | Law, k: int) -> Count:
    """Of one text: `a[i]` is the probability that a draft for token i + 1 was accepted, given the text and that those before
    it in the same draft were. Token 0 is never drafted; each later step drafts `k` tokens, fewer at the end of the text.

    Works backwards over the places at which a step can begin.
    """
    n = len(a)
    mean, second, drafted = np.zeros(n + 2), np.zeros(n + 2), np.zeros(n + 2)
    for i in range(n - 1, -1, -1):
        length = min(k, n - 1 - i)  # the last token of a step is the target's own
        reach = 1.0
        for j in range(length + 1):
            ends = reach * ((1 - a[i + j]) if j < length else 1.0)
            after = i + j + 1
            mean[i] += ends * (j + mean[after])
            second[i] += ends * (j * j + 2 * j * mean[after] + second[after])
            drafted[i] += ends * drafted[after]
            reach *= a[i + j] if j < length else 1.0
        drafted[i] += length
    return Count(float(mean[0]), float(second[0] - mean[0] ** 2), float(drafted[0]))
