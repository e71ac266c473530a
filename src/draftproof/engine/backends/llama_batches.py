"""How tokens to be read are cut and grouped into calls of libllama, so that the same tokens give the same numbers.

The kernels that libllama chooses, and with them the last bits of the logits, depend on how many rows a call has. So a
prompt is cut at multiples of a fixed size counted from the start of the sequence, whatever else is read at the time, and
only batches with equally many rows for each sequence are put together: libllama splits the others by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

Seconds = tuple[float, ...]
"""seconds[n - 1]: what a call of n rows takes."""
MOST_JOINED = 16
"""A piece with more rows gains nothing from company: its own rows keep the processor busy."""
MUCH_LESS = 0.9
"""Single rows become dearer faster than batches do as texts grow: what is gained by them at the start is partly lost later."""


class Piece(NamedTuple):
    """Part of what one sequence reads: `tokens` from position `start` on, with logits after the last `rows` of them.

    `feed` is the number of the request that it belongs to, `sequence` that of the sequence.
    """

    feed: int
    sequence: int
    start: int
    tokens: Sequence[int]
    rows: int


def cut(piece: Piece, chunk: int, outputs: int) -> list[Piece]:
    """Cuts at multiples of `chunk`; a part that wants more than `outputs` rows, at every `outputs` positions from there too.

    No part has more than `chunk` tokens, or wants more than `outputs` rows.
    """
    if piece.start % chunk + len(piece.tokens) <= chunk and piece.rows <= outputs:
        return [piece]
    parts: list[Piece] = []
    for whole in _every(piece, chunk, 0):
        origin = whole.start - whole.start % chunk
        parts += [whole] if whole.rows <= outputs else _every(whole, outputs, origin)
    return parts


def _every(piece: Piece, size: int, origin: int) -> list[Piece]:
    end = piece.start + len(piece.tokens)
    first_row = end - piece.rows
    parts, start = [], piece.start
    while start < end:
        stop = min(end, start + size - (start - origin) % size)
        tokens = piece.tokens[start - piece.start : stop - piece.start]
        parts.append(Piece(piece.feed, piece.sequence, start, tokens, max(0, stop - max(start, first_row))))
        start = stop
    return parts


def cut_to_sizes(piece: Piece, fits: Callable[[int], int]) -> list[Piece]:
    """Cuts a piece that wants all its rows. fits: the largest size up to the given one, both > 0."""
    parts, done = [], 0
    while done < len(piece.tokens):
        size = fits(len(piece.tokens) - done)
        parts.append(Piece(piece.feed, piece.sequence, piece.start + done, piece.tokens[done : done + size], size))
        done += size
    return parts


def group(
    pieces: Iterable[Piece], most_rows: int, outputs: int, *, unequal: bool, seconds: Seconds = ()
) -> list[list[Piece]]:
    """Calls, in the order to make them; the pieces of a sequence stay in order, and each is in a call of its own.

    Short pieces are put together: those of equal length only (any, if `unequal`), at most `most_rows` rows and `outputs`
    rows with logits in all, and fewer where that is known to take less time. The sequences of a call ascend.
    """
    calls: list[list[Piece]] = []
    joinable: dict[int, list[Piece]] = {}
    last = {piece.feed: piece for piece in pieces}
    for piece in pieces:
        if piece is last[piece.feed] and len(piece.tokens) <= min(MOST_JOINED, most_rows):
            joinable.setdefault(0 if unequal else len(piece.tokens), []).append(piece)
        else:
            calls.append([piece])
    for same in joinable.values():
        same.sort(key=lambda piece: piece.sequence)
        sizes = tuple((len(piece.tokens), piece.rows) for piece in same)
        rest = iter(same)
        calls += [list(islice(rest, n)) for n in divided(sizes, most_rows, outputs, seconds)]
    return calls


@lru_cache(maxsize=1024)
def divided(sizes: tuple[tuple[int, int], ...], most_rows: int, outputs: int, seconds: Seconds) -> tuple[int, ...]:
    """How many of the pieces, in their order, each call takes. sizes: (tokens, rows with logits) of each piece.

    As many as fit; or those calls of as many rows as were timed that take the least time, if that is much less.
    """
    full = _full(sizes, most_rows, outputs)
    quick = _quickest(sizes, most_rows, outputs, seconds)
    return quick if quick and _time(quick, sizes, seconds) <= MUCH_LESS * _time(full, sizes, seconds) else full


def _full(sizes: Sequence[tuple[int, int]], most_rows: int, outputs: int) -> tuple[int, ...]:
    calls: list[int] = []
    room = wanted = 0
    for tokens, rows in sizes:
        if not calls or tokens > room or rows > wanted:
            calls.append(0)
            room, wanted = most_rows, outputs
        calls[-1] += 1
        room -= tokens
        wanted -= rows
    return tuple(calls)


def _quickest(
    sizes: Sequence[tuple[int, int]], most_rows: int, outputs: int, seconds: Seconds
) -> tuple[int, ...] | None:
    """None where a piece alone has more rows than were timed."""
    best: list[tuple[float, tuple[int, ...]] | None] = [(0.0, ())]
    most_rows = min(most_rows, len(seconds))
    for end in range(1, len(sizes) + 1):
        ways = []
        tokens = rows = 0
        for start in range(end - 1, -1, -1):
            tokens, rows = tokens + sizes[start][0], rows + sizes[start][1]
            if tokens > most_rows or rows > outputs:
                break
            if (before := best[start]) is not None:
                ways.append((before[0] + seconds[tokens - 1], (*before[1], end - start)))
        best.append(min(ways, default=None))
    return None if best[-1] is None else best[-1][1]


def _time(calls: Sequence[int], sizes: Sequence[tuple[int, int]], seconds: Seconds) -> float:
    """More rows than were timed take as long each as those of the largest call that was."""
    rest = iter(sizes)
    rows = [sum(tokens for tokens, _ in islice(rest, n)) for n in calls]
    known = len(seconds)
    return math.fsum(seconds[n - 1] if n <= known else n * seconds[-1] / known for n in rows)


def cost_of_limit(most_rows: int, pieces: int, seconds: Seconds) -> float:
    """How many times as long up to so many pieces of one row take, at most, if no call has more than `most_rows`; of as many
    pieces as rows were timed.
    """
    found = [1.0]
    for n in range(1, min(pieces, len(seconds)) + 1):
        rows = ((1, 1),) * n
        limited, free = (_time(divided(rows, most, n, seconds), rows, seconds) for most in (most_rows, n))
        found.append(limited / free)
    return max(found)


def same_start(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens the two begin with alike."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
