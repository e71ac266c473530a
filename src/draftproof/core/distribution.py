"""From logits to the law that is sampled from, in float64.

Symbols as in Leviathan, Kalman, Matias 2023 (arXiv 2211.17192): p is the target's law after the samplers, raw the
log-softmax of its unmodified logits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from draftproof.core import chain
from draftproof.core.law import Law, TokenLaw, log_softmax, total_variation
from draftproof.core.repetition import penalise
from draftproof.core.sampling import Sampling

__all__ = ["Law", "TokenLaw", "log_softmax", "penalise", "shape", "total_variation"]


def shape(logits: NDArray[np.floating], context: Sequence[int], sampling: Sampling, mu: float | None = None) -> Law:
    """The law p that `sampling` draws from at one position.

    logits: float[vocab], not mutated. context: all tokens before the position. mu: mirostat's state, None at the first
    token. Returns float64[vocab], sum 1: with XTC the mixture over its coin.
    Ties at a truncation edge are broken by the lower token id. At temperature 0 the law is one-hot on the first argmax.
    Raises ValueError when no token is left.
    """
    p = chain.law(logits, context, sampling, mu=mu).dense()
    if sampling.has_xtc:
        cut = chain.law(logits, context, sampling, excluding=True, mu=mu).dense()
        return (1 - sampling.xtc_probability) * p + sampling.xtc_probability * cut
    return p
