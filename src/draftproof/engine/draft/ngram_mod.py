"""`ngram-mod`: hash by hash through a pool that all requests fill."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.core.coin import Coin
from draftproof.core.speculation import NgramMod as Settings
from draftproof.engine.draft.drafter import NOTHING, Draft
from draftproof.engine.draft.kind import Kind, Setup
from draftproof.engine.draft.ngram_pool import NgramPool, RollingHash
from draftproof.engine.in_step import at_once


class NgramMod:
    """Each drafted token is what followed the last time that the `n_match` tokens before it had this hash.

    Drafts of fewer than `n_min` tokens are not made. What was said, prompt included, goes into the pool.
    """

    name = "ngram-mod"

    def __init__(self, settings: Settings, pool: NgramPool) -> None:
        self._settings = settings
        self._pool = pool
        self._hash = RollingHash(settings.n_match)
        self._known = 0

    def _learn(self, context: Sequence[int]) -> None:
        for token in context[self._known :]:
            if self._hash.full:
                self._pool.learn(self._hash.value, token)
            self._hash.push(token)
        self._known = len(context)

    @at_once
    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Draft:  # noqa: ARG002 - nothing is left to chance
        self._learn(context)
        if not self._hash.full:
            return NOTHING
        ahead = self._hash.follow(())
        tokens: list[int] = []
        while len(tokens) < min(k, self._settings.n_max):
            token = self._pool.recall(ahead.value)
            if token < 0:
                break
            tokens.append(token)
            ahead.push(token)
        enough = len(tokens) >= min(self._settings.n_min, k)
        return Draft(tuple(tokens), None, self.name) if tokens and enough else NOTHING

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:  # noqa: ARG002 - learns from the text
        self._learn(context)

    def close(self) -> None:
        """The pool is the server's."""


def _open(setup: Setup) -> NgramMod:
    return NgramMod(setup.speculation.ngram_mod, setup.pool or NgramPool())


DRAFTER = Kind(NgramMod.name, "token by token through a table of hashes that all requests share", _open, shared=True)
