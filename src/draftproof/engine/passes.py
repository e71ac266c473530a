"""Passes of a model over rows of several answers: what they take, and into which of them the rows are divided."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

Sizes: TypeAlias = range | tuple[int, ...]
"""How many rows a pass may have, ascending from 1. A single answer's rows may be more."""
MUCH_LESS = 0.9
"""Single rows become dearer faster than batches do as texts grow: what is gained by them at the start is partly lost later."""


@dataclass(frozen=True, slots=True)
class RowCosts:
    """Seconds (or any other unit) of one pass with 1, 2, .. rows.

    rows[n - 1] is the cost of n rows, which need not rise with n. more: (n, cost) for larger n, ascending. Raises ValueError
    when a cost is not positive.
    """

    rows: tuple[float, ...] = (1.0,)
    more: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        if not self.rows or min(*self.rows, *(cost for _, cost in self.more), math.inf) <= 0:
            raise ValueError(f"costs must be positive, not {self}")

    def of(self, n: int) -> float:
        """Between two known numbers of rows the cost is on a line; beyond the last it grows by the mean step."""
        if n <= len(self.rows):
            return self.rows[n - 1]
        before = (len(self.rows), self.rows[-1])
        for after in self.more:
            if n <= after[0]:
                share = (n - before[0]) / (after[0] - before[0])
                return before[1] + share * (after[1] - before[1])
            before = after
        known, cost = before
        step = max(cost - self.rows[0], 0.0) / (known - 1) if known > 1 else 0.0
        return cost + (n - known) * step

    @property
    def known(self) -> int:
        """The most rows that were timed."""
        return self.more[-1][0] if self.more else len(self.rows)


@lru_cache(maxsize=1024)
def divided(
    pieces: tuple[tuple[int, int], ...], allowed: Sizes, outputs: int, costs: RowCosts | None
) -> tuple[int, ...]:
    """How many of the pieces, in their order, each pass takes. pieces: (rows, rows with logits) of each.

    As many as may be, `outputs` rows with logits at most; or what takes the least time by the costs, if that is much less.
    """
    full = tuple(_full(pieces, allowed, outputs))
    if costs is None:
        return full
    quick = _quickest(pieces, allowed, outputs, costs)
    return quick if taken(quick, pieces, costs) <= MUCH_LESS * taken(full, pieces, costs) else full


def _full(pieces: Sequence[tuple[int, int]], allowed: Sizes, outputs: int) -> Iterator[int]:
    start = 0
    while start < len(pieces):
        longest = max(_possible(pieces[start:], allowed, outputs))
        yield longest
        start += longest


def _possible(pieces: Sequence[tuple[int, int]], allowed: Sizes, outputs: int) -> Iterator[int]:
    """How many of the first pieces one pass may take; always 1."""
    yield 1
    rows, wanted = pieces[0]
    for n, piece in enumerate(pieces[1:], 2):
        rows, wanted = rows + piece[0], wanted + piece[1]
        if rows > allowed[-1] or wanted > outputs:
            return
        # the last layer is computed for rows with logits alone
        if rows in allowed and (wanted in allowed or not wanted):
            yield n


def _quickest(pieces: Sequence[tuple[int, int]], allowed: Sizes, outputs: int, costs: RowCosts) -> tuple[int, ...]:
    """From the last piece to the first: the best way to read those from here on."""
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for start in range(len(pieces) - 1, -1, -1):
        ways = []
        for n in _possible(pieces[start:], allowed, outputs):
            seconds, calls = best[-n]
            ways.append((costs.of(sum(rows for rows, _ in pieces[start : start + n])) + seconds, (n, *calls)))
        best.append(min(ways))
    return best[-1][1]


def taken(calls: Sequence[int], pieces: Sequence[tuple[int, int]], costs: RowCosts) -> float:
    """What passes take that have so many of the pieces each."""
    rest = iter(pieces)
    return math.fsum(costs.of(sum(rows for rows, _ in islice(rest, n))) for n in calls)


@lru_cache(maxsize=1024)
def of_single_rows(answers: int, allowed: Sizes, costs: RowCosts) -> float:
    """What a row for each of so many answers takes."""
    rows = ((1, 1),) * answers
    return taken(divided(rows, allowed, answers, costs), rows, costs)


def cost_of_limit(allowed: Sizes, answers: int, costs: RowCosts) -> float:
    """How many times as long a row for each of up to so many answers takes, at most, if passes have the allowed sizes only.

    Companies of more answers than rows were timed are not looked at.
    """
    companies = range(1, min(answers, costs.known) + 1)
    return max(of_single_rows(n, allowed, costs) / of_single_rows(n, range(1, n + 1), costs) for n in companies)
