"""Is your verification rule lossless? Every branch of it on two small models, multiplied out.

python examples/prove_my_rule.py
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from draftproof.verify import distance


def one_threshold_for_all(p: np.ndarray, draft: Sequence[int], q: np.ndarray, coin: Any) -> list[int]:  # noqa: ARG001
    """A tempting shortcut: take what the target finds likely enough, otherwise draw anew."""
    out: list[int] = []
    for row, token in zip(p, draft, strict=False):
        if row[token] < 0.3:
            return [*out, coin.pick(row)]
        out.append(token)
    return [*out, coin.pick(p[-1])]


def rejection(p: np.ndarray, draft: Sequence[int], q: np.ndarray, coin: Any) -> list[int]:
    """Leviathan, Kalman and Matias 2023, algorithm 1."""
    out: list[int] = []
    for p_row, q_row, token in zip(p, q, draft, strict=False):
        if not coin.flip(p_row[token] / q_row[token]):
            return [*out, coin.pick(np.maximum(p_row - q_row, 0))]
        out.append(token)
    return [*out, coin.pick(p[-1])]


if __name__ == "__main__":
    target, draft = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 5))
    for rule in (rejection, one_threshold_for_all):
        sys.stdout.write(
            f"{rule.__name__}: total variation {distance(rule, target, draft):.1e} from the target's law\n"
        )
