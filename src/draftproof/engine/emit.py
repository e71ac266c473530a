"""One emitted token with its own numbers: they come from the row of logits that judged it, drafted or not."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from draftproof.core.candidates import Leading, largest
from draftproof.core.law import Ids, Law, TokenLaw

_SMALL = 4096
_FITS = 60.0
"""Logits up to here have a sum of exponentials that is in the range of float32."""


class Origin(StrEnum):
    """Where a token comes from (the words of vLLM's rejection sampler)."""

    PROMPT = "prompt"
    """Not made here but given."""
    PLAIN = "plain"
    """Nothing was drafted."""
    ACCEPTED = "accepted"
    """Drafted, and let pass."""
    RECOVERED = "recovered"
    """Emitted in place of a drafted token."""
    BONUS = "bonus"
    """Drawn after the last drafted token of a block that was accepted whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Some tokens, most likely first, ties by the lower id. ids: int64[n]; values: float64[n]."""

    ids: Ids
    values: Law


@dataclass(frozen=True, slots=True, eq=False)
class Emitted:
    """A token and what is known of it.

    position: its place in the whole sequence, prompt included. logprob: log-softmax of the target's unmodified logits.
    p: its probability under the law that it was drawn from, after all samplers; None for a token of the prompt.
    alternatives: the likeliest tokens with `logprob`s; sampled: those with p > 0, with their p.
    row: float32[vocab], the logits, only when they were asked for.
    """

    token: int
    origin: Origin
    position: int
    logprob: float
    p: float | None
    alternatives: Listed | None = None
    sampled: Listed | None = None
    row: NDArray[np.float32] | None = None


class _Scratch(threading.local):
    """Room for a row, kept: to ask the system for so much memory again and again costs more than to compute with it."""

    def __init__(self) -> None:
        self.row = np.empty(0, np.float32)

    def like(self, row: NDArray[np.floating]) -> NDArray[np.floating]:
        if self.row.shape != row.shape or self.row.dtype != row.dtype:
            self.row = np.empty_like(row)
        return self.row


_scratch = _Scratch()


def logsumexp(row: NDArray[np.floating], top: np.floating | None = None) -> float:
    """log sum exp of a row of logits, to about 1e-7. top: the largest of them, if it is known."""
    largest_logit = float(np.maximum.reduce(row) if top is None else top)
    if len(row) <= _SMALL:
        row = row.astype(np.float64)
    x = _scratch.like(row)
    if abs(largest_logit) < _FITS:
        return math.log(np.add.reduce(np.exp(row, out=x)))
    np.subtract(row, largest_logit, out=x)
    return largest_logit + math.log(np.add.reduce(np.exp(x, out=x)))


def top_of(p: TokenLaw, n: int) -> Listed:
    """The n most likely tokens of a law, those of probability 0 left out."""
    places = largest(p.p, n)
    places = places[p.p[places] > 0]
    return Listed(p.ids[places], p.p[places])


@dataclass(frozen=True, slots=True)
class Report:
    """What a request wants to know of each token. `alternatives` -1: nothing, not even the logprob."""

    alternatives: int = 0
    post_sampling: bool = False
    rows: bool = False

    def describe(
        self,
        token: int,
        origin: Origin,
        position: int,
        row: NDArray[np.float32],
        p: TokenLaw | None,
        leading: Leading | None = None,
    ) -> Emitted:
        """`token` with the numbers of its own row and law; nothing of it refers to `row` afterwards.

        leading: the largest logits, at least `alternatives` of them, where they are known. Raises ValueError for NaN.
        """
        n = self.alternatives
        if leading is None and n > 0:
            leading = Leading.of(row, n)
        normaliser = math.nan
        if n >= 0:
            normaliser = logsumexp(row, None if leading is None else leading.logits[0])
            if math.isnan(normaliser):
                raise ValueError("the model's logits are not numbers")
        return Emitted(
            token,
            origin,
            position,
            float(row[token]) - normaliser,
            None if p is None else p.at(token),
            None if leading is None or n <= 0 else Listed(leading.ids[:n], leading.logits[:n] - normaliser),
            top_of(p, n) if p is not None and self.post_sampling and n > 0 else None,
            row.copy() if self.rows else None,
        )


NOTHING_ASKED = Report(alternatives=-1)
LOGPROB_ONLY = Report()
