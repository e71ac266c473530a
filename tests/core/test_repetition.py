from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftproof.core.repetition import dry, penalise, repeats
from draftproof.core.sampling import NEUTRAL, Sampling

letters = st.lists(st.integers(0, 2), min_size=1, max_size=14)


def common_suffix(a: list[int], b: list[int]) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[len(a) - 1 - n] == b[len(b) - 1 - n]:
        n += 1
    return n


@given(window=letters, longest=st.integers(0, 9))
def test_repeats_are_common_suffixes(window: list[int], longest: int) -> None:
    expected = [min(common_suffix(window[: i + 1], window), longest) for i in range(len(window) - 1)]
    assert repeats(np.array(window), longest).tolist() == expected


def test_dry_takes_the_longest_repetition_that_a_token_would_carry_on() -> None:
    """The context ends in 0 1, seen twice: once before 2 (after the same 3), once before 4."""
    sampling = Sampling(dry_multiplier=1.0, dry_base=2.0, dry_allowed_length=2)
    out = dry(np.zeros(6), [3, 0, 1, 2, 5, 0, 1, 4, 3, 0, 1], sampling)
    assert out.tolist() == [0, 0, -2.0, 0, -1.0, 0]


def test_dry_breakers_end_a_repetition_and_are_never_punished() -> None:
    sampling = Sampling(dry_multiplier=1.0, dry_base=2.0, dry_allowed_length=1, dry_breakers=((9,), (0, 1)))
    assert not dry(np.zeros(10), [3, 0, 1, 2, 3, 0, 1], sampling).any()
    single = Sampling(dry_multiplier=1.0, dry_base=2.0, dry_allowed_length=1, dry_breakers=((2,),))
    assert not dry(np.zeros(4), [0, 1, 2, 0, 1], single).any()


def test_dry_grows_no_further_than_float32() -> None:
    sampling = Sampling(dry_multiplier=1.0, dry_base=2.0, dry_allowed_length=1)
    assert np.isfinite(dry(np.zeros(2), [1] * 2000, sampling)).all()


def test_penalties_count_in_the_window_only() -> None:
    sampling = Sampling(repeat_penalty=2.0, frequency_penalty=0.5, presence_penalty=0.25, repeat_last_n=3)
    out = penalise(np.array([1.0, -1.0, 4.0, 3.0]), [3, 0, 1, 1], sampling)
    assert out.tolist() == pytest.approx([0.5 - 0.75, -2.0 - 1.25, 4.0, 3.0])


def test_neutral_penalties_leave_the_very_array() -> None:
    row = np.zeros(3)
    assert penalise(row, [0, 1], NEUTRAL) is row
    assert dry(row, [0, 1], NEUTRAL) is row
