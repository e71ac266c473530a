"""Rejection sampling (Leviathan, Kalman, Matias 2023, arXiv 2211.17192, Alg. 1; Chen et al. 2023, arXiv 2302.01318)."""

from __future__ import annotations

import numpy as np

from draftproof.core.coin import Coin
from draftproof.core.law import TokenLaw
from draftproof.engine.verify import match
from draftproof.engine.verify.rule import Decision, Rule


def accept(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> bool:
    """Accepts iff u q(x) < p(x), u uniform on [0, 1): nothing is divided, and p(x) = 0 is never accepted."""
    return coin.at("accept", position).flip(p.at(x), 1.0 if q is None else q.at(x))


def recover(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> int:
    """A token from the residual normalise(max(p - q, 0)), drawn independently of the acceptance; from p where p = q."""
    left = np.where(p.ids == x, 0.0, p.p) if q is None else np.maximum(p.p - q.on(p.ids), 0.0)
    return int(p.ids[coin.at("residual", position).pick(left if left.any() else p.p)])


def decide(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> Decision:
    """P(emit y) = min(p, q)(y) + (1 - sum min(p, q)) residual(y) = p(y), for every q.

    A one-hot q is accepted with the same probability p(x) by matching, which leaves a seeded answer as it is without drafts.
    """
    if q is None:
        return match.decide(p, x, q, coin, position)
    if accept(p, x, q, coin, position):
        return Decision(x, accepted=True)
    return Decision(recover(p, x, q, coin, position), accepted=False)


RULE = Rule(
    "rejection", "accepts with probability min(1, p/q), else draws from the residual", decide, draws_drafts=True
)
