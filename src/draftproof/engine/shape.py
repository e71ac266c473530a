"""The law that the next token is drawn from, as it moves with every *emitted* token.

Whatever has state (the context that penalties look at, mirostat's mu, a grammar) advances by emitted tokens only. Verification
asks for the law at one position, decides, advances, and asks again, so nothing ever has to be rolled back.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from draftproof.core import mirostat
from draftproof.core.candidates import Leading
from draftproof.core.chain import Chain
from draftproof.core.coin import Coin
from draftproof.core.law import Ids, TokenLaw
from draftproof.core.sampling import Sampling


class Constraint(Protocol):
    """Says which tokens may come next: a grammar, for instance."""

    def allowed(self, ids: Ids) -> NDArray[np.bool_]:
        """bool[len(ids)]: which of these tokens may be emitted now."""
        ...

    def advance(self, token: int) -> None:
        """`token` was emitted."""
        ...


class Shaper:
    """`law(logits)` at the position after `context`, then `advance(token)`.

    `context` holds prompt and emitted tokens and grows; it may be shared, but only `advance` may change it. XTC's coin is
    flipped by its own stream for each position, so p is the law given how it fell.
    """

    def __init__(
        self, sampling: Sampling, coin: Coin, context: list[int], constraint: Constraint | None = None
    ) -> None:
        self.chain = Chain(sampling)
        self.context = context
        self._coin = coin
        self._constraint = constraint
        self._mu = mirostat.first_mu(sampling)
        self._p: TokenLaw | None = None

    @property
    def sampling(self) -> Sampling:
        return self.chain.sampling

    def law(self, logits: NDArray[np.floating], leading: Leading | None = None) -> TokenLaw:
        """p at this position. logits: float[vocab], not mutated; leading: of these logits, where it is known.

        Raises ValueError when no token is left.
        """
        p = self._chain(logits, 0, leading)
        if self._constraint is not None:
            p = self._constrained(logits, p, self._constraint)
        self._p = p
        return p

    def _chain(self, logits: NDArray[np.floating], attempt: int, leading: Leading | None = None) -> TokenLaw:
        s = self.sampling
        excluding = s.has_xtc and self._coin.at("xtc", len(self.context), attempt).flip(s.xtc_probability)
        return self.chain.law(logits, self.context, excluding=excluding, mu=self._mu, leading=leading)

    def _constrained(self, logits: NDArray[np.floating], p: TokenLaw, constraint: Constraint) -> TokenLaw:
        """llama.cpp draws from the chain, and if the token is not allowed once more from the chain over what is allowed."""
        fits = constraint.allowed(p.ids)
        refused = float(p.p[~fits].sum())
        if not refused:
            return p
        banned = logits.astype(np.float64)
        banned[~constraint.allowed(np.arange(p.vocab))] = -np.inf
        again = self._chain(banned, 1)
        both = refused * again.dense()
        both[p.ids[fits]] += p.p[fits]
        return TokenLaw.of(both / both.sum())

    def advance(self, token: int) -> None:
        """`token` was emitted at this position."""
        if self.sampling.mirostat:
            assert self._p is not None
            self._mu = mirostat.next_mu(self._mu, self._p, token, self.sampling)
        if self._constraint is not None:
            self._constraint.advance(token)
        self.context.append(token)
