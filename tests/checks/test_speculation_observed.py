from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.self_report.speculation_observed import Evidence, burst_share, judge
from draftproof.core.ask import Completion
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

TEXT = [made.true_token(n % 3) for n in range(12)]


def stream(gaps: Sequence[float]) -> Completion:
    at = [0.0]
    for gap in gaps:
        at.append(at[-1] + gap)
    return replace(made.answer(TEXT, stream=True), arrivals=tuple(at))


def judged(*answers: Completion, counters: Sequence[tuple[str, float, float]] = ()) -> Judgement:
    return judge(Evidence((), answers, tuple(counters)), Terms())


@pytest.mark.parametrize(
    ("gaps", "share"),
    [
        ([0.04] * 8, 0.0),
        ([0.04] * 7, None),
        ([0.04] * 6 + [0.009] * 2, 2 / 8),
        ([0.04] * 6 + [0.011] * 2, 0.0),
        ([0.04, 0.001] * 5, 1 / 2),
        ([0.003] * 8, 0.0),
        ([0.0015] * 8, None),
    ],
)
def test_bursts_are_gaps_of_less_than_a_quarter_of_the_usual(gaps: list[float], share: float | None) -> None:
    assert burst_share(stream(gaps)) == share


def test_most_of_the_slowest_quarter_says_what_is_usual() -> None:
    """Two of three events come right behind another: the usual gap is that of a step all the same."""
    assert burst_share(stream([0.06, 0.0001, 0.0001] * 4)) == pytest.approx(8 / 12)


@pytest.mark.parametrize(("behind", "suggested"), [(2, False), (4, True)])
def test_bursts_suggest_drafting_from_three_in_ten_on(behind: int, suggested: bool) -> None:
    judgement = judged(stream([0.04] * (10 - behind) + [0.001] * behind))
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert ("in bursts" in judgement.summary) is suggested


def test_bursts_are_those_of_streams_that_could_be_timed() -> None:
    whole = replace(stream([0.001, 0.04] * 5), ask=made.answer(TEXT).ask)
    assert "bursts" not in judged(whole).summary
    assert "in bursts" in judged(stream([0.04] * 3), stream([0.001, 0.04] * 5)).summary


def row(judgement: Judgement, name: str) -> tuple[object, object]:
    return next((seen, says) for sign, seen, says in judgement.tables[0].rows if sign == name)


def test_counters_say_what_they_moved_by_or_that_they_did_not() -> None:
    assert row(judged(made.answer(TEXT), counters=[("drafts", 5.0, 5.0)]), "totals in /metrics") == ("unmoved", "no")
    seen = row(judged(made.answer(TEXT), counters=[("drafts", 5.0, 7.0)]), "totals in /metrics")
    assert seen == ("drafts +2", "yes")
    assert row(judged(made.answer(TEXT)), "totals in /metrics")[1] == "cannot tell"


def test_counts_of_answers_are_added_up() -> None:
    judgement = judged(made.answer(TEXT, drafted=9, accepted=3), made.answer(TEXT), made.answer(TEXT, drafted=1))
    assert row(judgement, "draft counts in answers") == ("3 of 10 drafts accepted", "yes")
    assert row(judged(made.answer(TEXT, drafted=0, accepted=0)), "draft counts in answers")[1] == "no"
    assert row(judged(made.answer(TEXT)), "draft counts in answers") == ("0 of 0 drafts accepted", "cannot tell")


def test_without_any_sign_it_is_told_why_it_cannot_be_told() -> None:
    assert "does not say whether it speculates" in judged(made.answer(TEXT)).summary
    declined = judge(Evidence(made.LIVE_ON, (made.answer(TEXT, claims=made.DECLINED),)), Terms())
    assert declined.verdict is Verdict.INCONCLUSIVE
    assert "not done for these requests" in declined.summary


def test_what_had_to_be_asked_for_is_told() -> None:
    drafted = made.answer(TEXT, drafted=9, accepted=3)
    asked = replace(drafted, ask=replace(drafted.ask, extra=(("seed", 3), ("speculative.n_max", 8))))
    assert judged(asked).summary.startswith("on (1.3 tokens per step) with speculative.n_max=8:")
