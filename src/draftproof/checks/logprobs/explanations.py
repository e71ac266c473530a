"""What are reported values really, where they are not the target's own?

A wrong name sends its reader the wrong way, so that an explanation is named only if it fits nearly all wrong values and the others
that do are refuted where it fits. The tolerance of a fit is the smaller one of logprobs/rescored (`tolerances`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from draftproof.checks.contexts import Scored
from draftproof.checks.logprobs.constants import NO_CLEAREST, constant, rounded
from draftproof.checks.logprobs.wrong import Rescored, Wrong, wrong_values
from draftproof.core.tokens import TokenRecord

LEAST, SHARE = 4, 0.9
"""An explanation fits if it does at so many places, and at so large a share of those where it says what the value would be."""
APART, AGAINST = 3, 4
"""One is clearer than another if so many values speak for it alone, and for each that speaks against it so many."""
TEMPERATURES = tuple(n / 20 for n in range(6, 61) if n != 20)
NO_PATTERN = "they fit no known pattern"


Fits = Sequence[bool | None]
"""Per wrong value whether an explanation fits it; None where that cannot be told."""
Explanation = Callable[[Sequence[Wrong], float], tuple[str, Fits]]
"""What fills the gap in its words, if there is one, and the fits within a tolerance in nats."""


def _beside(wrong: Wrong, row: Scored, token: TokenRecord, tolerance: float) -> bool | None:
    """Whether a row has the reported value for a token. Of one that is not listed it can only be said if it is too high."""
    value = row.of(token)
    if value is None:
        return False if wrong.reported > row.ceiling + tolerance else None
    return abs(wrong.reported - value) <= tolerance


def _shifted(lag: int, *, value: bool) -> Explanation:
    """The value of the neighbour `lag` tokens away, or the token's own in that one's row."""

    def fits(values: Sequence[Wrong], tolerance: float) -> tuple[str, Fits]:
        found: list[bool | None] = []
        for w in values:
            there = w.of.tokens[w.n + lag] if 0 <= w.n + lag < len(w.of.tokens) else None
            token = there.token if there and value else w.scored.token
            found.append(None if there is None else _beside(w, there, token, tolerance))
        return "", found

    return fits


def _draft(values: Sequence[Wrong], tolerance: float) -> tuple[str, Fits]:
    return "", [abs(w.reported - w.of.draft[w.n]) <= tolerance if w.n < len(w.of.draft) else None for w in values]


def _offset(values: Sequence[Wrong], tolerance: float) -> tuple[str, Fits]:
    errors = [None if w.scored.true is None else w.reported - w.scored.true for w in values]
    usual = median([e for e in errors if e is not None] or [0.0])
    return "", [None if e is None else abs(e - usual) <= tolerance for e in errors]


def _tempered(values: Sequence[Wrong], tolerance: float) -> tuple[str, Fits]:
    """At the one temperature that fits best."""
    gaps = np.array([_gaps(w, tolerance) for w in values]).reshape(len(values), len(TEMPERATURES))
    known = ~np.isnan(gaps)
    counts = known.sum(axis=0)
    middle = [float(np.median(gaps[known[:, i], i])) if counts[i] >= LEAST else math.inf for i in range(gaps.shape[1])]
    best = int(np.argmin(middle))
    fits = [bool(gap <= tolerance) if there else None for gap, there in zip(gaps[:, best], known[:, best], strict=True)]
    return f"{TEMPERATURES[best]:g}", fits


def _gaps(wrong: Wrong, tolerance: float) -> list[float]:
    """Per temperature how far the value is from the one there. NaN where what is not listed of the law could weigh too much."""
    row, true = wrong.scored.row, wrong.scored.true
    if true is None:
        return [math.nan] * len(TEMPERATURES)
    listed, found = np.array(row.logprobs), []
    for temperature in TEMPERATURES:
        mass = float(np.logaddexp.reduce(listed / temperature))
        told = row.complete or _unlisted(wrong.scored, temperature) <= tolerance * math.exp(mass)
        found.append(abs(wrong.reported - true / temperature + mass) if told else math.nan)
    return found


def _unlisted(scored: Scored, temperature: float) -> float:
    """The most that tokens which are not listed add to the mass: each has no more than the ceiling, all have what is left."""
    left = 1 - math.fsum(map(math.exp, scored.row.logprobs))
    return left * math.exp(scored.ceiling * (1 / temperature - 1)) if temperature < 1 else math.inf


EXPLANATIONS: tuple[tuple[str, str, Explanation], ...] = (
    ("SHIFTED", "they are the values of the next token", _shifted(1, value=True)),
    ("SHIFTED", "they are the values of the token before", _shifted(-1, value=True)),
    ("SHIFTED", "they are the token's values one position early", _shifted(-1, value=False)),
    ("SHIFTED", "they are the token's values one position late", _shifted(1, value=False)),
    ("DRAFTS_OWN", "they are the draft model's values", _draft),
    ("CLASS_MIX", "they are values at temperature {}", _tempered),
    ("CORRUPT", NO_PATTERN, _offset),
    *(("CORRUPT", NO_PATTERN, _shifted(lag, value=value)) for lag in (-2, 2) for value in (True, False)),
)


def explain(answers: Sequence[Rescored], limit: float, tolerance: float) -> tuple[str, str]:
    """The code and the words for what those reported values really are that are off by more than `limit`.

    tolerance: how far, in nats, two values may be apart that are the same.
    """
    wrong = list(wrong_values(answers, limit))
    if unit := rounded(wrong, tolerance):
        return "CORRUPT", f"they are rounded to multiples of {unit:g}"
    if one := constant(answers, wrong, tolerance):
        return one
    found = []
    for code, words, fits_of in EXPLANATIONS:
        gap, fits = fits_of(wrong, tolerance)
        if fits.count(True) >= max(LEAST, SHARE * (len(fits) - fits.count(None))):
            found.append((code, words.format(gap), fits))
    for code, words, fits in found:
        if all(_clearer(fits, other) for _, _, other in found if other is not fits):
            return code, words
    return "CORRUPT", NO_CLEAREST if found else NO_PATTERN


def _clearer(one: Fits, other: Fits) -> bool:
    """Whether enough values are fitted by the one explanation where the other is refuted, and few the other way round."""
    pairs = Counter(zip(one, other, strict=True))
    return pairs[True, False] >= max(APART, AGAINST * pairs[False, True])
