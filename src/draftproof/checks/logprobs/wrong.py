"""Which reported values are wrong?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from draftproof.checks.contexts import Scored
from draftproof.core.ask import Completion


@dataclass(frozen=True, slots=True)
class Rescored:
    """An answer, the oracle's row before each of its tokens, and the draft model's logprob of the token where it is known."""

    answer: Completion
    tokens: tuple[Scored, ...]
    draft: tuple[float, ...] = ()


def error(scored: Scored) -> float | None:
    """Reported minus true, in nats; for a token outside the oracle's row, how far it is above the highest possible value."""
    reported = scored.token.logprob
    if reported is None:
        return None
    if scored.true is not None:
        return reported - scored.true
    return max(0.0, reported - scored.ceiling)


@dataclass(frozen=True, slots=True)
class Wrong:
    """A wrong value: of which answer, at which of its tokens, and what was reported."""

    of: Rescored
    n: int
    reported: float

    @property
    def scored(self) -> Scored:
        return self.of.tokens[self.n]


def wrong_values(answers: Sequence[Rescored], limit: float) -> Iterator[Wrong]:
    """Those that are off by more than `limit` nats."""
    for r in answers:
        for n, scored in enumerate(r.tokens):
            e = error(scored)
            if scored.token.logprob is not None and e is not None and abs(e) > limit:
                yield Wrong(r, n, scored.token.logprob)
