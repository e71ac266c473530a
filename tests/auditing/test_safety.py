from __future__ import annotations

from dataclasses import replace

from tests.fakes import SOUND, check, seeing

from draftproof.auditing.aggregates import aggregates
from draftproof.auditing.outcome import Answer, Outcome
from draftproof.auditing.safety import ROWS, safe_to_use, what_to_do
from draftproof.checks.check import Terms
from draftproof.core.verdict import Judgement, Verdict

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
