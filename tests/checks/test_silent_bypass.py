from __future__ import annotations

from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.self_report.silent_bypass import BASE, REPEATED, Evidence, Trial, judge
from draftproof.core.ask import Completion
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

IDS = [n % 3 for n in range(12)]
ON = made.answer((), n=0, ids=IDS, drafted=9, accepted=3)
OFF = made.answer((), n=0, ids=IDS)
OTHER = made.answer((), n=0, ids=[n % 2 for n in range(12)])


def judged(*trials: tuple[str, Completion], base: Completion = ON) -> Judgement:
    return judge(Evidence(made.LIVE_ON, (Trial(BASE, base), *(Trial(c, a) for c, a in trials))), Terms())


def test_a_condition_must_be_off_twice_and_the_plain_request_on_afterwards() -> None:
    again = (REPEATED, ON)
    assert judged(("a", OFF), ("b", ON), again, ("a", OFF)).codes == ("SILENT_BYPASS",)
    assert judged(("a", OFF), ("b", ON), again).verdict is Verdict.INCONCLUSIVE, "seen once only"
    assert judged(("a", OFF), again, ("a", ON)).verdict is Verdict.INCONCLUSIVE
    assert judged(("a", OFF), again, (REPEATED, OFF), ("a", OFF)).verdict is Verdict.INCONCLUSIVE
    assert judged(("a", ON), ("b", ON), again, ("b", ON)).verdict is Verdict.PASS


def test_a_finding_shows_the_requests_of_its_condition() -> None:
    trials = [
        ("a", replace(OFF, exchange=5)),
        ("b", replace(ON, exchange=6)),
        (REPEATED, ON),
        ("a", replace(OFF, exchange=8)),
    ]
    assert judged(*trials).findings[0].exchanges == (5, 8)


@pytest.mark.parametrize(
    ("text", "silent"),
    [("abc", True), ("abcabcabcabcabc", True), ("a", True), ("", False), ("b", False), ("abd", False)],
)
def test_a_shorter_answer_is_the_same_text_as_far_as_it_goes(text: str, silent: bool) -> None:
    short = replace(OFF, text=text)
    found = judged(("a", short), ("b", ON), ("c", ON), (REPEATED, ON), ("a", short))
    assert (found.verdict is Verdict.FAIL) is silent


def test_a_reason_is_an_admission_and_a_claim_only_where_the_plain_answer_says_otherwise() -> None:
    def verdict(off: Completion, base: Completion = ON) -> Verdict:
        return judged(("a", off), (REPEATED, base), ("a", off), base=base).verdict

    reason = replace(OFF, claims=(("speculation.reason", "a grammar"),))
    assert verdict(reason) is Verdict.PASS
    assert verdict(replace(OFF, claims=(("speculation.reason", ""),))) is Verdict.FAIL
    says_off = replace(OFF, claims=(("speculative.types", "none"),))
    assert verdict(says_off) is Verdict.FAIL, "the plain answer says nothing"
    assert verdict(says_off, replace(ON, claims=(("speculative.types", "draft-simple"),))) is Verdict.PASS
    assert verdict(says_off, replace(ON, claims=(("speculative.types", "none"),))) is Verdict.FAIL


def test_half_of_the_conditions_may_have_another_text() -> None:
    assert judged(("a", OTHER), ("b", ON), (REPEATED, ON)).verdict is Verdict.PASS
    assert judged(("a", OTHER), ("b", OTHER), ("c", ON), (REPEATED, ON)).verdict is Verdict.INCONCLUSIVE


def test_drafts_are_shown_by_the_answers_or_else_by_the_totals() -> None:
    evidence = Evidence(made.LIVE_ON, (Trial(BASE, ON), Trial("a", OFF, 7.0), Trial("b", ON, 5.0)))
    rows = judge(evidence, Terms()).tables[0].rows
    assert [row[1] for row in rows] == [9, 7.0, 9]
