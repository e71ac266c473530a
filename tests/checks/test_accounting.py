from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from draftproof.checks import examples as made
from draftproof.checks.self_report import totals as named
from draftproof.checks.self_report.accounting import Evidence, Stopped, emitted, judge
from draftproof.checks.self_report.totals import moved
from draftproof.core.ask import Completion, Scalar
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict


def answer(
    drafted: int | None, accepted: int | None, tokens: int = 12, claims: tuple[tuple[str, Scalar], ...] = ()
) -> Completion:
    listed = [made.true_token(n % 3) for n in range(tokens)]
    return made.answer(listed, drafted=drafted, accepted=accepted, claims=claims)


def judged(*answers: Completion, counted: Sequence[Stopped] = (), **totals: float) -> Judgement:
    names = {"tokens": named.TOKENS, "drafted": named.DRAFTED, "accepted": named.ACCEPTED, "drafts": named.DRAFTS}
    names["by_position"] = named.BY_POSITION
    return judge(
        Evidence(made.LIVE_ON, answers, tuple(counted), tuple((names[n], v) for n, v in totals.items())), Terms()
    )


def test_the_first_token_is_no_draft_and_every_draft_brings_one_of_the_targets() -> None:
    assert judged(answer(30, 11)).verdict is Verdict.PASS
    assert judged(answer(30, 12)).codes == ("OVERCOUNTED",)
    assert judged(answer(30, 5, claims=(("speculation.drafts", 7),))).verdict is Verdict.PASS
    assert judged(answer(30, 5, claims=(("speculation.drafts", 8),))).codes == ("OVERCOUNTED",)
    assert judged(answer(5, 5)).verdict is Verdict.PASS
    assert judged(answer(5, 6)).codes == ("OVERCOUNTED",)


def test_tokens_are_counted_by_usage_or_else_by_ids() -> None:
    whole = answer(30, 11)
    assert emitted(replace(whole, completion_tokens=9)) == 9
    assert emitted(replace(whole, completion_tokens=None)) == 12
    bare = replace(whole, completion_tokens=None, token_ids=None)
    assert emitted(bare) is None
    assert judged(bare).verdict is Verdict.PASS


def test_claims_of_one_answer_are_held_against_its_own_counts_and_no_others() -> None:
    assert judged(answer(9, 3, claims=(("speculation.drafted", 8),))).codes == ("DISAGREE",)
    assert judged(answer(None, None, claims=(("speculation.drafted", 8),))).codes == ()
    assert judged(answer(None, None, claims=(("speculation.drafted_by_position", "[4, 4]"),))).codes == ()
    assert judged(answer(9, 3, claims=(("speculation.accepted_by_position", "[2, 1]"),))).verdict is Verdict.PASS
    assert judged(answer(9, 3, claims=(("speculation.accepted_by_position", "[2, 2]"),))).codes == ("DISAGREE",)
    for odd in ('[2, "x"]', '["x", "y"]', "[null]"):
        assert judged(answer(9, 3, claims=(("speculation.accepted_by_position", odd),))).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("totals", "codes"),
    [
        ({"drafted": 9.0, "accepted": 9.0}, ()),
        ({"drafted": 9.0, "accepted": 10.0}, ("OVERCOUNTED",)),
        ({"accepted": 10.0}, ()),
        ({"drafted": 9.0}, ()),
        ({"accepted": 4.0, "by_position": 4.0}, ()),
        ({"accepted": 4.0, "by_position": 5.0}, ("DISAGREE",)),
        ({"by_position": 5.0}, ()),
    ],
)
def test_totals_of_the_server_must_agree_with_each_other(totals: dict[str, Any], codes: tuple[str, ...]) -> None:
    assert judged(answer(9, 3), counted=(), **totals).codes == codes


def test_totals_are_held_against_the_answers_where_nobody_else_was_served() -> None:
    counted = [Stopped(answer(9, 3)), Stopped(answer(8, 2))]
    assert judged(answer(9, 3), counted=counted, tokens=24.0, drafted=17.0, accepted=5.0).verdict is Verdict.PASS
    assert judged(answer(9, 3), counted=counted, tokens=24.0, drafted=18.0, accepted=5.0).codes == ("DISAGREE",)
    assert judged(answer(9, 3), counted=counted, tokens=25.0, drafted=18.0, accepted=5.0).verdict is Verdict.PASS
    fits = judged(answer(9, 3), counted=counted, tokens=24.0, accepted=5.0, drafts=19.0)
    assert fits.verdict is Verdict.PASS
    assert "move the server's totals by as much" in fits.summary
    assert judged(answer(9, 3), counted=counted, tokens=24.0, accepted=5.0, drafts=20.0).codes == ("OVERCOUNTED",)
    assert judged(answer(9, 3), counted=counted, tokens=24.0, drafts=20.0).verdict is Verdict.PASS


def test_an_answer_that_counts_nothing_counts_as_none_drafted() -> None:
    counted = [Stopped(answer(9, 3)), Stopped(answer(None, None))]
    assert judged(answer(9, 3), counted=counted, tokens=24.0, drafted=9.0).verdict is Verdict.PASS
    assert judged(answer(9, 3), counted=counted, tokens=24.0, drafted=10.0).codes == ("DISAGREE",)
    uncounted = Stopped(replace(answer(1, 1), completion_tokens=None))
    assert judged(answer(9, 3), counted=[*counted[:1], uncounted], tokens=12.0, drafted=11.0).codes == ("DISAGREE",)
    silent = [Stopped(answer(None, None))]
    assert judged(answer(9, 3), counted=silent, tokens=12.0, drafted=10.0).verdict is Verdict.PASS


def test_totals_that_stand_still_without_answers_compare_nothing() -> None:
    assert "totals" not in judged(answer(9, 3), tokens=0.0, drafted=0.0).summary
    one = Stopped(made.answer([made.true_token(0)], drafted=0, accepted=0))
    assert "totals" in judged(answer(9, 3), counted=[one], tokens=1.0, drafted=0.0).summary


def test_what_the_answers_count_is_shown() -> None:
    claims: tuple[tuple[str, Scalar], ...] = (("speculation.drafts", 7),)
    rows = judged(answer(9, 3, claims=claims), answer(9, 3, claims=(("speculation.drafts", "many"),))).tables[0].rows
    assert rows[0] == (None, 12, 9, 3, 7, "length")
    assert rows[1][4] is None


def test_totals_move_by_what_they_grew_and_new_ones_from_nothing() -> None:
    assert moved({"a": 3.0}, {"a": 10.0, "b": 2.0}) == {"a": 7.0, "b": 2.0}
