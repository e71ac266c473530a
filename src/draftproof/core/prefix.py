"""How far two texts, or lists of tokens, begin alike."""

from __future__ import annotations

from collections.abc import Sequence


def common_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    """Length of the longest common prefix; the types of the two need not be the same."""
    a, b = tuple(a), tuple(b)
    known, n = 0, min(len(a), len(b))
    while known < n:
        middle = (known + n + 1) // 2
        if a[known:middle] == b[known:middle]:
            known = middle
        else:
            n = middle - 1
    return known
