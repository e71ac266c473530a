from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes import FACTS, SOUND, check, seeing

from draftproof.auditing import all_checks
from draftproof.auditing.aggregates import aggregates
from draftproof.auditing.outcome import Answer, Outcome, Safety
from draftproof.auditing.safety import GATEWAY_DIALECTS, ROWS, safe_to_use, span, what_to_do
from draftproof.checks.check import AnyCheck
from draftproof.client.dialects import DIALECTS
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Verdict

ONE = check("logprobs/one", seeing(), aspects=("logprobs", "text"))
TWO = check("logprobs/two", seeing(), aspects=("logprobs",))


def outcome(name: str, verdict: Verdict, **more: object) -> Outcome:
    return Outcome(name, Judgement(verdict, "so", **more), Terms())  # type: ignore[arg-type]


def answer(*verdicts: Verdict | None) -> Answer:
    outcomes = [outcome(c.name, v) for c, v in zip((ONE, TWO), verdicts, strict=True) if v is not None]
    rows = {row.what: row for row in safe_to_use((ONE, TWO), outcomes)}
    return rows[ROWS["logprobs"]].answer


def test_yes_needs_every_check_of_the_aspect() -> None:
    assert answer(Verdict.PASS, Verdict.PASS) is Answer.YES
    assert answer(Verdict.PASS, Verdict.NOT_APPLICABLE) is Answer.YES
    assert answer(Verdict.PASS, None) is Answer.UNKNOWN
    assert answer(Verdict.PASS, Verdict.INCONCLUSIVE) is Answer.UNKNOWN
    assert answer(Verdict.PASS, Verdict.ERROR) is Answer.UNKNOWN
    assert answer(Verdict.NOT_APPLICABLE, Verdict.NOT_APPLICABLE) is Answer.UNKNOWN
    assert answer(None, None) is Answer.UNKNOWN


def test_one_failure_is_enough_for_no() -> None:
    for other in (*Verdict, None):
        assert answer(Verdict.FAIL, other) is Answer.NO


def test_reason_names_the_checks() -> None:
    rows = safe_to_use((ONE, TWO), [outcome(ONE.name, Verdict.FAIL), outcome(TWO.name, Verdict.PASS)])
    reasons = {row.what: row.reason for row in rows}
    assert reasons[ROWS["text"]] == "logprobs/one failed"
    assert reasons[ROWS["seeds"]] == "nothing here could be checked on this server"


def test_each_remedy_is_said_once_and_only_for_failures() -> None:
    same = replace(TWO, remedy=ONE.remedy)
    outcomes = [outcome(ONE.name, Verdict.FAIL), outcome(same.name, Verdict.FAIL), outcome(SOUND.name, Verdict.PASS)]
    assert what_to_do((ONE, same, SOUND), outcomes) == (ONE.remedy,)


def test_what_inconclusive_checks_lack_is_said_once_for_all_of_them() -> None:
    outcomes = [outcome(c.name, Verdict.INCONCLUSIVE, missing="120 more samples") for c in (ONE, TWO)]
    assert what_to_do((ONE, TWO), outcomes) == ("To decide logprobs/one, logprobs/two: 120 more samples",)


def test_aggregates_need_both_sides() -> None:
    measured = {
        "t0 perplexity reported": 1.0,
        "t0 perplexity true": 8.5,
        "t1 perplexity reported": 1.0,
        "t1 mean logprob reported": float("inf"),
        "t1 mean logprob true": -1.0,
        "worst": 4.6,
    }
    table = aggregates([outcome("logprobs/rescored", Verdict.FAIL, measured=measured)])
    assert table is not None
    assert table.rows == (("perplexity", "temperature 0", 1.0, 8.5),)
    assert aggregates([outcome("x", Verdict.PASS)]) is None


def test_a_pass_says_what_it_does_not_promise_and_nothing_else_does() -> None:
    caution = "logprobs move by up to 0.3 nat"
    for verdict in (Verdict.PASS, Verdict.INCONCLUSIVE):
        outcomes = [outcome("logprobs/one", verdict, caution=caution), outcome("logprobs/two", Verdict.PASS)]
        rows = {row.what: row for row in safe_to_use((ONE, TWO), outcomes)}
        assert rows[ROWS["logprobs"]].reason.endswith(caution) is (verdict is Verdict.PASS)


def test_a_server_without_logprobs_of_drafted_tokens_is_told_of_the_gateway_first() -> None:
    facts = replace(FACTS, url="http://10.0.0.1:8080", dialect="llama_server")
    lost = outcome(ONE.name, Verdict.FAIL, findings=(Finding("PLACEHOLDER", "0.0"),))
    first, *rest = what_to_do((ONE, TWO), [lost], facts)
    assert "draftproof gateway --upstream http://10.0.0.1:8080" in first
    assert rest == [ONE.remedy]
    for other in (replace(facts, dialect="ollama"), None):
        assert what_to_do((ONE, TWO), [lost], other) == (ONE.remedy,)
    wrong = outcome(ONE.name, Verdict.FAIL, findings=(Finding("CORRUPT", "-3"),))
    assert what_to_do((ONE, TWO), [wrong], facts) == (ONE.remedy,)


def test_a_remedy_that_another_failure_makes_pointless_is_left_out() -> None:
    moot = replace(TWO, moot_after=(ONE.name,))
    both = [outcome(ONE.name, Verdict.FAIL), outcome(TWO.name, Verdict.FAIL)]
    assert what_to_do((ONE, moot), both) == (ONE.remedy,)
    assert what_to_do((ONE, moot), both[1:]) == (TWO.remedy,)


@pytest.mark.parametrize("check", all_checks(), ids=lambda c: c.name)
def test_checks_after_which_a_remedy_is_moot_exist(check: AnyCheck) -> None:
    assert set(check.moot_after) <= {c.name for c in all_checks()} - {check.name}


def test_a_brief_reason_counts_passes_and_names_what_fits() -> None:
    names = ("logprobs/placeholder", "logprobs/presence", "logprobs/rescored")
    no = Safety("x", Answer.NO, "", True, names, "failed")
    assert no.brief(80) == "logprobs/placeholder, logprobs/presence, logprobs/rescored failed"
    assert no.brief(45) == "logprobs/placeholder, +2 more failed"
    assert no.brief(10) == "3 checks failed"
    assert Safety("x", Answer.YES, "", True, names, "passed").brief(80) == "3 checks passed"
    assert Safety("x", Answer.UNKNOWN, "nothing here").brief(80) == "nothing here"


@pytest.mark.parametrize(
    ("least_s", "most_s", "told"),
    [(20, 60, "about 20 s to 60 s"), (60, 180, "about 60 s to 3 min"), (200, 210, "about 3 min to 4 min")],
)
def test_a_span_of_time_in_words(least_s: float, most_s: float, told: str) -> None:
    assert span(least_s, most_s) == told


def test_the_gateway_is_named_for_servers_that_there_are() -> None:
    assert {d.name for d in DIALECTS} >= GATEWAY_DIALECTS


def test_a_caution_stands_beside_the_count_of_passes_too() -> None:
    held = outcome(ONE.name, Verdict.PASS, caution="logprobs move by up to 0.1 nat")
    rows = {row.what: row for row in safe_to_use((ONE,), [held])}
    assert rows["text"].reason == "logprobs/one passed; logprobs move by up to 0.1 nat"
    assert rows["text"].brief(45) == "1 check passed; logprobs move by up to 0.1 nat"
