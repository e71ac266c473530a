"""Which token a seed must give: llama-server's random numbers, replayed.

llama-server draws one number per sampled token (`core.mt19937`), and takes the first candidate whose cumulative probability exceeds
it. Candidates stand in the order of their ids, or by falling probability once top-k has sorted them. So a server's text can be
compared with its own law draw by draw. Token i of an answer takes draw i when every token is sampled from the target's law (no
speculation, or verification by exact match).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftproof.core.distribution import Law
from draftproof.core.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Prediction:
    """`tokens`: int64[...]; `edges`: float64[...], the distance in probability from each draw to the nearest boundary between two
    tokens. Where it is below the numerical noise of the law, the token is undecided.
    """

    tokens: NDArray[np.int64]
    edges: NDArray[np.float64]


def predict(law: Law, u: NDArray[np.float64] | float) -> Prediction:
    """The token each draw selects when candidates stand in the order of their ids (no top-k).

    law: float64[..., vocab], probabilities, need not be normalised. u: float64[...] in [0, 1). Raises ValueError for an empty law.
    """
    law = np.asarray(law, dtype=np.float64)
    cumulative = np.cumsum(law, axis=-1)
    total = cumulative[..., -1:]
    if law.shape[-1] == 0 or not (total > 0).all():
        raise ValueError("a law needs at least one token with a positive probability")
    cumulative = cumulative / total
    at = np.asarray(u, dtype=np.float64)[..., None]
    tokens = (cumulative <= at).sum(axis=-1).clip(max=law.shape[-1] - 1)
    inner = cumulative[..., :-1]
    edges = np.abs(inner - at).min(axis=-1) if inner.shape[-1] else np.ones(tokens.shape)
    return Prediction(tokens, edges)


def predict_sorted(law: Law, u: NDArray[np.float64] | float) -> Prediction:
    """As `predict`, for candidates by falling probability, as they stand after top-k. Tokens are ids of `law`'s last axis."""
    law = np.asarray(law, dtype=np.float64)
    order = np.argsort(-law, axis=-1, kind="stable")
    ranked = predict(np.take_along_axis(law, order, axis=-1), u)
    order = np.broadcast_to(order, (*ranked.tokens.shape, law.shape[-1]))
    tokens = np.take_along_axis(order, ranked.tokens[..., None], axis=-1)[..., 0]
    return Prediction(tokens, ranked.edges)


def predict_for(sampling: Sampling, law: Law, u: NDArray[np.float64] | float) -> Prediction:
    """As `predict`, in the candidate order that `sampling` leads to. `law` is the law after the samplers (`distribution.shape`)."""
    sorting = {
        "top_k": sampling.top_k > 0,
        "top_p": sampling.top_p < 1,
        "temperature": sampling.dynatemp_range > 0,
    }
    by_rank = sampling.mirostat or any(sorting.get(name, False) for name in sampling.samplers)
    return (predict_sorted if by_rank else predict)(law, u)
