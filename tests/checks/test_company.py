"""Requests beside another one, for as long as that takes."""

from __future__ import annotations

import time
from typing import cast

from draftproof.checks import examples as made
from draftproof.checks.randomness.company import accompanied, company, together
from draftproof.core.ask import Ask, Completion
from draftproof.core.probe import Probe

ASK, MATE = Ask((1,), 9, seed=1), Ask((2,), 9, seed=5)


class Slow:
    """The request takes ten times as long as those beside it, as one whose logprobs a gateway works out."""

    def __init__(self) -> None:
        self.seeds: list[int | None] = []

    def ask(self, ask: Ask) -> Completion:
        time.sleep(0.2 if ask.prompt == ASK.prompt else 0.02)
        if ask.prompt == MATE.prompt:
            self.seeds.append(ask.seed)
        return made.answer()


def test_mates_go_on_until_the_answer_is_there() -> None:
    once = together(cast("Probe", Slow()), [ASK, MATE])
    assert company(once, 0) < 0.5
    slow = Slow()
    answers = accompanied(cast("Probe", slow), ASK, [MATE], 100)
    assert company(answers, 0) > 0.5
    assert 3 <= len(answers) - 1 < 100
    assert slow.seeds == [5 + n for n in range(len(answers) - 1)]


def test_mates_are_asked_for_no_more_than_so_often() -> None:
    assert len(accompanied(cast("Probe", Slow()), ASK, [MATE, MATE], 2)) == 1 + 2 * 2
