"""How tokens to be read are cut and grouped into calls of libllama, so that the same tokens give the same numbers.

The kernels that libllama chooses, and with them the last bits of the logits, depend on how many rows a call has. So a
prompt is cut at multiples of a fixed size counted from the start of the sequence, whatever else is read at the time, and
only batches with equally many rows for each sequence, and sequences without gaps, are put together: libllama splits the others by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import NamedTuple

from draftproof.engine.passes import RowCosts, Sizes, divided

MOST_JOINED = 16
"""A piece with more rows gains nothing from company: its own rows keep the processor busy."""


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
    pieces: Iterable[Piece], allowed: Sizes, outputs: int, *, unequal: bool, costs: RowCosts | None = None
) -> list[list[Piece]]:
    """Calls, in the order to make them; the pieces of a sequence stay in order, and each is in a call of its own.

    Short pieces of an allowed size are put together: those of equal length only (any, if `unequal`), to allowed numbers of rows
    with at most `outputs` logits, and fewer where that is known to take less time. The sequences of a call ascend.
    """
    calls: list[list[Piece]] = []
    joinable: dict[int, list[Piece]] = {}
    last = {piece.feed: piece for piece in pieces}
    for piece in pieces:
        if piece is last[piece.feed] and len(piece.tokens) <= MOST_JOINED and len(piece.tokens) in allowed:
            joinable.setdefault(0 if unequal else len(piece.tokens), []).append(piece)
        else:
            calls.append([piece])
    for same in joinable.values():
        same.sort(key=lambda piece: piece.sequence)
        for run in [same] if unequal else _without_gaps(same):
            sizes = tuple((len(piece.tokens), piece.rows) for piece in run)
            rest = iter(run)
            calls += [list(islice(rest, n)) for n in divided(sizes, allowed, outputs, costs)]
    return calls


def _without_gaps(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Parts of pieces, whose sequences ascend, in which they ascend by 1. libllama splits calls at the gaps, to any sizes."""
    for _, part in groupby(enumerate(pieces), key=lambda at: at[1].sequence - at[0]):
        yield [piece for _, piece in part]
