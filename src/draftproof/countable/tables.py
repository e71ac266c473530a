"""Pairs of transition tables, target and draft, in which every edge of a verification rule occurs.

table[t]: logits of the token after t. Vocabularies of three and four tokens: small enough to walk every branch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class TablePair:
    """target, draft: float64[vocab, vocab] logits, -inf where a token is impossible."""

    name: str
    about: str
    target: NDArray[np.float64]
    draft: NDArray[np.float64]


def _logits(*rows: tuple[float, ...]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return np.log(np.array(rows, dtype=np.float64))


_P = _logits((0.5, 0.3, 0.2), (0.1, 0.7, 0.2), (0.25, 0.35, 0.4))
_Q = _logits((0.2, 0.3, 0.5), (0.6, 0.3, 0.1), (0.3, 0.3, 0.4))

TABLES: tuple[TablePair, ...] = (
    TablePair("plain", "two laws that overlap", _P, _Q),
    TablePair("equal", "p = q", _P, _P),
    TablePair("nearly equal", "p = q up to rounding", _P, _P + np.array([3e-7, 0.0, -3e-7])),
    TablePair(
        "ties",
        "equal probabilities everywhere",
        _logits((1, 1, 1), (1, 1, 0.5), (2, 1, 1)),
        _logits((1, 1, 1), (0.5, 1, 1), (1, 1, 2)),
    ),
    TablePair(
        "zeros in p",
        "the draft proposes what the target never says",
        _logits((0.6, 0.4, 0), (0, 0.5, 0.5), (0.3, 0, 0.7)),
        _Q,
    ),
    TablePair(
        "zeros in q",
        "the draft never proposes what the target says",
        _P,
        _logits((0.6, 0.4, 0), (0, 0.5, 0.5), (0.3, 0, 0.7)),
    ),
    TablePair(
        "disjoint",
        "no token in common",
        _logits((0.6, 0.4, 0, 0), (0, 0, 0.3, 0.7), (1, 0, 0, 1), (0, 1, 2, 0)),
        _logits((0, 0, 0.5, 0.5), (0.8, 0.2, 0, 0), (0, 1, 1, 0), (3, 0, 0, 1)),
    ),
    TablePair("sure target", "p is one-hot", _logits((0, 1, 0), (0, 0, 1), (1, 0, 0)), _Q),
    TablePair("sure draft", "q is one-hot", _P, _logits((0, 0, 1), (1, 0, 0), (0, 1, 0))),
    TablePair(
        "both sure",
        "both one-hot, sometimes on the same token",
        _logits((0, 1, 0), (0, 0, 1), (1, 0, 0)),
        _logits((0, 1, 0), (1, 0, 0), (1, 0, 0)),
    ),
    TablePair(
        "far apart",
        "probabilities over twelve orders of magnitude",
        _logits((1, 1e-4, 1e-12), (1e-12, 1, 1e-6), (1e-3, 1e-9, 1)),
        _logits((1e-12, 1, 1e-4), (1, 1e-6, 1e-12), (1, 1, 1)),
    ),
)
