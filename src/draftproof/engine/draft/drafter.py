"""What every drafter gives: tokens together with the law that they were drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from draftproof.core.coin import Coin
from draftproof.core.law import TokenLaw
from draftproof.engine.in_step import Reads


@dataclass(frozen=True, slots=True)
class Draft:
    """`q[i]` is the law that `tokens[i]` was drawn from, after every truncation, given the tokens before it.

    q None: the tokens were not drawn at all, so each law is one-hot. `drafter` names who made it.
    Raises ValueError when a token has probability 0 under its q, or lengths differ.
    """

    tokens: tuple[int, ...] = ()
    q: tuple[TokenLaw, ...] | None = None
    drafter: str = "none"

    def __post_init__(self) -> None:
        if self.q is None:
            return
        if len(self.q) != len(self.tokens):
            raise ValueError(f"{len(self.tokens)} draft tokens, {len(self.q)} laws")
        if not all(q.at(x) > 0 for x, q in zip(self.tokens, self.q, strict=True)):
            raise ValueError("a draft token has probability 0 in the law it is said to be drawn from")


NOTHING = Draft()
Proposal: TypeAlias = Reads[Draft]
"""A draft in the making: of several answers they are made in step."""


class Drafter(Protocol):
    """Guesses the next tokens of one conversation."""

    @property
    def name(self) -> str:
        """llama-server's name of this kind of speculation."""
        ...

    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Proposal:
        """At most k >= 1 tokens to follow `context`, or NOTHING.

        NOTE: a draft must not be kept, cut or dropped because of the tokens that were drawn for it: what is left would no
        longer be drawn from q. Decide the length before drawing.
        """
        ...

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        """The first `accepted` tokens of `draft` were emitted; `context` ends with the last emitted token."""
        ...

    def close(self) -> None:
        """Gives back what the drafter holds."""
        ...
