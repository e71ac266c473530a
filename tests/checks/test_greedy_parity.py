from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.sampling.greedy_parity import Evidence, Parity, judge
from draftproof.core.ask import Completion
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import GREEDY
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

CHAIN = (0, 1, 2, 3, 0, 1, 2, 3)


def row(best: int, gap: float) -> OracleRow:
    """The best token, another `gap` nats below it, a third 3 nats below."""
    ids = (best, (best + 1) % 5, (best + 2) % 5)
    return OracleRow(ids, tuple(map(made.letter, ids)), (-0.3, -0.3 - gap, -3.3), 2, complete=False)


def answer(ids: Sequence[int]) -> Completion:
    return made.answer([made.true_token(i) for i in ids], sampling=GREEDY, drafted=9, accepted=4)


def judged(*parities: Parity, noise: float = 1e-6) -> Judgement:
    return judge(Evidence(made.LIVE_ON, noise, parities), Terms())


def parity(ids: Sequence[int] = CHAIN, gap: float = 1.0, again: Sequence[int] | None = None) -> Parity:
    rows = tuple(row(best, gap) for best in CHAIN)
    return Parity(answer(ids), answer(ids if again is None else again), rows)


SECOND = (0, 1, 2, 4, 0, 1, 2, 3)
"""Leaves the chain at token 4."""


@pytest.mark.parametrize(
    ("gap", "noise", "verdict"),
    [
        (8e-4, 1e-6, Verdict.PASS),
        (1.2e-3, 1e-6, Verdict.INCONCLUSIVE),
        (0.045, 1e-6, Verdict.INCONCLUSIVE),
        (0.055, 1e-6, Verdict.FAIL),
        # 3 and 6 times sqrt(2) of the noise
        (0.041, 0.01, Verdict.PASS),
        (0.044, 0.01, Verdict.INCONCLUSIVE),
        (0.083, 0.01, Verdict.INCONCLUSIVE),
        (0.086, 0.01, Verdict.FAIL),
    ],
)
def test_how_far_below_the_best_a_token_may_be(gap: float, noise: float, verdict: Verdict) -> None:
    assert judged(parity(SECOND, gap), noise=noise).verdict is verdict


def test_only_the_first_difference_is_judged() -> None:
    judgement = judged(parity((0, 2, 0, 0, 0, 0, 0, 0), gap=0.7))
    assert [row[:3] for row in judgement.tables[0].rows] == [("2", "c", "b")]
    assert judgement.tables[0].rows[0][3] == pytest.approx(0.7)
    assert "1 of 1 answers" in judgement.summary
    assert "token 2 is 'c', 0.70 nat below 'b'" in judgement.summary


def test_the_largest_gap_of_several_answers_is_told() -> None:
    judgement = judged(parity(SECOND, 0.2), parity(SECOND, 0.9), parity(SECOND, 0.4))
    assert "3 of 3 answers leave the one-token chain: token 4 is 'e', 0.90 nat" in judgement.summary


def test_a_token_outside_the_row_is_at_least_as_far_as_the_last_entry() -> None:
    """Three entries hold 1.15 of .74 + .27 + .04: what is left is below the third."""
    judgement = judged(parity((0, 1, 2, 2, 0, 1, 2, 3), gap=1.0))
    assert judgement.verdict is Verdict.FAIL
    assert judgement.tables[0].rows[0][3] >= 2.99  # type: ignore[operator]


def test_the_first_token_counts() -> None:
    assert judged(parity((1, 1, 2, 3, 0, 1, 2, 3))).tables[0].rows[0][0] == "1"


def test_a_repetition_that_is_equal_is_counted_once() -> None:
    assert len(judged(parity(SECOND, 1e-4)).tables[0].rows) == 1
    assert len(judged(parity(SECOND, 1e-4, again=(0, 2, 2, 3))).tables[0].rows) == 2


def test_a_repetition_that_failed_is_none() -> None:
    one = parity(CHAIN, again=SECOND)
    broken = replace(one, again=replace(one.again, status=500, error="broken"))
    assert judged(broken).verdict is Verdict.PASS


def test_answers_that_failed_or_could_not_be_followed_are_left_out() -> None:
    one = parity()
    broken = replace(parity(SECOND), answer=replace(answer(SECOND), status=500, error="broken"))
    alone = replace(parity(SECOND), rows=())
    judgement = judged(one, broken, alone)
    assert judgement.verdict is Verdict.PASS
    assert "1 prompts, 8 tokens" in judgement.summary
    assert judged(alone).verdict is Verdict.INCONCLUSIVE


def test_ids_are_compared_where_entries_lack() -> None:
    """Three entries for eight tokens: the rest is known by its ids."""
    for ids, verdict in ((CHAIN, Verdict.PASS), (SECOND, Verdict.FAIL), ((*CHAIN[:7], 4), Verdict.FAIL)):
        one = parity(ids)
        some = replace(one.answer, tokens=one.answer.tokens[:3])
        assert judged(replace(one, answer=some, again=some)).verdict is verdict


def test_texts_are_compared_where_ids_lack() -> None:
    for ids, verdict in ((CHAIN, Verdict.PASS), (SECOND, Verdict.FAIL), ((*CHAIN[:7], 4), Verdict.FAIL)):
        one = parity(ids)
        tokens = tuple(replace(t, id=None) for t in one.answer.tokens)
        texts = replace(one.answer, tokens=tokens, token_ids=None)
        judgement = judged(replace(one, answer=texts, again=texts))
        assert judgement.verdict is verdict
        if verdict is Verdict.FAIL:
            assert judgement.tables[0].rows[0][3] == pytest.approx(1.0)


def test_texts_are_compared_where_the_row_has_no_ids() -> None:
    """Such a row has -1 for every token."""
    for ids, verdict in ((CHAIN, Verdict.PASS), (SECOND, Verdict.FAIL)):
        one = parity(ids)
        rows = tuple(replace(r, ids=(-1,) * 3) for r in one.rows)
        assert judged(replace(one, rows=rows)).verdict is verdict


@pytest.mark.parametrize(
    ("ids", "verdict"), [(CHAIN, Verdict.PASS), (SECOND, Verdict.FAIL), ((1, *CHAIN[1:]), Verdict.FAIL)]
)
def test_ids_go_before_texts(ids: Sequence[int], verdict: Verdict) -> None:
    """All tokens are called x. The ids stand in the entries alone."""
    one = parity(ids)
    called = replace(one.answer, tokens=tuple(replace(t, text="x") for t in one.answer.tokens), token_ids=None)
    rows = tuple(replace(r, texts=("x",) * 3) for r in one.rows)
    assert judged(replace(one, answer=called, again=called, rows=rows)).verdict is verdict


def test_an_end_token_that_has_an_entry_and_no_id_is_not_compared() -> None:
    one = parity()
    some = replace(one.answer, token_ids=CHAIN[:7])
    judgement = judged(replace(one, answer=some, again=some))
    assert judgement.verdict is Verdict.PASS
    assert "1 prompts, 7 tokens" in judgement.summary


def test_an_answer_may_be_shorter_than_its_rows_or_longer() -> None:
    short = parity(CHAIN[:5])
    assert judged(short).verdict is Verdict.PASS
    assert judged(replace(short, rows=short.rows[:3])).verdict is Verdict.PASS


def test_a_pass_bounds_the_share_of_wrong_tokens() -> None:
    statement = judged(parity(), parity()).statements[0]
    assert statement.n == 16
    assert statement.error_probability == 0.05
    assert (1 - statement.values["share"]) ** 16 == pytest.approx(0.05)
    assert math.isclose(statement.values["share"], 0.1707, abs_tol=1e-4)
