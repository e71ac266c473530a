"""How far two texts, or lists of tokens, begin alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from draftproof.core.prefix import common_prefix


def test_any_two_sequences() -> None:
    assert [common_prefix([1, 2, 3], other) for other in ([], (1, 2), [1, 2, 3, 4], (1, 9, 3), [9])] == [0, 2, 3, 1, 0]
    assert common_prefix("tool_call", "tools") == 4


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_what_both_begin_with_and_no_more(common: list[int], a: list[int], b: list[int]) -> None:
    n = common_prefix(common + a, common + b)
    assert n >= len(common)
    assert (common + a)[:n] == (common + b)[:n]
    assert (common + a)[: n + 1] != (common + b)[: n + 1] or n == len(common + a) == len(common + b)
