"""Wrong rules and wrong drafters, each of them seen in real servers: controls that a proof must tell from the exact ones.

`computed` is the law of the first token of a block, written down independently of the loop (`stats.faults`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from draftproof.core.coin import Coin
from draftproof.core.distribution import Law
from draftproof.core.law import TokenLaw
from draftproof.core.sampling import NEUTRAL
from draftproof.core.speculation import DraftModel
from draftproof.engine.backend import Backend
from draftproof.engine.draft.drafter import NOTHING, Drafter, Proposal
from draftproof.engine.draft.model import ModelDrafter
from draftproof.engine.verify import rejection
from draftproof.engine.verify.rule import Decide, Decision, Rule
from draftproof.stats import faults
from draftproof.stats.verification import Step, ratio, residual, verify

_THRESHOLD = 0.25
_LENIENCE = 0.8
_P_MIN = 0.45
_COLDER = 0.5
_TOP_K = 2


@dataclass(frozen=True, slots=True)
class Wrong:
    """`rule` with drafts of at most `k` tokens from `draft` emits its first token with the law `computed(step)`."""

    name: str
    summary: str
    rule: Rule
    draft: Callable[[Backend], Drafter]
    computed: Callable[[Step], Law]
    k: int = 2


def _q(p: TokenLaw, x: int, q: TokenLaw | None) -> Law:
    return (TokenLaw.one_hot(x, p.vocab) if q is None else q).dense()


def _draft_top(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> Decision:  # noqa: ARG001 - the fault
    top = int(np.argmax(_q(p, x, q)))
    return Decision(top, accepted=top == x)


def _unless(
    accepts: Callable[[TokenLaw, int, TokenLaw | None, Coin, int], bool], instead: Callable[[Law, Law], Law]
) -> Decide:
    """A rule that accepts so, and else draws from instead(p, q)."""

    def decide(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> Decision:
        if accepts(p, x, q, coin, position):
            return Decision(x, accepted=True)
        return Decision(coin.at("residual", position).pick(instead(p.dense(), _q(p, x, q))), accepted=False)

    return decide


def _from_p(p: Law, q: Law) -> Law:  # noqa: ARG001 - the fault
    return p


def _paired_by_rank(p: Law, q: Law) -> Law:
    order_p, order_q = (np.argsort(-law, kind="stable") for law in (p, q))
    out = np.zeros_like(p)
    out[order_p] = np.maximum(p[order_p] - q[order_q], 0.0)
    return out if out.any() else p


def _one_uniform(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> Decision:
    """u accepts below a = p/q; from a up the same u runs through the residual's CDF. So one pick over all intervals of u."""
    dense, other = p.dense(), _q(p, x, q)
    a = min(1.0, dense[x] / other[x])
    edges = np.cumsum(residual(dense, other))
    edges = np.maximum(np.concatenate([[0.0], edges[:-1], [1.0]]), a)
    taken = coin.at("accept", position).pick(np.concatenate([[a], np.diff(edges)]))
    return Decision(x if taken == 0 else taken - 1, accepted=taken == 0)


def _colder(p: TokenLaw) -> TokenLaw:
    weights = p.p ** (1 / _COLDER)
    return TokenLaw(p.ids, weights / weights.sum(), p.vocab)


def _drawn(backend: Backend) -> ModelDrafter:
    return ModelDrafter(backend, backend.sequence(), NEUTRAL, DraftModel(n_max=8), drawn=True)


class _TruncatesUntold(ModelDrafter):
    """Draws from the two likeliest tokens and reports the law of all."""

    def _choose(self, q: TokenLaw, coin: Coin, i: int) -> int:
        return super()._choose(TokenLaw.of(_two_likeliest(q.dense())), coin, i)


def _two_likeliest(q: Law) -> Law:
    out = np.where(np.isin(np.arange(len(q)), np.argsort(-q, kind="stable")[:_TOP_K]), q, 0.0)
    kept: Law = out / out.sum()
    return kept


class _TakesTheTop(ModelDrafter):
    """Takes the likeliest token and reports the law of all, as if it had been drawn."""

    def _choose(self, q: TokenLaw, coin: Coin, i: int) -> int:  # noqa: ARG002 - the fault
        return q.argmax


class _DropsShortDrafts(ModelDrafter):
    """Throws a draft of one token away, which depends on that token."""

    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Proposal:
        draft = yield from super().propose(context, k, coin)
        return draft if len(draft.tokens) > 1 else NOTHING


def _by(drafter: type[ModelDrafter], p_min: float = 0.0) -> Callable[[Backend], Drafter]:
    return lambda b: drafter(b, b.sequence(), NEUTRAL, DraftModel(n_max=8, p_min=p_min), drawn=True)


def _fault(name: str) -> Callable[[Step], Law]:
    return next(f for f in faults.FAULTS if f.name == name).law


def _truncated_untold(step: Step) -> Law:
    assert step.q is not None
    drawn = np.apply_along_axis(_two_likeliest, -1, step.q)
    return verify(drawn, ratio(step.p, step.q), residual(step.p, step.q)).law


def _rule(name: str, summary: str, decide: Decide) -> Rule:
    return Rule(name, summary, decide, draws_drafts=True)


def _wrong(fault: str, summary: str, decide: Decide) -> Wrong:
    name = fault.replace("_", " ")
    return Wrong(name, summary, _rule(name, summary, decide), _drawn, _fault(fault))


WRONG: tuple[Wrong, ...] = (
    _wrong("draft_top", "always emits the draft's likeliest token", _draft_top),
    _wrong("rank_residual", "the residual pairs tokens by rank", _unless(rejection.accept, _paired_by_rank)),
    _wrong("no_residual", "draws from p after a rejection", _unless(rejection.accept, _from_p)),
    _wrong("one_uniform", "one uniform number accepts and draws from the residual", _one_uniform),
    _wrong(
        "greedy_acceptance",
        "accepts the target's likeliest token only, at temperature 1",
        _unless(lambda p, x, _q, _c, _i: p.argmax == x, _from_p),
    ),
    _wrong(
        "threshold_acceptance",
        "accepts what the target gives a quarter",
        _unless(lambda p, x, _q, _c, _i: p.at(x) >= _THRESHOLD, _from_p),
    ),
    _wrong(
        "lenient_ratio_0.8",
        "accepts with probability p / 0.8 q",
        _unless(
            lambda p, x, q, c, i: c.at("accept", i).flip(p.at(x), _LENIENCE * float(_q(p, x, q)[x])),
            residual,
        ),
    ),
    _wrong(
        "temperature_0.5",
        "verifies at half the temperature",
        lambda p, x, q, c, i: rejection.decide(_colder(p), x, q, c, i),
    ),
    Wrong(
        "q before truncation",
        "drafts are drawn from two tokens, q is the law of all",
        rejection.RULE,
        _by(_TruncatesUntold),
        _truncated_untold,
    ),
    Wrong(
        "top told as drawn",
        "the draft is q's likeliest token, q is not one-hot",
        rejection.RULE,
        _by(_TakesTheTop),
        _fault("draft_top_softmax"),
    ),
    Wrong(
        "short drafts dropped",
        "a draft is dropped for the tokens drawn for it",
        rejection.RULE,
        _by(_DropsShortDrafts, _P_MIN),
        _fault("short_drafts_dropped_0.45"),
    ),
)
