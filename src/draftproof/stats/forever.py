"""Tests that may go on for ever without spending more than their alpha."""

from __future__ import annotations

import math

import numpy as np

_BASEL = 6 / math.pi**2


def alpha_at(look: int, alpha: float) -> float:
    """The part of `alpha` for the look of that number, from 1 on: alpha 6 / (pi look)^2. All looks together spend alpha."""
    return alpha * _BASEL / look**2


def accumulated(log_wealth: float, log_e: float, look: int) -> float:
    """Log wealth after one more e-value: e (wealth + 6 / (pi look)^2).

    The wealth is a mixture of products of e-values, one begun at each look, with weights that add up to 1: at every time at once
    it is 1/alpha or more with probability at most alpha, if nothing ever changed. Evidence that gathered before a change is
    not lost in what came before it (e-detectors: Shin, Ramdas and Rinaldo 2022, arXiv 2203.03532). Begin with -inf.
    """
    return float(log_e + np.logaddexp(log_wealth, math.log(_BASEL / look**2)))
