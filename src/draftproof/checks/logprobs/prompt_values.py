"""What are the values that a server gives its prompt: the oracle's, or those of another place?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftproof.checks.contexts import Scored
from draftproof.core.ask import Completion
from draftproof.core.probe import OracleRow


@dataclass(frozen=True, slots=True)
class Place:
    """The oracle's row before the prompt's token of entry `n` (counted from the last, which is -1), and where both are had,
    its row with the prompt worked out anew.
    """

    n: int
    row: OracleRow
    anew: OracleRow | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """What was reported at a place, what the oracle has (None: the token is not in its row), and the most that it could have."""

    n: int
    reported: float
    true: float | None
    ceiling: float

    @property
    def error(self) -> float:
        """In nats; of a token that is not in the row, how far it is above the most that it could be."""
        return max(0.0, self.reported - self.ceiling) if self.true is None else self.reported - self.true


def compared(answer: Completion, places: Sequence[Place], lag: int = 0, token: int = 0) -> list[Value]:
    """Per place the value reported `lag` entries away, beside what the oracle has here for the token `token` entries away."""
    found = []
    entries, prompt = answer.prompt, answer.ask.prompt
    for place in places:
        at, of = place.n + lag, place.n + token
        if not (-len(entries) <= at < 0 and -len(entries) <= of < 0):
            continue
        reported = entries[at].logprob
        if reported is not None:
            named = replace(entries[of], id=prompt[of] if isinstance(prompt, tuple) else None)
            here = Scored(named, place.row)
            found.append(Value(place.n, reported, here.true, here.ceiling))
    return found


SHIFTS = (
    (1, 0, "they stand at the next token"),
    (-1, 0, "they stand at the token before"),
    (1, 1, "they are the tokens' values one place early"),
    (-1, -1, "they are the tokens' values one place late"),
)
"""Where a value is found, of which token it is (entries away from a place), and what that means."""


LEAST, MARGIN = 3, 2
"""A shift is named from so many wrong values on that it explains, and if it explains so many times as many as any other."""


def shift(answer: Completion, places: Sequence[Place], limit: float) -> str:
    """In words, the shift by which most of the wrong values fit the oracle's, and no other one nearly as many; or "".

    What is no more than possible, of a token that is not in the oracle's row, is no fit.
    """
    wrong = {value.n for value in compared(answer, places) if abs(value.error) > limit}
    found = []
    for lag, token, words in SHIFTS:
        there = [value for value in compared(answer, places, lag, token) if value.n in wrong]
        fitting = sum(value.true is not None and abs(value.error) <= limit for value in there)
        found.append((fitting, sum(abs(value.error) > limit for value in there), words))
    (other, *_), (most, against, words) = sorted(found)[-2:]
    return words if most >= LEAST and most > against and most >= MARGIN * other else ""
