from __future__ import annotations

import pytest

from draftproof.core.ask import Ask, Completion
from draftproof.report.plots.drafting import steps


def streamed(arrivals: list[float], tokens: tuple[int, ...] = ()) -> Completion:
    ask = Ask("x", len(arrivals), stream=True)
    return Completion(ask, 1, "/completion", 200, arrivals=tuple(arrivals), event_tokens=tokens)


def test_tokens_one_by_one_are_steps_of_one() -> None:
    assert steps([streamed([0.02 * n for n in range(12)])]) == {1: 12}


def test_events_right_behind_one_another_are_one_step() -> None:
    assert steps([streamed([n // 3 * 0.06 + n % 3 * 1e-4 for n in range(12)])]) == {3: 4}


def test_events_of_several_tokens_count_them_all() -> None:
    assert steps([streamed([0.02 * n for n in range(8)], (1, 3, 1, 1, 2, 1, 1, 1))]) == {1: 6, 2: 1, 3: 1}


@pytest.mark.parametrize("arrivals", [[], [0.1], [0.1] * 7])
def test_too_few_events_are_passed_over(arrivals: list[float]) -> None:
    assert steps([streamed(arrivals)]) == {}


def test_events_of_one_moment_are_one_step() -> None:
    assert steps([streamed([0.0] * 9)]) == {9: 1}
