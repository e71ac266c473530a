"""How clearly a pair of models shows each named fault of speculation."""

from __future__ import annotations

import numpy as np

from draftproof.core.distribution import Law
from draftproof.countable.incremental import Context
from draftproof.countable.law import Model
from draftproof.countable.oracle import CountablePair
from draftproof.stats.faults import FAULTS
from draftproof.stats.verification import Step

REQUESTS, TOKENS = 100, 16


def sampled_contexts(target: Model, prompt: Context, requests: int = REQUESTS, tokens: int = TOKENS) -> list[Context]:
    """What stands before tokens 2 .. `tokens` of `requests` seeded draws from the target: what speculation decides."""
    rng = np.random.RandomState(1)
    contexts, seen = [prompt] * requests, []
    for _ in range(tokens - 1):
        edges = np.cumsum(np.exp(target(contexts)), axis=1)
        drawn = (rng.random_sample((requests, 1)) * edges[:, -1:] >= edges).sum(axis=1).tolist()
        contexts = [(*context, token) for context, token in zip(contexts, drawn, strict=True)]
        seen += contexts
    return seen


def fault_strengths(pair: CountablePair, contexts: list[Context]) -> dict[str, float]:
    """Mean KL divergence, nats per token, of each fault's law from the target's, over `contexts`.

    A sequential test at level alpha needs about (ln(1/alpha) + 4) / KL tokens to find the fault.
    """
    p = np.exp(pair.target_many(contexts))
    tops = np.exp(pair.draft_many([(*context, x) for context in contexts for x in range(pair.vocabulary)])).max(axis=1)
    step = Step(p, np.exp(pair.draft_many(contexts)), tops.reshape(p.shape))
    return {fault.name: float(_divergence(fault.law(step), p).mean()) for fault in FAULTS}


def _divergence(r: Law, p: Law) -> Law:
    """float64[n]: KL(r || p)."""
    terms: Law = r * np.log(np.divide(r, p, out=np.ones_like(p), where=r > 0))
    total: Law = terms.sum(axis=-1)
    return total
