"""Do wrong values hold nothing of the token's own: one number for many, or few decimals?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from draftproof.checks.logprobs.wrong import Rescored, Wrong, error
from draftproof.checks.tolerance import MOST

LEAST = 4
UNITS = (1.0, 0.1, 0.01, 0.001)
EQUAL, NEVER = 1e-9, -20.0
NO_CLEAREST = "none of the known explanations fits better than the others"


def rounded(wrong: Sequence[Wrong], tolerance: float) -> float | None:
    """The unit, 1 at most, of which all values are multiples, and several ones, next to what the oracle has."""
    values = {w.reported for w in wrong}
    if len(wrong) < LEAST or len(values) < 2:
        return None
    units = (u for u in UNITS if all(_multiple(v, u) for v in values) and _near(wrong, u, tolerance))
    return next(units, None)


def _multiple(value: float, unit: float) -> bool:
    return math.isfinite(value) and abs(value - unit * round(value / unit)) < EQUAL


def _near(wrong: Sequence[Wrong], unit: float, tolerance: float) -> bool:
    """Whether rounding could have made all of them."""
    return all(abs(e) <= unit / 2 + tolerance for w in wrong if (e := error(w.scored)) is not None)


def constant(answers: Sequence[Rescored], wrong: Sequence[Wrong], tolerance: float) -> tuple[str, str] | None:
    """One number in the place of most values, unless it may be made of theirs."""
    value, times = Counter(w.reported for w in wrong).most_common(1)[0] if wrong else (0.0, 0)
    there = [w for w in wrong if w.reported == value]
    if times < 2 or 2 * times <= len(wrong) or _made_of_them(answers, there, tolerance):
        return None
    if value == 0 and all(map(_after_samplers, there)):
        mix = "CLASS_MIX", "at temperature 0 they are 0, as after the samplers"
        return mix if times == len(wrong) and _spared(answers) else ("CORRUPT", NO_CLEAREST)
    some = "all of them are" if times == len(wrong) else f"{times} of the {len(wrong)} are"
    return "PLACEHOLDER", f"{some} {value}"


def _made_of_them(answers: Sequence[Rescored], same: Sequence[Wrong], tolerance: float) -> bool:
    """Whether one number may come of the oracle's values: equal ones, the same rounded, or one that is found again and again."""
    value = same[0].reported
    if value == 0 and not all(w.scored.token.alternatives for w in same):
        return False
    unit = next((u for u in UNITS if _multiple(value, u)), 0.0)
    if _near(same, unit, tolerance):
        return True
    own = [w.scored.true for w in same if w.scored.true is not None]
    found = sum(s.true is not None and abs(s.true - value) <= MOST for r in answers for s in r.tokens)
    return value != 0 and ((bool(own) and max(own) - min(own) <= 2 * tolerance) or len(same) < 2 + 2 * found)


def _after_samplers(wrong: Wrong) -> bool:
    """Whether the token is said to be the only one possible, as it is after the samplers at temperature 0."""
    listed = wrong.scored.token.alternatives or ()
    values = sorted((a.logprob for a in listed if a.logprob is not None), reverse=True)
    return wrong.of.answer.ask.sampling.temperature == 0 and values[:1] == [0.0] and all(v < NEVER for v in values[1:])


def _spared(answers: Sequence[Rescored]) -> bool:
    """Whether answers at other temperatures have drafted tokens too, and no 0."""
    warm = [r for r in answers if r.answer.ask.sampling.temperature > 0 and r.answer.accepted]
    values = [s.token.logprob for r in warm for s in r.tokens[1:] if s.token.logprob is not None]
    return len(values) >= LEAST and 0 not in values
