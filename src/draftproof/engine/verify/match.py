"""Sample and match: the target draws as if there were no draft, and the draft is right as far as it equals the draws."""

from __future__ import annotations

from draftproof.core.coin import Coin
from draftproof.core.law import TokenLaw
from draftproof.engine.verify.rule import Decision, Rule, draw


def decide(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> Decision:  # noqa: ARG001 - any q will do
    """Emits y ~ p from the position's own stream: with one seed the very tokens of a run without speculation."""
    y = draw(p, coin, position)
    return Decision(y, accepted=y == x)


RULE = Rule("match", "emits the target's own draw and goes on while it equals the draft", decide)
