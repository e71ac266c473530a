"""The whole chain of samplers: from a row of logits to the law that a token is drawn from. One implementation for all callers.

Equal in law to llama.cpp's chain: its order, its parameter names, its way at ties and edges; in float64 where it uses float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from draftproof.core import mirostat, truncation
from draftproof.core.candidates import Candidates
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
_KEEP_THE_BEST = {"top_n_sigma", "top_k", "top_p", "min_p", "xtc", "temperature"}
_REPETITIONS = {"penalties": penalise, "dry": dry}


def _biased(logits: NDArray[np.floating], sampling: Sampling) -> NDArray[np.floating]:
    if not sampling.logit_bias:
        return logits
    out = logits.astype(np.float64)
    for token, bias in sampling.logit_bias:
        out[token] += bias
    return out


def cool(c: Candidates, temperature: float) -> Candidates:
    """Logits divided by the temperature; at 0 and below only the largest stays (of equals the lowest id)."""
    if temperature <= 0:
        place = np.array([c.logits.argmax()])
        if c.ids is not None:
            ties = np.flatnonzero(c.logits == c.logits[place])
            place = ties[[np.argmin(c.ids[ties])]]
        return c.keep(place, size=c.size, ordered=True)
    return Candidates(c.logits.astype(np.float64) / temperature, c.ids, c.size, c.vocab, c.ordered)


def temperature(c: Candidates, sampling: Sampling) -> Candidates:
    """Temperature, or with `dynatemp_range` one that follows the entropy of the candidates."""
    reach = sampling.dynatemp_range
    if reach <= 0:
        return c if sampling.temperature == 1 else cool(c, sampling.temperature)
    if c.size <= 1:
        return c
    p = c.probabilities()
    p = p[p > 0]
    share = float(-(p * np.log(p)).sum() / np.log(c.size))
    low = max(0.0, sampling.temperature - reach)
    return cool(c, low + (sampling.temperature + reach - low) * max(share, 0.0) ** sampling.dynatemp_exponent)


def law(
    logits: NDArray[np.floating],
    context: Sequence[int],
    sampling: Sampling,
    *,
    excluding: bool = False,
    mu: float | None = None,
) -> TokenLaw:
    """The law p after all samplers.

    logits: float[vocab], not mutated. context: all tokens before the position. excluding: how XTC's coin fell here.
    mu: mirostat's state in bits, None at the first token.
    Raises ValueError when no token is left.
    """
    x = _biased(logits, sampling)
    if sampling.mirostat:
        c = _possible(x)
        c = c if sampling.temperature == 1 else cool(c, sampling.temperature)
        return mirostat.truncate(c, mirostat.first_mu(sampling) if mu is None else mu, sampling).law()
    order = list(sampling.samplers)
    while order and order[0] in _REPETITIONS:
        x = _REPETITIONS[order.pop(0)](x, context, sampling)
    c = _possible(x)
    if sampling.greedy and not excluding and _KEEP_THE_BEST.issuperset(order):
        return cool(c, 0).law()
    for name in order:
        if name == "temperature":
            c = temperature(c, sampling)
        elif name in _REPETITIONS:
            c = _late(c, name, context, sampling)
        elif name != "xtc" or excluding:
            c = _TRUNCATIONS[name](c, sampling)
    return c.law()


def _possible(logits: NDArray[np.floating]) -> Candidates:
    if not np.isfinite(logits.max()):
        raise ValueError("no token is left: every logit is -inf (logit_bias bans the whole vocabulary?)")
    return Candidates.of(logits)


def _late(c: Candidates, name: str, context: Sequence[int], sampling: Sampling) -> Candidates:
    """A repetition sampler that comes after a truncation: it moves the logits of those that are left."""
    full = np.full(c.vocab, -np.inf)
    ids = np.arange(c.vocab) if c.ids is None else c.ids
    full[ids] = c.logits
    return Candidates(_REPETITIONS[name](full, context, sampling)[ids].astype(np.float64), ids, c.size, c.vocab)
