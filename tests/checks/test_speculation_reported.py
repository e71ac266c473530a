from __future__ import annotations

from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.self_report.speculation_reported import Evidence, judge
from draftproof.core.ask import Completion, Scalar
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

TOKENS = [made.true_token(n % 3) for n in range(6)]
DRAFTED = made.answer(TOKENS, drafted=9, accepted=3)
PLAIN = made.answer(TOKENS)


def judged(*answers: Completion, forced: tuple[Completion, ...] = (), **reports: Scalar) -> Judgement:
    places = {"props": "/props speculative.types", "slots": "/slots speculative"}
    return judge(Evidence(tuple((places[k], v) for k, v in reports.items()), answers, forced), Terms())


@pytest.mark.parametrize(
    ("value", "told"), [(True, "yes"), (False, "no"), ('["draft-simple"]', '"draft-simple"'), ("none", '"none"')]
)
def test_values_are_told_as_people_read_them(value: Scalar, told: str) -> None:
    assert f"/props speculative.types says {told}" in judged(PLAIN, props=value).summary


def test_statements_are_told_where_drafting_was_seen_by_its_mark_only() -> None:
    marked = made.answer([made.true_token(0), made.placeholder(1), made.placeholder(2)])
    assert "drafting was seen" in judged(marked, slots=True).summary
    assert "9 drafted tokens were counted" in judged(DRAFTED, slots=True).summary


def test_drafts_that_a_request_demanded_agree_with_statements_that_all_say_on() -> None:
    assert judged(PLAIN, forced=(DRAFTED,), slots=True).verdict is Verdict.PASS
    assert judged(PLAIN, forced=(DRAFTED,), slots=True, props="none").verdict is Verdict.INCONCLUSIVE
    assert judged(PLAIN, forced=(DRAFTED,), props="none").verdict is not Verdict.PASS
    assert judged(PLAIN, forced=(DRAFTED,)).verdict is Verdict.NOT_APPLICABLE
    assert judged(PLAIN, forced=(PLAIN,), slots=True).verdict is Verdict.INCONCLUSIVE


def test_a_lie_by_default_is_told_whatever_was_demanded() -> None:
    assert judged(DRAFTED, slots=False, forced=(DRAFTED,)).verdict is Verdict.FAIL
    lying = replace(DRAFTED, claims=(("speculative.types", "none"),))
    assert judged(PLAIN, slots=True, forced=(lying,)).verdict is Verdict.FAIL
    assert judged(lying, slots=True).verdict is Verdict.FAIL


def test_what_the_user_says_is_no_statement_of_the_server() -> None:
    evidence = Evidence((("--expect-speculation", True),), (DRAFTED,))
    assert judge(evidence, Terms()).verdict is Verdict.NOT_APPLICABLE
