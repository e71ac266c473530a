"""Exact verification on plain arrays, and a proof by enumeration for rules of your own. For authors of inference engines.

    tokens, accepted = verify(p, draft, q, seed=7)          # the exact rule, on numpy arrays
    gap = distance(my_rule, target, draft)                  # 0 if my_rule is lossless, else by how much it is not

A rule of your own is a function `rule(p, draft, q, coin)` that returns the tokens that one verification step emits. It takes its
chance from `coin`: `coin.flip(r)` in place of `uniform() < r`, `coin.pick(weights)` in place of a draw. Then every branch can
be walked and its probability multiplied out: no sampling, no tolerance.

p is the target's law, q the draft's, as in Leviathan, Kalman and Matias 2023 (arXiv 2211.17192).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from draftproof.core.coin import Coin, RngCoin, enumerate_branches
from draftproof.core.law import Law, TokenLaw, total_variation
from draftproof.engine import verify as rules

__all__ = ["Coin", "Verified", "VerifyStep", "distance", "law_of", "target_law", "verify"]


class Verified(NamedTuple):
    """`tokens` of one step, 1 to k + 1; the first `accepted` of them are drafted ones."""

    tokens: tuple[int, ...]
    accepted: int


VerifyStep: TypeAlias = Callable[[Law, tuple[int, ...], Law, "_Chance"], Sequence[int]]
"""(p float64[k + 1, vocab], draft, q float64[k, vocab], coin) to the tokens that the step emits."""


def verify(
    p: ArrayLike,
    draft: Sequence[int],
    q: ArrayLike | None = None,
    *,
    seed: int = 0,
    position: int = 0,
    rule: str = "rejection",
) -> Verified:
    """One step of exact verification.

    p: float[k + 1, vocab], the target's laws after 0 .. k drafted tokens, shaped by the samplers. draft: k tokens.
    q: float[k, vocab], the laws that they were *drawn* from, shaped likewise; None for drafts that were looked up or
    are a likeliest token. rule: "rejection", "match" or "greedy". `position` is the place of the first token in the answer:
    with `seed` it decides all chance. Raises ValueError for arrays that are no laws or do not fit, UsageError for an unknown rule.
    """
    target, drawn = _laws(p, len(draft) + 1, "p"), None if q is None else _laws(q, len(draft), "q")
    if drawn is not None and drawn.size and drawn.shape[1] != target.shape[1]:
        raise ValueError(f"p is over {target.shape[1]} tokens, q over {drawn.shape[1]}")
    chosen, coin = rules.rule(rule), RngCoin(seed)
    tokens: list[int] = []
    for i, token in enumerate(draft):
        law = None if drawn is None else TokenLaw.of(drawn[i])
        decision = chosen.decide(TokenLaw.of(target[i]), token, law, coin, position + i)
        tokens.append(decision.token)
        if not decision.accepted:
            return Verified(tuple(tokens), i)
    tokens.append(chosen.draw(TokenLaw.of(target[-1]), coin, position + len(draft)))
    return Verified(tuple(tokens), len(draft))


def _laws(values: ArrayLike, rows: int, name: str) -> Law:
    laws = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if laws.shape[0] != rows and rows:
        raise ValueError(f"{name} has {laws.shape[0]} rows where {rows} are needed")
    if rows and ((laws < 0).any() or np.abs(laws.sum(axis=1) - 1).max() > 1e-6):
        raise ValueError(f"a row of {name} is no law: it must be nonnegative and sum to 1")
    return laws


class _Chance:
    """The coin as a rule of one's own sees it: every decision is a new one."""

    def __init__(self, coin: Coin) -> None:
        self._coin, self._decisions = coin, 0

    def flip(self, chance: float) -> bool:
        """True with probability min(1, chance)."""
        return self._next().flip(chance)

    def pick(self, weights: ArrayLike) -> int:
        """A place of `weights`, with probability proportional to the weight there."""
        return self._next().pick(np.asarray(weights, dtype=np.float64))

    def _next(self) -> Coin:
        self._decisions += 1
        return self._coin.at("decision", self._decisions)


def law_of(rule: VerifyStep, target: ArrayLike, draft: ArrayLike, *, k: int = 2, m: int = 2, start: int = 0) -> Law:
    """float64[vocab] * m: the joint law of the first m tokens that `rule` emits after the token `start`.

    target, draft: float[vocab, vocab], the next token's law after each token: models small enough to count. Drafts of k tokens
    are drawn from `draft`. Raises ValueError for tables that are no laws, and for a step that emits no token or more than k + 1.
    """
    p, q = _tables(target, draft)
    memo: dict[tuple[int, int], Law] = {}

    def law(last: int, left: int) -> Law:
        if (last, left) not in memo:
            out = np.zeros((len(p),) * left)
            for tokens, probability in _steps(rule, p, q, k, last):
                if len(tokens) >= left:
                    out[tokens[:left]] += probability
                else:
                    out[tokens] += probability * law(tokens[-1], left - len(tokens))
            memo[last, left] = out
        return memo[last, left]

    return law(start, m)


def _steps(rule: VerifyStep, p: Law, q: Law, k: int, last: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every way that one step can go after the token `last`, with its probability."""

    def step(coin: Coin) -> tuple[int, ...]:
        chance, before = _Chance(coin), [last]
        for _ in range(k):
            before.append(chance.pick(q[before[-1]]))
        emitted = tuple(int(t) for t in rule(p[before], tuple(before[1:]), q[before[:-1]], chance))
        if not 1 <= len(emitted) <= k + 1:
            raise ValueError(f"a step with {k} drafted tokens emits 1 to {k + 1} tokens, not {len(emitted)}")
        return emitted

    yield from enumerate_branches(step)


def target_law(target: ArrayLike, *, m: int = 2, start: int = 0) -> Law:
    """float64[vocab] * m: the joint law of the first m tokens of the target alone."""
    p, _ = _tables(target, target)
    law: Law = p[start]
    for _ in range(m - 1):
        law = law[..., None] * p
    return law


def distance(rule: VerifyStep, target: ArrayLike, draft: ArrayLike, *, k: int = 2, m: int = 2) -> float:
    """The largest total variation, over all starting tokens, between what `rule` emits and the target's law.

    A lossless rule has 0 up to rounding (1e-12). One table proves nothing: try several, with zeros, with ties, with p = q.
    """
    vocab = len(np.asarray(target))
    laws = ((law_of(rule, target, draft, k=k, m=m, start=s), target_law(target, m=m, start=s)) for s in range(vocab))
    return max(total_variation(emitted, true) for emitted, true in laws)


def _tables(target: ArrayLike, draft: ArrayLike) -> tuple[Law, Law]:
    vocab = len(np.asarray(target))
    p, q = _laws(target, vocab, "target"), _laws(draft, vocab, "draft")
    if p.shape != (vocab, vocab) or q.shape != p.shape:
        raise ValueError(f"tables must be square and of one size, not {p.shape} and {q.shape}")
    return p, q
