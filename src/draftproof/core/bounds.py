"""How an upper bound is written: never tighter, and never surer, than it is."""

from __future__ import annotations

import math


def at_most(bound: float, digits: int = 2) -> str:
    """A bound above 0 in so many significant digits, rounded up; more than the float's own error (1e-9) counts."""
    if bound <= 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(bound)) - digits + 1)
    return f"{math.ceil(bound / step * (1 - 1e-9)) * step:.{digits}g}"


def sureness(error: float) -> str:
    """With what probability a bound holds that is wrong with probability `error`: "99.95%"."""
    return f"{100 * (1 - error):.6g}%"
