from __future__ import annotations

from collections.abc import Sequence

import pytest

from draftproof.engine.backends.llama_batches import (
    MOST_JOINED,
    Piece,
    cut,
    cut_to_sizes,
    group,
)
from draftproof.engine.passes import RowCosts, Sizes


def piece(start: int, n: int, rows: int, *, feed: int = 0, sequence: int = 0) -> Piece:
    return Piece(feed, sequence, start, range(start, start + n), rows)


def shapes(pieces: Sequence[Piece]) -> list[tuple[int, int, int]]:
    assert all(list(p.tokens) == list(range(p.start, p.start + len(p.tokens))) for p in pieces)
    return [(p.start, len(p.tokens), p.rows) for p in pieces]


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        (piece(0, 3, 1), [(0, 3, 1)]),
        (piece(0, 8, 1), [(0, 8, 1)]),
        (piece(0, 9, 1), [(0, 8, 0), (8, 1, 1)]),
        (piece(0, 9, 2), [(0, 8, 1), (8, 1, 1)]),
        (piece(5, 12, 1), [(5, 3, 0), (8, 8, 0), (16, 1, 1)]),
        (piece(5, 12, 0), [(5, 3, 0), (8, 8, 0), (16, 1, 0)]),
        (piece(6, 8, 8), [(6, 2, 2), (8, 4, 4), (12, 2, 2)]),
        (piece(0, 16, 9), [(0, 8, 1), (8, 4, 4), (12, 4, 4)]),
    ],
)
def test_cuts_lie_at_multiples_whatever_the_start(whole: Piece, parts: list[tuple[int, int, int]]) -> None:
    assert shapes(cut(whole, chunk=8, outputs=4)) == parts


def test_outputs_need_not_divide_the_chunk() -> None:
    parts = [(0, 4, 4), (4, 4, 4), (8, 2, 2), (10, 4, 4), (14, 4, 4), (18, 2, 2), (20, 1, 1)]
    assert shapes(cut(piece(0, 21, 21), chunk=10, outputs=4)) == parts
    assert shapes(cut(piece(5, 16, 16), chunk=10, outputs=4)) == [(5, 3, 3), *parts[2:]]


def test_a_prompt_read_in_parts_is_cut_where_it_is_cut_when_read_at_once() -> None:
    at_once = {p.start for p in cut(piece(0, 30, 1), chunk=8, outputs=4)}
    in_parts = {p.start for p in cut(piece(0, 16, 0), 8, 4) + cut(piece(16, 14, 1), 8, 4)}
    assert in_parts == at_once


def grouped(
    lengths: Sequence[int],
    allowed: Sizes = range(1, 33),
    outputs: int = 32,
    *,
    unequal: bool = False,
    costs: RowCosts | None = None,
) -> list[list[int]]:
    pieces = [piece(0, n, n, feed=i, sequence=len(lengths) - 1 - i) for i, n in enumerate(lengths)]
    calls = group(pieces, allowed, outputs, unequal=unequal, costs=costs)
    assert sorted(p.feed for call in calls for p in call) == list(range(len(lengths)))
    assert all([p.sequence for p in call] == sorted(p.sequence for p in call) for call in calls)
    return [sorted((len(p.tokens) for p in call), reverse=True) for call in calls]


def test_equal_pieces_share_a_call_and_long_ones_are_alone() -> None:
    assert grouped([1, 1, 1]) == [[1, 1, 1]]
    assert grouped([4, 4, 1]) == [[4, 4], [1]]
    assert grouped([4, 1, 4], unequal=True) == [[4, 4, 1]]
    assert grouped([MOST_JOINED + 1, 1, MOST_JOINED]) == [[MOST_JOINED + 1], [1], [MOST_JOINED]]


def test_no_shared_call_exceeds_the_rows_or_outputs() -> None:
    assert grouped([1] * 5, allowed=range(1, 3)) == [[1, 1], [1, 1], [1]]
    assert grouped([2] * 3, outputs=4) == [[2, 2], [2]]
    assert grouped([3, 3], allowed=(1,)) == [[3], [3]]


def test_sequences_with_a_gap_between_them_are_read_apart() -> None:
    """libllama would do it by itself, and 2 of 4 rows need not be exact where 4 are."""
    pieces = [piece(0, 1, 1, feed=i, sequence=i) for i in (0, 1, 3, 4, 5)]
    calls = group(pieces, range(1, 9), 8, unequal=False)
    assert [[p.sequence for p in call] for call in calls] == [[0, 1], [3, 4, 5]]
    assert len(group(pieces, range(1, 9), 8, unequal=True)) == 1


def test_a_piece_of_a_size_that_is_not_allowed_is_alone() -> None:
    """Ten rows alone have other bits than twenty, where twenty are exact and ten are not."""
    assert grouped([10, 10], (1, 2, 20)) == [[10], [10]]
    assert grouped([2] * 10, (1, 2, 20)) == [[2] * 10]


def test_calls_have_fewer_rows_where_that_takes_less_time() -> None:
    assert grouped([2, 1, 1], costs=RowCosts((1.0, 3.0))) == [[2], [1], [1]]


def test_the_parts_of_a_sequence_stay_in_order() -> None:
    long = cut(piece(0, 18, 1, sequence=1), chunk=8, outputs=4)
    short = piece(4, 2, 2, feed=1)
    calls = group([*long, short], range(1, 9), 8, unequal=False)
    assert [[(p.feed, p.start) for p in call] for call in calls] == [[(0, 0)], [(0, 8)], [(1, 4), (0, 16)]]


def test_a_draft_is_cut_to_sizes_that_are_exact() -> None:
    parts = cut_to_sizes(piece(100, 30, 30), lambda n: max(size for size in (1, 2, 3, 8, 16) if size <= n))
    assert shapes(parts) == [(100, 16, 16), (116, 8, 8), (124, 3, 3), (127, 3, 3)]
