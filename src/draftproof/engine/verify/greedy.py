"""Temperature 0: the target's most likely token, drafted or not."""

from __future__ import annotations

from draftproof.core.coin import Coin
from draftproof.core.law import TokenLaw
from draftproof.core.sampling import Sampling
from draftproof.engine.verify.rule import Decision, Rule


def decide(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> Decision:  # noqa: ARG001 - nothing is left to chance
    """Emits argmax p, of equals the lowest id."""
    return Decision(p.argmax, accepted=p.argmax == x)


def draw(p: TokenLaw, coin: Coin, position: int) -> int:  # noqa: ARG001 - nothing is left to chance
    """argmax p."""
    return p.argmax


def refuses(sampling: Sampling) -> str:
    """Only a law that is one-hot already is left as it is."""
    return "" if sampling.greedy else "the greedy rule is exact at temperature 0 only"


RULE = Rule("greedy", "emits the target's most likely token", decide, draw, refuses=refuses)
