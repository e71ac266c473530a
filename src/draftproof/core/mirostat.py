"""Mirostat (Basu et al. 2021, arXiv 2007.14966): truncation that steers the surprise of the emitted tokens towards tau.

Its state is one number, mu, that every *emitted* token moves; a token that was only drafted must not.
Version 1 differs from llama.cpp where its arithmetic fails: there an impossible token makes the Zipf exponent infinite and a
very flat law overflows k, and both leave the likeliest token alone.
"""

from __future__ import annotations

import math

import numpy as np

from draftproof.core.candidates import Candidates
from draftproof.core.law import TokenLaw
from draftproof.core.sampling import Sampling

_ZIPF_TOKENS = 100


def first_mu(sampling: Sampling) -> float:
    """mu before the first token, in bits."""
    return 2 * sampling.mirostat_tau


def next_mu(mu: float, p: TokenLaw, token: int, sampling: Sampling) -> float:
    """mu after `token` was emitted from the law p that was truncated at `mu`."""
    return mu - sampling.mirostat_eta * (-math.log2(p.at(token)) - sampling.mirostat_tau)


def truncate(c: Candidates, mu: float, sampling: Sampling) -> Candidates:
    """Version 1 estimates a Zipf exponent and keeps the top k; version 2 keeps tokens of at most mu bits of surprise."""
    c = c.sort()
    p = c.probabilities()
    if sampling.mirostat == 2:
        keep = max(int((-np.log2(np.maximum(p, np.finfo(np.float64).tiny)) <= mu).sum()), 1)
    else:
        keep = _zipf_k(p, mu, c.vocab)
    return c.keep(np.arange(min(keep, len(p))), ordered=True)


def _zipf_k(p: np.ndarray[tuple[int], np.dtype[np.float64]], mu: float, vocab: int) -> int:
    """k of Algorithm 1 from the likeliest tokens; p: float64[n], descending. At least 1."""
    p = p[p > 0]
    n = min(_ZIPF_TOKENS, len(p))
    if n < 2:
        return 1
    rank = np.arange(1, n)
    t = np.log((rank + 1) / rank)
    b = np.log(p[: n - 1] / p[1:n])
    s = (t * b).sum() / (t * t).sum()
    with np.errstate(all="ignore"):
        k = np.power((s - 1) * np.power(2.0, mu) / (1 - np.power(float(vocab), 1 - s)), 1 / s)
    return 1 if np.isnan(k) else max(int(min(k, vocab)), 1)
