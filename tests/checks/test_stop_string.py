from __future__ import annotations

from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.stopping.endings import Endings
from draftproof.checks.stopping.stop_string import Evidence, judge
from draftproof.checks.stopping.trials import Trial
from draftproof.core.sampling import GREEDY
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

FREE = made.answer([made.true_token(i) for i in (0, 1, 0, 2, 3, 1, 2, 0)], sampling=GREEDY, drafted=6, accepted=4)
"""The text is `abacdbca`."""


def trial(stop: str, text: str, *, entries: int, ids: int | None, usage: int | None) -> Trial:
    answer = replace(
        FREE,
        ask=replace(FREE.ask, stop=(stop,)),
        text=text,
        tokens=FREE.tokens[:entries],
        token_ids=None if ids is None else (FREE.token_ids or ())[:ids],
        completion_tokens=usage,
        finish="stop",
    )
    return Trial(stop, FREE, answer)


def judged(*trials: Trial, ended: object = None) -> Judgement:
    return judge(Evidence(made.LIVE_ON, trials, ended=ended), Terms())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entries", "ids", "usage", "codes"),
    [
        (3, 3, 3, ()),
        (5, 5, 5, ()),
        (6, 5, 5, ("STOP_PASSED",)),
        (5, 6, 5, ("STOP_PASSED",)),
        (5, 5, 6, ("MISCOUNT",)),
        (2, 5, 5, ("MISCOUNT",)),
        (5, 2, 5, ("MISCOUNT",)),
        (5, None, 5, ()),
        (5, None, 6, ("MISCOUNT",)),
        (5, 6, None, ("STOP_PASSED",)),
    ],
)
def test_counts_lie_between_the_tokens_before_the_string_and_those_that_complete_it(
    entries: int, ids: int | None, usage: int | None, codes: tuple[str, ...]
) -> None:
    """Three tokens stand before `cd`, five complete it."""
    assert judged(trial("cd", "aba", entries=entries, ids=ids, usage=usage)).codes == codes


def test_all_answers_that_were_looked_at_are_counted() -> None:
    right, wrong = (trial("cd", "aba", entries=5, ids=5, usage=usage) for usage in (5, 6))
    others = Endings((FREE, FREE, FREE))
    judgement = judge(Evidence(made.LIVE_ON, (right,), (wrong,), endings=others), Terms())
    assert judgement.summary.startswith("1 of 5 answers end in the wrong way: usage 6")


def test_the_limits_are_shown() -> None:
    judgement = judged(trial("cd", "aba", entries=5, ids=5, usage=5))
    assert judgement.tables[0].rows[0][:6] == ("'cd'", 3, 5, 5, 5, 5)
    judgement = judged(trial("db", "abac", entries=6, ids=6, usage=6))
    assert judgement.tables[0].rows[0][:3] == ("'db'", 4, 6)
    assert judged().tables == ()


@pytest.mark.parametrize(("usage", "codes"), [(8, ()), (9, ()), (10, ("MISCOUNT",)), (7, ()), (6, ("MISCOUNT",))])
def test_an_answer_that_the_model_ended_may_count_its_end_token(usage: int, codes: tuple[str, ...]) -> None:
    ended = replace(FREE, finish="stop", completion_tokens=usage)
    judgement = judged(trial("cd", "aba", entries=5, ids=5, usage=5), ended=ended)
    assert judgement.codes == codes
    assert judgement.verdict is (Verdict.FAIL if codes else Verdict.PASS)
