from __future__ import annotations

import itertools

import pytest

from draftproof.engine.passes import RowCosts, Sizes, cost_of_limit, divided, of_single_rows, taken

GEMMA = RowCosts((12.4, 45.2, 74.4, 60.7, 86.6, 70.4, 100.6, 68.1))
"""Milliseconds of Gemma-3-270m with one thread."""
SMOLLM2 = RowCosts(
    (7.1, 17.5, 25.3, 28.7, 37.3, 38.0, 43.1, 44.9),
    ((12, 66.0), (16, 84.6), (20, 104.0), (24, 125.0), (28, 146.0), (32, 164.0)),
)
EXACT = (*range(1, 9), 12, 16, 20, 24, 28, 32)


def test_costs_between_known_ones_and_beyond() -> None:
    costs = RowCosts((1.0, 1.5, 3.0))
    assert [costs.of(n) for n in range(1, 6)] == [1.0, 1.5, 3.0, 4.0, 5.0]
    assert RowCosts().of(9) == 1.0
    more = RowCosts((1.0, 1.5, 3.0), ((5, 4.0), (11, 11.0)))
    assert [more.of(n) for n in range(1, 7)] == pytest.approx([1.0, 1.5, 3.0, 3.5, 4.0, 4.0 + 7 / 6])
    assert more.of(21) == pytest.approx(21.0)
    assert [costs.known, more.known] == [3, 11]
    for bad in ((1.0, 0.0), ()):
        with pytest.raises(ValueError, match="positive"):
            RowCosts(bad)
    with pytest.raises(ValueError, match="positive"):
        RowCosts((1.0,), ((4, -1.0),))


@pytest.mark.parametrize(
    ("rows", "allowed", "costs", "passes"),
    [
        ([1] * 5, range(1, 3), None, (2, 2, 1)),
        ([3, 3], (1,), None, (1, 1)),
        ([1, 3, 2, 2], range(1, 5), None, (2, 2)),
        ([2, 2, 2], (1, 2, 6), None, (3,)),
        ([2, 2, 2, 2], (1, 2, 6), None, (3, 1)),
        ([1, 1], range(1, 9), GEMMA, (1, 1)),
        ([1] * 3, range(1, 9), GEMMA, (1, 1, 1)),
        ([1] * 6, range(1, 9), GEMMA, (6,)),  # 70.4, where six of one row take 74.4
        ([1] * 8, range(1, 9), GEMMA, (8,)),
        ([1] * 8, range(1, 8), GEMMA, (6, 1, 1)),
        ([2, 2], range(1, 9), GEMMA, (2,)),
        ([9, 1], range(1, 17), GEMMA, (2,)),
        ([1] * 40, range(1, 65), GEMMA, (40,)),
        ([1] * 16, range(1, 9), SMOLLM2, (8, 8)),
        ([1] * 16, EXACT, SMOLLM2, (16,)),
        ([1] * 9, EXACT, SMOLLM2, (8, 1)),
        ([1] * 10, EXACT, SMOLLM2, (8, 2)),
        ([3] * 8, EXACT, SMOLLM2, (8,)),
        ([5, 5, 5], EXACT, SMOLLM2, (1, 1, 1)),
    ],
)
def test_passes_have_fewer_rows_than_they_may_where_that_takes_much_less_time(
    rows: list[int], allowed: Sizes, costs: RowCosts | None, passes: tuple[int, ...]
) -> None:
    assert sorted(divided(tuple((n, n) for n in rows), allowed, 64, costs)) == sorted(passes)


def test_no_pass_has_more_rows_with_logits_than_there_is_room_for() -> None:
    assert divided(((4, 1), (4, 1), (4, 1)), range(1, 99), 2, None) == (2, 1)
    assert divided(((4, 1), (4, 1), (4, 1)), range(1, 99), 2, SMOLLM2) == (2, 1)


def test_rows_with_logits_are_a_size_that_is_allowed_too() -> None:
    assert divided(((2, 1),) * 10, (*range(1, 9), 20), 64, None) == (4, 4, 2)
    assert divided(((2, 1),) * 10, (*range(1, 9), 10, 20), 64, None) == (10,)
    assert divided(((2, 0),) * 10, (*range(1, 9), 20), 64, None) == (10,)


def test_no_division_takes_longer_than_full_passes_and_none_has_a_size_that_is_not_allowed() -> None:
    """Every company of up to 12 pieces of one length, at every limit."""
    limits: list[Sizes] = [range(1, most + 1) for most in range(3, 17)]
    for n, tokens, allowed in itertools.product(range(1, 13), range(1, 4), [*limits, (1, 2, 3, 9, 12), EXACT]):
        pieces = ((tokens, tokens),) * n
        for costs in (GEMMA, SMOLLM2):
            full, some = (divided(pieces, allowed, 64, c) for c in (None, costs))
            for passes in (full, some):
                assert sum(passes) == n
                assert all(m * tokens in allowed for m in passes)
            assert taken(some, pieces, costs) <= taken(full, pieces, costs)


def test_what_a_limit_costs_is_seen_in_the_company_for_which_it_costs_most() -> None:
    limited = range(1, 8)
    assert cost_of_limit(limited, 7, GEMMA) == 1
    assert cost_of_limit(limited, 8, GEMMA) == cost_of_limit(limited, 40, GEMMA)
    assert cost_of_limit(limited, 8, GEMMA) == pytest.approx((70.4 + 2 * 12.4) / 68.1)
    assert cost_of_limit((1,), 4, RowCosts((2.0, 3.0, 4.0, 4.0))) == 2
    assert cost_of_limit(EXACT, 8, SMOLLM2) == 1
    assert cost_of_limit(EXACT, 16, SMOLLM2) == pytest.approx((44.9 + 25.3) / (44.9 + 21.1 * 3 / 4))  # eleven


def test_single_rows_of_no_answer_take_no_time() -> None:
    assert of_single_rows(0, EXACT, SMOLLM2) == 0
    assert of_single_rows(8, EXACT, SMOLLM2) == 44.9
