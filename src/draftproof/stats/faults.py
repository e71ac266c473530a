"""The named ways to verify a drafted token wrongly, each as its exact law. One entry in `FAULTS` adds a fault.

p is the target's law, q the law the draft was drawn from. Each rule says which token comes out and whether it is the
accepted draft (`verification.Outcome`), so the same entry serves the bets of `sequential` and exact simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from draftproof.core.distribution import Law
from draftproof.stats.verification import (
    Outcome,
    Step,
    by_index,
    by_probability,
    entropy,
    normalised,
    nucleus,
    one_uniform,
    ratio,
    residual,
    residual_by_order,
    shared_gumbel_replacement,
    tempered,
    top,
    verify,
)


class Needs(IntEnum):
    """What must be known to write down a rule's law: the target alone, the draft too, or the draft after each token too."""

    TARGET = 0
    DRAFT = 1
    LOOKAHEAD = 2


@dataclass(frozen=True, slots=True)
class Rule:
    """How a token is decided. `description` completes "the server ...".

    `everywhere`: the rule also decides tokens that were not drafted. `partial`: it is likely to hold for a part of the
    drafted tokens only (False where other entries stand for less of the same). `p_min` > 0: a draft ends before the token at whose
    place the draft's top probability is lower, and `outcome` holds for its first token only; the others are verified exactly.
    """

    name: str
    description: str
    needs: Needs
    outcome: Callable[[Step], Outcome]
    everywhere: bool = False
    partial: bool = True
    p_min: float = 0.0

    def law(self, step: Step) -> Law:
        """float64[..., vocab], sum 1: law of the emitted token. Raises ValueError when the step lacks what the rule needs."""
        if self.needs >= Needs.DRAFT and step.q is None:
            raise ValueError(f"{self.name} needs the draft's law")
        if self.needs >= Needs.LOOKAHEAD and step.next_top is None:
            raise ValueError(f"{self.name} needs the draft's law after each token")
        return self.outcome(step).law

    def later(self, step: Step) -> Outcome:
        """The outcome at the second and later tokens of a draft; where the draft has ended, a draw from the target."""
        if self.p_min <= 0:
            return self.outcome(step)
        drafting = step.draft.max(axis=-1, keepdims=True) >= self.p_min
        exact = rejection(step)
        return Outcome(np.where(drafting, exact.accepted, 0.0), np.where(drafting, exact.instead, step.p))


def rejection(step: Step) -> Outcome:
    """The exact rule (arXiv 2211.17192, Alg. 1)."""
    return verify(step.draft, ratio(step.p, step.draft), residual(step.p, step.draft))


def exact_match(step: Step) -> Outcome:
    """The other exact rule: draw from p, emit the draw, go on while it equals the draft."""
    return Outcome(step.p * step.draft, step.p * (1 - step.draft))


def _draft_top(s: Step) -> Outcome:
    return Outcome(top(s.draft), np.zeros_like(s.p))


def _draft_top_softmax(s: Step) -> Outcome:
    return verify(top(s.draft), ratio(s.p, s.draft), residual(s.p, s.draft))


def _draft_top_rank_residual(s: Step) -> Outcome:
    return verify(top(s.draft), ratio(s.p, s.draft), _by_rank(s))


def _draft_top_index_residual(s: Step) -> Outcome:
    paired = residual_by_order(s.p, s.draft, by_index(s.p), by_index(s.draft))
    return verify(top(s.draft), ratio(s.p, s.draft), paired)


def _by_rank(s: Step) -> Law:
    return residual_by_order(s.p, s.draft, by_probability(s.p), by_probability(s.draft))


def _greedy(s: Step) -> Outcome:
    best = top(s.p)
    return Outcome(best * s.draft, best * (1 - s.draft))


def _one_token_residual(s: Step) -> Outcome:
    accepted = np.minimum(s.p, s.draft)
    rejected = s.draft - accepted
    share = np.divide(rejected, 1 - s.p, out=np.zeros_like(s.p), where=s.p < 1)
    return Outcome(accepted, s.p * (share.sum(axis=-1, keepdims=True) - share))


def _typical(s: Step) -> Outcome:
    limit = np.minimum(0.09, 0.3 * np.exp(-entropy(s.p)))
    return verify(s.draft, (s.p >= limit).astype(np.float64), s.p)


def _threshold(limit: float) -> Callable[[Step], Outcome]:
    return lambda s: verify(s.draft, (s.p >= limit).astype(np.float64), s.p)


def _lenient(factor: float) -> Callable[[Step], Outcome]:
    return lambda s: verify(s.draft, ratio(s.p, factor * s.draft), residual(s.p, s.draft))


def _coin_toss(rate: float) -> Callable[[Step], Outcome]:
    return lambda s: verify(s.draft, np.full_like(s.p, rate), s.p)


def _draft_temperature(temperature: float) -> Callable[[Step], Outcome]:
    return lambda s: verify(tempered(s.draft, temperature), ratio(s.p, s.draft), residual(s.p, s.draft))


def _target_temperature(temperature: float) -> Callable[[Step], Outcome]:
    return lambda s: rejection(Step(tempered(s.p, temperature), s.draft))


def _target_nucleus(mass: float) -> Callable[[Step], Outcome]:
    return lambda s: rejection(Step(nucleus(s.p, mass), s.draft))


def _target_min_p(factor: float) -> Callable[[Step], Outcome]:
    def outcome(s: Step) -> Outcome:
        kept = np.where(s.p >= factor * s.p.max(axis=-1, keepdims=True), s.p, 0.0)
        return rejection(Step(normalised(kept, s.p), s.draft))

    return outcome


def _short_drafts_dropped(p_min: float) -> Callable[[Step], Outcome]:
    """First token of a draft that needs two: x ~ q is kept only if the draft is still sure (top >= p_min) after x."""

    def outcome(s: Step) -> Outcome:
        assert s.next_top is not None
        drafting = s.draft.max(axis=-1, keepdims=True) >= p_min
        kept = (drafting & (s.next_top >= p_min)) * s.draft
        accepted = kept * ratio(s.p, s.draft)
        rejected = (kept - accepted).sum(axis=-1, keepdims=True)
        dropped = 1 - kept.sum(axis=-1, keepdims=True)
        return Outcome(accepted, rejected * residual(s.p, s.draft) + dropped * s.p)

    return outcome


SOUND: tuple[Rule, ...] = (
    Rule("rejection", "accepts with probability min(1, p/q) and else draws from the residual", Needs.DRAFT, rejection),
    Rule("exact_match", "emits its own draw and goes on while that equals the draft", Needs.DRAFT, exact_match),
)
"""The rules that leave p as it is, for controls."""

_T, _D, _L = Needs.TARGET, Needs.DRAFT, Needs.LOOKAHEAD

FAULTS: tuple[Rule, ...] = (
    Rule("draft_top", "emits the draft's most likely token without verifying it", _D, _draft_top),
    Rule(
        "draft_top_softmax",
        "proposes the draft's most likely token but accepts it as if it had been drawn from the draft's law",
        _D,
        _draft_top_softmax,
    ),
    Rule(
        "draft_top_rank_residual",
        "proposes the draft's most likely token, and on rejection subtracts the two laws rank by rank",
        _D,
        _draft_top_rank_residual,
    ),
    Rule(
        "draft_top_index_residual",
        "proposes the draft's most likely token, and on rejection subtracts the truncated laws entry by entry",
        _D,
        _draft_top_index_residual,
    ),
    Rule("greedy", "emits the target's most likely token at any temperature", _T, _greedy, everywhere=True),
    Rule(
        "greedy_acceptance",
        "accepts a draft only if it is the target's most likely token, and else draws from the target",
        _D,
        lambda s: verify(s.draft, top(s.p), s.p),
    ),
    Rule(
        "redraw_on_mismatch",
        "compares the draft with its own draw and draws once more when they differ",
        _D,
        lambda s: verify(s.draft, s.p, s.p),
    ),
    Rule(
        "rank_residual",
        "on rejection subtracts the two laws rank by rank, pairing different tokens",
        _D,
        lambda s: verify(s.draft, ratio(s.p, s.draft), _by_rank(s)),
    ),
    Rule(
        "no_residual",
        "on rejection draws from the target instead of the residual",
        _D,
        lambda s: verify(s.draft, ratio(s.p, s.draft), s.p),
    ),
    Rule(
        "reject_to_target_top",
        "on rejection emits the target's most likely token",
        _D,
        lambda s: verify(s.draft, ratio(s.p, s.draft), top(s.p)),
    ),
    Rule(
        "reject_to_residual_top",
        "on rejection emits the most likely token of the residual",
        _D,
        lambda s: verify(s.draft, ratio(s.p, s.draft), top(residual(s.p, s.draft))),
    ),
    Rule(
        "one_token_residual",
        "on rejection removes only the rejected token from the target",
        _D,
        _one_token_residual,
    ),
    Rule(
        "one_uniform",
        "uses one random number for the acceptance and for the draw from the residual",
        _D,
        lambda s: one_uniform(s.p, s.draft),
    ),
    Rule(
        "shared_gumbel",
        "draws the replacement with the random noise that drew the draft",
        _D,
        lambda s: verify(s.draft, ratio(s.p, s.draft), shared_gumbel_replacement(s.p, s.draft)),
    ),
    *(
        Rule(
            f"draft_temperature_{t:g}",
            f"draws drafts at temperature {t:g} but verifies them as drawn at temperature 1",
            _D,
            _draft_temperature(t),
        )
        for t in (0.5, 0.7, 1.5)
    ),
    Rule(
        "typical_acceptance",
        "accepts any draft that the target finds typical (probability above min(.09, .3 exp(-entropy)))",
        _T,
        _typical,
    ),
    Rule(
        "threshold_acceptance",
        "accepts any draft that the target gives a probability of at least .25",
        _T,
        _threshold(0.25),
    ),
    *(
        Rule(f"lenient_ratio_{c:g}", f"accepts with probability p/({c:g} q) instead of p/q", _D, _lenient(c))
        for c in (0.8, 0.95)
    ),
    *(
        Rule(
            f"coin_toss_acceptance_{rate:g}",
            f"accepts {rate:.0%} of the drafts by a coin toss that ignores the target (synthetic acceptance)",
            _D,
            _coin_toss(rate),
            partial=False,
        )
        for rate in (1.0, 0.5, 0.25)
    ),
    *(
        Rule(
            f"short_drafts_dropped_{p_min:g}",
            f"throws a draft away when it ends early, which depends on the drawn tokens (minimum probability {p_min:g})",
            _L,
            _short_drafts_dropped(p_min),
            p_min=p_min,
        )
        for p_min in (0.3, 0.45, 0.6, 0.75)
    ),
    *(
        Rule(
            f"temperature_{t:g}",
            f"samples at about {t:g} times the temperature that was asked for",
            _T,
            _target_temperature(t),
            everywhere=True,
            partial=False,
        )
        for t in (0.5, 0.7, 0.85, 1.2, 1.5, 2.5)
    ),
    Rule(
        "top_p_0.95",
        "keeps only the most likely 95 % (top-p) unasked",
        _T,
        _target_nucleus(0.95),
        everywhere=True,
        partial=False,
    ),
    Rule(
        "min_p_0.05",
        "drops tokens below .05 of the top one (min-p) unasked",
        _T,
        _target_min_p(0.05),
        everywhere=True,
        partial=False,
    ),
)
