"""The whole chain of samplers: from a row of logits to the law that a token is drawn from. One implementation for all callers.

Equal in law to llama.cpp's chain: its order, its parameter names, its way at ties and edges; in float64 where it uses float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from draftproof.core import mirostat, truncation
from draftproof.core.candidates import Candidates, Leading
from draftproof.core.law import TokenLaw
from draftproof.core.repetition import dry, penalise
from draftproof.core.sampling import Sampling

_TRUNCATIONS: dict[str, Callable[[Candidates, Sampling], Candidates]] = {
    "top_n_sigma": lambda c, s: truncation.top_n_sigma(c, s.top_n_sigma),
    "top_k": lambda c, s: truncation.top_k(c, s.top_k),
    "typ_p": lambda c, s: truncation.typical_p(c, s.typical_p, s.min_keep),
    "top_p": lambda c, s: truncation.top_p(c, s.top_p, s.min_keep),
    "min_p": lambda c, s: truncation.min_p(c, s.min_p, s.min_keep),
    "xtc": lambda c, s: truncation.xtc(c, s.xtc_threshold, s.min_keep),
}
_OFF: dict[str, Callable[[Sampling], bool]] = {
    "penalties": lambda s: s.repeat_penalty == 1 and not s.presence_penalty and not s.frequency_penalty,
    "dry": lambda s: not s.dry_multiplier,
    "top_n_sigma": lambda s: s.top_n_sigma <= 0,
    "top_k": lambda s: s.top_k <= 0,
    "typ_p": lambda s: s.typical_p >= 1,
    "top_p": lambda s: s.top_p >= 1,
    "min_p": lambda s: s.min_p <= 0,
    "temperature": lambda s: s.temperature == 1 and s.dynatemp_range <= 0,
}
_KEEP_THE_BEST = {"top_n_sigma", "top_k", "top_p", "min_p", "xtc", "temperature"}
_REPETITIONS = {"penalties": penalise, "dry": dry}


_COLDEST = 2.0**-126
"""The smallest normal float32."""


def cool(c: Candidates, temperature: float) -> Candidates:
    """Logits divided by the temperature; at 0 and below only the largest stays (of equals the lowest id)."""
    if temperature < _COLDEST:
        return Candidates(np.array([c.top]), np.array([c.argmax]), c.size, c.vocab, ordered=True)
    return Candidates(np.divide(c.logits, temperature, dtype=np.float64), c.ids, c.size, c.vocab, c.ordered)


def temperature(c: Candidates, sampling: Sampling) -> Candidates:
    """Temperature, or with `dynatemp_range` one that follows the entropy of the candidates."""
    reach = sampling.dynatemp_range
    if reach <= 0:
        return cool(c, sampling.temperature)
    if c.size <= 1:
        return c
    p = c.probabilities()
    p = p[p > 0]
    share = float(-(p * np.log(p)).sum() / np.log(c.size))
    low = max(0.0, sampling.temperature - reach)
    return cool(c, low + (sampling.temperature + reach - low) * max(share, 0.0) ** sampling.dynatemp_exponent)


class Chain:
    """The samplers that one `Sampling` switches on.

    `leading` is how many of the largest logits are all that it looks at, banned ones included; 0: it looks at the whole row.
    """

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        active = [name for name in sampling.samplers if not (name in _OFF and _OFF[name](sampling))]
        first = next((i for i, name in enumerate(active) if name not in _REPETITIONS), len(active))
        self._first, self._rest = active[:first], active[first:]
        self._one_hot = sampling.greedy and _KEEP_THE_BEST.issuperset(self._rest)
        self._moved = np.array([token for token, _ in sampling.logit_bias], dtype=np.int64)
        self._by = np.array([bias for _, bias in sampling.logit_bias], dtype=np.float64)
        self._banned = frozenset(token for token, bias in sampling.logit_bias if bias == -math.inf)
        only_bans = all(token in self._banned for token, _ in sampling.logit_bias)
        self._enough = 0
        if only_bans and not (sampling.mirostat or self._first):
            top_k = sampling.top_k if self._rest[:1] == ["top_k"] else 0
            self._enough = 1 if self._one_hot else top_k
        self.leading = self._enough + len(self._banned) if self._enough else 0

    def law(
        self,
        logits: NDArray[np.floating],
        context: Sequence[int],
        *,
        excluding: bool = False,
        mu: float | None = None,
        leading: Leading | None = None,
    ) -> TokenLaw:
        """The law p after all samplers.

        logits: float[vocab], not mutated. context: all tokens before the position. excluding: how XTC's coin fell here.
        mu: mirostat's state in bits, None at the first token. leading: of these logits, any number, where it is known.
        Raises ValueError when no token is left.
        """
        sampling = self.sampling
        c = None if leading is None else self._best(leading, len(logits))
        if c is None:
            c = self._all(logits, context)
        if not math.isfinite(c.top):
            raise ValueError(
                "no token is left: every logit is -inf (does logit_bias ban all, or all that the grammar allows?)"
            )
        if sampling.mirostat:
            c = c if sampling.temperature == 1 else cool(c, sampling.temperature)
            return mirostat.truncate(c, mirostat.first_mu(sampling) if mu is None else mu, sampling).law()
        if self._one_hot and not excluding:
            return TokenLaw.one_hot(c.argmax, c.vocab)
        for name in self._rest:
            if name == "temperature":
                c = temperature(c, sampling)
            elif name in _REPETITIONS:
                c = _late(c, name, context, sampling)
            elif name != "xtc" or excluding:
                c = _TRUNCATIONS[name](c, sampling)
        return c.law()

    def _all(self, logits: NDArray[np.floating], context: Sequence[int]) -> Candidates:
        """The whole row after the bias and the samplers that move logits before any is left out."""
        x = logits
        if len(self._moved):
            x = logits.astype(np.float64)
            np.add.at(x, self._moved, self._by)
        if not self.sampling.mirostat:
            for name in self._first:
                x = _REPETITIONS[name](x, context, self.sampling)
        return Candidates.of(x)

    def _best(self, leading: Leading, vocab: int) -> Candidates | None:
        """What the bans leave of the largest logits, where that is all that is looked at."""
        if not self._enough:
            return None
        ids, logits = leading.without(self._banned) if self._banned else leading
        if len(ids) < self._enough or logits[-1] == -math.inf:
            return None
        return Candidates(logits, ids, vocab, vocab, ordered=True)


def law(
    logits: NDArray[np.floating],
    context: Sequence[int],
    sampling: Sampling,
    *,
    excluding: bool = False,
    mu: float | None = None,
) -> TokenLaw:
    """`Chain.law` for a single row."""
    return Chain(sampling).law(logits, context, excluding=excluding, mu=mu)


def _late(c: Candidates, name: str, context: Sequence[int], sampling: Sampling) -> Candidates:
    """A repetition sampler that comes after a truncation: it moves the logits of those that are left."""
    full = np.full(c.vocab, -np.inf)
    ids = np.arange(c.vocab) if c.ids is None else c.ids
    full[ids] = c.logits
    return Candidates(_REPETITIONS[name](full, context, sampling)[ids].astype(np.float64), ids, c.size, c.vocab)
