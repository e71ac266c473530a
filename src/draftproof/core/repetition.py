"""Samplers that look at what was said before: repeat, frequency and presence penalties, and DRY."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from draftproof.core.law import Ids, Law
from draftproof.core.sampling import Sampling

_LARGEST_EXPONENT = 88.7228391
"""Log of the largest float32: llama.cpp lets no DRY penalty grow past it."""


def _window(context: Sequence[int], last: int) -> Ids:
    """int64[n]: the last `last` tokens; -1 means all."""
    return np.asarray(context if last < 0 else context[max(0, len(context) - last) :], dtype=np.int64)


def penalise(logits: NDArray[np.floating], context: Sequence[int], sampling: Sampling) -> NDArray[np.floating]:
    """Repeat, frequency and presence penalties over the last `repeat_last_n` tokens of the context, as llama.cpp applies them.

    float[vocab] in, the same array out when no penalty is set, otherwise a float64 copy.
    """
    neutral = sampling.repeat_penalty == 1 and not sampling.presence_penalty and not sampling.frequency_penalty
    if neutral or not sampling.repeat_last_n or not len(context):
        return logits
    seen, counts = np.unique(_window(context, sampling.repeat_last_n), return_counts=True)
    out: Law = logits.astype(np.float64)
    x = out[seen]
    x = np.where(x <= 0, x * sampling.repeat_penalty, x / sampling.repeat_penalty)
    out[seen] = x - counts * sampling.frequency_penalty - sampling.presence_penalty
    return out


def _unbroken(window: Ids, breakers: Sequence[tuple[int, ...]]) -> int:
    """How many tokens at the end of the window come after the last breaker."""
    heads = np.flatnonzero(np.isin(window, [b[0] for b in breakers]))
    for place in heads[::-1].tolist():
        fits = [len(b) for b in breakers if tuple(window[place : place + len(b)].tolist()) == b]
        if fits:
            return int(len(window) - place - max(fits))
    return len(window)


def repeats(window: Ids, longest: int) -> Ids:
    """int64[n - 1]: for each place but the last, how many tokens up to it equal the last ones of the window, at most `longest`."""
    n = len(window)
    counts = np.zeros(max(n - 1, 0), dtype=np.int64)
    places = np.arange(n - 1)
    for length in range(min(longest, n - 1)):
        places = places[places >= length]
        places = places[window[places - length] == window[n - 1 - length]]
        if not len(places):
            break
        counts[places] = length + 1
    return counts


def dry(logits: NDArray[np.floating], context: Sequence[int], sampling: Sampling) -> NDArray[np.floating]:
    """DRY ("don't repeat yourself", p-e-w): what would carry on a repetition of n tokens loses multiplier * base^(n - allowed).

    float[vocab] in, the same array out when nothing repeats, otherwise a float64 copy.
    """
    allowed = sampling.dry_allowed_length
    if not sampling.dry_multiplier or sampling.dry_base < 1 or not sampling.dry_penalty_last_n:
        return logits
    window = _window(context, sampling.dry_penalty_last_n)
    if len(window) <= allowed:
        return logits
    limit = _unbroken(window, sampling.dry_breakers)
    if limit < allowed:
        return logits
    steepest = int(_LARGEST_EXPONENT / math.log(sampling.dry_base)) if sampling.dry_base > 1.000001 else 0
    lengths = repeats(window, min(limit, allowed + steepest) if steepest else limit)
    long = lengths >= allowed
    follows, lengths = window[1:][long], lengths[long]
    if not len(follows):
        return logits
    longest = np.full(len(logits), -1, dtype=np.int64)
    np.maximum.at(longest, follows, lengths)
    longest[[b[0] for b in sampling.dry_breakers if len(b) == 1]] = -1
    hit = np.flatnonzero(longest >= 0)
    out: Law = logits.astype(np.float64)
    out[hit] -= sampling.dry_multiplier * sampling.dry_base ** (longest[hit] - allowed).astype(np.float64)
    return out
