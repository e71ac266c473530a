"""The law of each token of an answer, whatever the request's samplers remember: penalties, mirostat's mu, a grammar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from draftproof.core import mirostat
from draftproof.core.distribution import Law, TokenLaw, shape
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.countable.incremental import Context
from draftproof.countable.law import Model

WOBBLE = 3e-4
"""Logits moved by so much (nats) must move no probability by more than `JUMP`, or an edge of a truncation is too near."""
JUMP = 0.005

_CUTTING = ("top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc_probability", "mirostat")


@dataclass(frozen=True, slots=True)
class Grammar:
    """`text`: GBNF, as a server takes it; `allowed`: the token ids that may come after the generated tokens."""

    text: str
    allowed: Callable[[Context], Sequence[int]]


class AnswerLaws:
    """Exact laws of the tokens that answer `prompt`. `logits`: `target_logits` of a pair."""

    def __init__(self, logits: Model, prompt: Context, sampling: Sampling, grammar: Grammar | None = None) -> None:
        self._logits = logits
        self._prompt = prompt
        self._sampling = sampling
        self._grammar = grammar
        self._found: dict[Context, tuple[Law, bool]] = {}
        self._mu: dict[Context, float] = {(): mirostat.first_mu(sampling)}
        self._cuts = any(getattr(sampling, name) != getattr(NEUTRAL, name) for name in _CUTTING)
        size = logits([prompt]).shape[1]
        self._wobbles = WOBBLE * np.random.RandomState(0).choice([-1.0, 1.0], (2, size))

    def laws(self, prefixes: Sequence[Context]) -> tuple[Law, list[bool]]:
        """float64[n, vocab]: the law after each answer so far; and whether rounding cannot change what the samplers keep there.

        With XTC the mixture over its coin. With mirostat there is none (rows of NaN) after a token that cannot come.
        """
        needed = dict.fromkeys(prefixes)
        if self._sampling.mirostat:
            needed = dict.fromkeys(prefix[:end] for prefix in needed for end in range(len(prefix) + 1))
        new = sorted((prefix for prefix in needed if prefix not in self._found), key=len)
        if new:
            rows = self._logits([(*self._prompt, *prefix) for prefix in new])
            for prefix, row in zip(new, rows, strict=True):
                self._found[prefix] = self._law(prefix, row)
        return np.stack([self._found[p][0] for p in prefixes]), [self._found[p][1] for p in prefixes]

    def _law(self, prefix: Context, row: Law) -> tuple[Law, bool]:
        s = self._sampling
        if s.mirostat and prefix:
            before = TokenLaw.of(self._found[prefix[:-1]][0])
            if not before.at(prefix[-1]) > 0:
                return np.full(row.size, np.nan), False
            self._mu[prefix] = mirostat.next_mu(self._mu[prefix[:-1]], before, prefix[-1], s)
        law = self._constrained(prefix, row)
        if not self._cuts:
            return law, True
        moved = (self._constrained(prefix, row + wobble) for wobble in self._wobbles)
        return law, all(np.abs(other - law).max() <= JUMP for other in moved)

    def _constrained(self, prefix: Context, row: Law) -> Law:
        """llama.cpp draws from the chain, and if the token is not allowed once more from the chain over what is allowed."""
        context, mu = (*self._prompt, *prefix), self._mu.get(prefix)
        law = shape(row, context, self._sampling, mu)
        if self._grammar is None:
            return law
        allowed = list(self._grammar.allowed(prefix))
        banned = np.full(row.size, -np.inf)
        banned[allowed] = row[allowed]
        fits = np.zeros(row.size, dtype=bool)
        fits[allowed] = True
        again = shape(banned, context, self._sampling, mu)
        mixed: Law = np.where(fits, law, 0.0) + law[~fits].sum() * again
        return mixed
