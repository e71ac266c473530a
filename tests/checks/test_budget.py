from __future__ import annotations

from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.stopping.budget import Evidence, judge
from draftproof.core.ask import Ask, Completion
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict


def answer(
    asked: int, *, ids: int | None, usage: int | None, entries: int, finish: str = "length", alternatives: int = 1
) -> Completion:
    tokens = [made.true_token(n % 3) for n in range(entries)]
    whole = made.answer(tokens, ids=range(ids or 0), usage=usage, max_tokens=asked, finish=finish, drafted=3)
    whole = replace(whole, ask=Ask(made.PROMPT, asked, alternatives), completion_tokens=usage)
    return whole if ids is not None else replace(whole, token_ids=None)


def judged(*answers: Completion) -> Judgement:
    return judge(Evidence(made.LIVE_ON, answers), Terms())


@pytest.mark.parametrize(
    ("ids", "usage", "entries", "codes"),
    [
        (None, 4, 4, ()),
        (None, 5, 4, ("OVERRUN",)),
        (None, 3, 3, ("SHORT",)),
        (4, None, 4, ()),
        (3, None, 3, ("SHORT",)),
        (4, None, 3, ("MISCOUNT",)),
        (None, None, 4, ()),
        (None, None, 3, ("SHORT",)),
        (4, 4, 3, ("MISCOUNT",)),
    ],
)
def test_every_count_that_is_given_is_held_against_the_budget_of_four(
    ids: int | None, usage: int | None, entries: int, codes: tuple[str, ...]
) -> None:
    assert judged(answer(4, ids=ids, usage=usage, entries=entries)).codes == codes


@pytest.mark.parametrize(
    ("ids", "usage", "codes"), [(5, 6, ()), (6, 5, ()), (4, 6, ("MISCOUNT",)), (6, 4, ("MISCOUNT",))]
)
def test_an_end_token_is_one_token(ids: int, usage: int, codes: tuple[str, ...]) -> None:
    assert judged(answer(9, ids=ids, usage=usage, entries=ids, finish="stop")).codes == codes


def test_entries_that_were_not_asked_for_are_not_missed() -> None:
    assert judged(answer(4, ids=4, usage=4, entries=0, alternatives=0)).verdict is Verdict.PASS
    assert judged(answer(4, ids=4, usage=4, entries=0)).verdict is Verdict.PASS
    assert judged(answer(4, ids=4, usage=4, entries=2, alternatives=0)).verdict is Verdict.PASS
