"""The contract of a verification rule: one drafted token is judged at a time.

Symbols as in Leviathan, Kalman, Matias 2023 (arXiv 2211.17192): p target, q draft, x drafted token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from draftproof.core.coin import SAMPLE, Coin
from draftproof.core.law import TokenLaw
from draftproof.core.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Decision:
    """`token` is emitted. `accepted`: it is the drafted one and the next drafted token may be judged."""

    token: int
    accepted: bool


Decide: TypeAlias = Callable[[TokenLaw, int, TokenLaw | None, Coin, int], Decision]
"""(p, x, q, coin, position) to a decision; q None is one-hot on x."""

Draw: TypeAlias = Callable[[TokenLaw, Coin, int], int]
"""(p, coin, position) to a token."""


def draw(p: TokenLaw, coin: Coin, position: int) -> int:
    """A token from p, by the stream that every undrafted token of this position uses.

    Candidates stand in llama.cpp's order, so that a seed gives llama-server's token.
    """
    stream = coin.at(SAMPLE, position)
    if not p.ranked:
        return int(p.ids[stream.pick(p.p)])
    order = (-p.p).argsort(kind="stable")
    return int(p.ids[order[stream.pick(p.p[order])]])


@dataclass(frozen=True, slots=True)
class Rule:
    """How drafts are verified.

    `decide` judges a drafted token, `draw` makes a token that was not drafted. `draws_drafts`: accepts most when the draft
    is drawn from q; otherwise when it is the draft's most likely token. `refuses` says why a sampling cannot be served
    exactly, or "".
    """

    name: str
    summary: str
    decide: Decide
    draw: Draw = draw
    draws_drafts: bool = False
    refuses: Callable[[Sampling], str] = lambda _sampling: ""
