"""Do two streams of tokens come from one law? A bet that can be settled at any time, for laws that nobody knows.

Each pair of draws at one context, one from either side, is bet on with e = a(x) b(y) / (m(x) m(y)), m = (a + b)/2, where a and b
are guesses at the two laws made before the pair was seen. If both are drawn from one law p, E e = (sum p a/m)(sum p b/m), two
numbers that add to 2: at most 1, whatever p, a and b are (Turner, Ly and Grünwald 2021, arXiv 2106.02693). So the product over
pairs is above 1/alpha with probability at most alpha, at every time at once (Ville).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from draftproof.core.verdict import Statement

BELIEFS = (0.1, 0.3, 0.9)
"""How far the guesses of the two laws lean from their common mean to what each side showed; one bettor each, of equal stakes."""

_UNSEEN = 0.5

Token = Hashable
Draws = tuple[Sequence[Sequence[Token]], Sequence[Sequence[Token]]]
"""The answers of the two sides to one prompt, each a sequence of tokens."""


@dataclass(frozen=True, slots=True)
class Homogeneity:
    """`log_e`: natural logarithm of the wealth; one law gives w or more with probability at most 1/w. `pairs` were bet on."""

    log_e: float
    pairs: int

    @property
    def p_value(self) -> float:
        """Valid at any time: min(1, 1/wealth)."""
        return math.exp(-max(self.log_e, 0.0))

    def statement(self, what: str) -> Statement:
        return Statement(
            f"{what} drawn from one law: evidence against it {math.exp(min(self.log_e, 600)):.3g} to 1",
            2 * self.pairs,
            "betting on pairs of draws, anytime-valid",
            self.p_value,
            {"log_e": self.log_e, "pairs": float(self.pairs)},
        )


@dataclass(slots=True)
class _Context:
    first: Counter[Token] = field(default_factory=Counter)
    second: Counter[Token] = field(default_factory=Counter)

    def log_e(self, x: Token, y: Token) -> list[float]:
        """The log e-value of the pair for each belief, from the pairs before it."""
        return [_log_ratio(*self._guesses(x, b)) + _log_ratio(*self._guesses(y, b)[::-1]) for b in BELIEFS]

    def _guesses(self, token: Token, belief: float) -> tuple[float, float]:
        mine, other = self.first[token], self.second[token]
        common = (mine + other + _UNSEEN) / 2
        return (1 - belief) * common + belief * (mine + _UNSEEN / 2), (1 - belief) * common + belief * (
            other + _UNSEEN / 2
        )

    def saw(self, x: Token, y: Token) -> None:
        self.first[x] += 1
        self.second[y] += 1


def _log_ratio(a: float, b: float) -> float:
    return math.log(2 * a / (a + b))


def homogeneity(rounds: Iterable[Sequence[Draws]]) -> Homogeneity:
    """The evidence, after all rounds, that the two sides do not draw from one law at every context.

    rounds: in each, the answers of both sides per prompt; the same prompts in every round. A context is a prompt with the
    tokens before; the i-th draws of the two sides at a context make a pair. Pairs are made within a round, so that
    whether there is a further round may depend on all that was seen. Answers of one side must be independent of each other and of
    the other side's (other seeds), or else agree more than that, which only lowers the evidence.
    """
    contexts: dict[tuple[int, tuple[Token, ...]], _Context] = defaultdict(_Context)
    logs = [0.0] * len(BELIEFS)
    pairs = 0
    for prompts in rounds:
        for prompt, (first, second) in enumerate(prompts):
            mine, other = _by_prefix(first), _by_prefix(second)
            for prefix in sorted(mine.keys() & other.keys(), key=len):
                context = contexts[prompt, prefix]
                for x, y in zip(mine[prefix], other[prefix], strict=False):
                    logs = [total + log for total, log in zip(logs, context.log_e(x, y), strict=True)]
                    context.saw(x, y)
                    pairs += 1
    top = max(logs)
    return Homogeneity(top + math.log(math.fsum(math.exp(x - top) for x in logs) / len(logs)), pairs)


def _by_prefix(answers: Sequence[Sequence[Token]]) -> dict[tuple[Token, ...], list[Token]]:
    draws: dict[tuple[Token, ...], list[Token]] = defaultdict(list)
    for answer in answers:
        for i, token in enumerate(answer):
            draws[tuple(answer[:i])].append(token)
    return draws
