"""Bounds as they are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftproof.core.bounds import at_most, sureness


@pytest.mark.parametrize(
    ("bound", "digits", "said"),
    [
        (0.01523, 2, "0.016"),
        (0.01523, 3, "0.0153"),
        (0.015, 2, "0.015"),
        (0.015000001, 3, "0.0151"),
        (0.3 - 0.1, 2, "0.2"),
        (1.0, 2, "1"),
        (0.0996, 2, "0.1"),
        (0.00041, 1, "0.0005"),
        (0.0, 2, "0"),
    ],
)
def test_a_bound_is_rounded_up(bound: float, digits: int, said: str) -> None:
    assert at_most(bound, digits) == said


@given(st.floats(1e-9, 1.0), st.integers(1, 4))
def test_what_is_said_is_never_less_and_hardly_more(bound: float, digits: int) -> None:
    said = float(at_most(bound, digits))
    assert bound * (1 - 1e-8) <= said <= bound * (1 + 10 ** (1 - digits)) * (1 + 1e-8)


@pytest.mark.parametrize(("error", "said"), [(1e-3, "99.9%"), (5e-4, "99.95%"), (1.25e-4, "99.9875%"), (0.05, "95%")])
def test_how_sure_a_bound_is(error: float, said: str) -> None:
    assert sureness(error) == said
