"""Exact simulation of a speculating server on a model small enough to count.

A block drafts K tokens; each is decided by a rule; the first one that is not accepted ends the block; after K accepted ones a
bonus token comes from the target. What a rule emits and whether it accepts are drawn together from its joint law
(`stats.verification.Outcome`), so the simulation has no error but chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from draftproof.core.distribution import Law
from draftproof.core.probe import KnownModel
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.countable.incremental import Context
from draftproof.countable.law import next_laws
from draftproof.stats.faults import Rule, rejection
from draftproof.stats.learners import Rows
from draftproof.stats.verification import Outcome, Step, top

Tokens: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Server:
    """What answers: a model pair, the prompt, and how it speculates.

    `drafted` is K, at least 1. `greedy_draft`: the draft is its model's most likely token, and rules that know q are told so
    (q is one-hot). `share`: the probability that a drafted token is decided by the rule and not by exact rejection.
    `sampling` shapes the target's law, `draft_sampling` the draft's.
    """

    model: KnownModel
    prompt: Context
    rule: Rule
    drafted: int = 3
    greedy_draft: bool = False
    share: float = 1.0
    sampling: Sampling = NEUTRAL
    draft_sampling: Sampling = NEUTRAL

    def target(self, contexts: Sequence[Context]) -> Law:
        """float64[n, vocab]: the law that a token must be drawn from after each context."""
        return next_laws(self.model.target_many, contexts, self.sampling)

    def draft(self, contexts: Sequence[Context]) -> Law:
        """float64[n, vocab]: the law that the draft is drawn from."""
        q = next_laws(self.model.draft_many, contexts, self.draft_sampling)
        return top(q) if self.greedy_draft else q

    def next_top(self, contexts: Sequence[Context]) -> Law:
        """float64[n, vocab]: the draft's highest probability after each context and each token that can follow it."""
        vocabulary = self.model.vocabulary
        ahead = self.draft([(*c, x) for c in contexts for x in range(vocabulary)])
        highest: Law = ahead.max(axis=-1).reshape(len(contexts), vocabulary)
        return highest

    def step(self, contexts: Sequence[Context]) -> Step:
        return Step(
            self.target(contexts), self.draft(contexts), self.next_top(contexts) if self.rule.p_min > 0 else None
        )


def simulate(server: Server, requests: int, tokens: int, rng: np.random.Generator) -> Tokens:
    """int64[requests, tokens]: independent answers. Token 0 is not speculated; the first block starts at token 1."""
    contexts = [server.prompt] * requests
    out = np.empty((requests, tokens), dtype=np.int64)
    accepted_before = np.full(requests, server.drafted)
    for t in range(tokens):
        x, accepted = _one_token(server, contexts, accepted_before, rng)
        accepted_before = np.where(accepted, accepted_before + 1, 0)
        out[:, t] = x
        contexts = [(*c, token) for c, token in zip(contexts, x.tolist(), strict=True)]
    return out


def observed(server: Server, answers: Tokens, first: int = 1, lookahead: bool = False) -> Rows:
    """The answers as an auditor with the exact laws sees them, tokens `first` and later, answer by answer, all one stream."""
    contexts = [server.prompt + tuple(row[:t]) for row in answers.tolist() for t in range(first, answers.shape[1])]
    x = answers[:, first:].ravel()
    next_top = server.next_top(contexts) if lookahead else None
    return Rows(
        server.target(contexts), x, server.draft(contexts), next_top, contexts, np.zeros(len(x), dtype=np.int64)
    )


def _one_token(
    server: Server, contexts: list[Context], accepted_before: Tokens, rng: np.random.Generator
) -> tuple[Tokens, NDArray[np.bool_]]:
    """Token of each request and whether it was an accepted draft; `accepted_before` counts its block's accepted tokens."""
    rule, step = server.rule, server.step(contexts)
    first, later, exact = rule.outcome(step), rule.later(step), rejection(step)
    ruled = _choose(accepted_before == 0, first, later)
    by_rule = (rng.random(len(contexts)) < server.share) | (rule.p_min > 0) & (accepted_before > 0)
    outcome = _choose(by_rule, ruled, exact)
    drafting = (accepted_before < server.drafted)[:, None]
    accepted = np.where(drafting, outcome.accepted, 0.0)
    instead = np.where(drafting, outcome.instead, first.law if rule.everywhere else step.p)
    drawn = _draw(np.concatenate([accepted, instead], axis=1), rng)
    vocabulary = server.model.vocabulary
    return drawn % vocabulary, drawn < vocabulary


def _choose(where: NDArray[np.bool_], yes: Outcome, no: Outcome) -> Outcome:
    mask = where[:, None]
    return Outcome(np.where(mask, yes.accepted, no.accepted), np.where(mask, yes.instead, no.instead))


def _draw(weights: Law, rng: np.random.Generator) -> Tokens:
    """int64[n]: one column per row, with probability proportional to weights >= 0; never one of weight 0."""
    edges = np.cumsum(weights, axis=1)
    point = (1 - rng.random(len(weights))) * edges[:, -1]
    column: Tokens = np.argmax(edges >= point[:, None], axis=1)
    return column
