"""The comparisons of two servers, on pairs of answers written by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.same import greedy, law, logprobs, seeds
from draftproof.checks.same.pair import Pair, by_id, first_difference, keys
from draftproof.core.ask import Completion
from draftproof.core.probe import OracleRow
from draftproof.core.terms import Terms
from draftproof.core.tokens import Alternative, TokenRecord
from draftproof.core.verdict import Judgement, Verdict
from draftproof.stats.coupling import coupling_bound
from draftproof.stats.equivalence import two_sample_tv_upper


def answer(*ids: int) -> Completion:
    return made.answer([made.true_token(i) for i in ids])


def nameless(whole: Completion) -> Completion:
    def bare(token: TokenRecord) -> TokenRecord:
        listed = tuple(replace(e, id=None) for e in token.alternatives or ())
        return replace(token, id=None, alternatives=listed)

    return replace(whole, tokens=tuple(map(bare, whole.tokens)), token_ids=None)


def test_tokens_are_told_by_ids_where_both_have_them_for_all() -> None:
    assert by_id([Pair(answer(0), answer(1))])
    assert not by_id([Pair(answer(0), answer(1)), Pair(answer(0), nameless(answer(1)))])
    assert not by_id([Pair(answer(0), replace(answer(1), token_ids=None))])
    assert by_id([Pair(answer(0), replace(nameless(answer(1)), error="broken"))]), "a failed answer has no say"
    assert keys(answer(0, 2), True) == (0, 2)
    assert keys(answer(0, 2), False) == ("a", "c")
    assert keys(replace(answer(0, 2), token_ids=None), True) == ("a", "c")
    assert keys(replace(answer(0, 2), token_ids=None, tokens=()), True) == ("ac",)


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ((0, 1, 2), (0, 1, 2), (None, 3)),
        ((0, 1, 2), (0, 2, 2), (1, 2)),
        ((0, 1, 2), (0, 1), (2, 2)),
        ((0,), (0, 1, 2), (1, 1)),
        ((1,), (0,), (0, 1)),
    ],
)
def test_where_two_answers_part(first: Sequence[int], second: Sequence[int], found: tuple[int | None, int]) -> None:
    assert first_difference(Pair(answer(*first), answer(*second))) == found
    assert first_difference(Pair(answer(*first), nameless(answer(*second)))) == found


def parted(
    gap: float, *, noise: float = 0.0, pair: Pair | None = None, place: int = 1, texts: bool = False
) -> Judgement:
    row = OracleRow((-1, -1) if texts else (0, 1), ("a", "b"), (-0.5, -0.5 - gap), 1)
    pair = pair or Pair(answer(0, 0), answer(0, 1))
    return greedy.judge(greedy.Evidence(noise, (pair,), (greedy.Parting(place, row, True),)), Terms())


@pytest.mark.parametrize(
    ("gap", "noise", "verdict"),
    [
        (0.0009, 0.0, Verdict.PASS),
        (0.0011, 0.0, Verdict.INCONCLUSIVE),
        (0.049, 0.0, Verdict.INCONCLUSIVE),
        (0.051, 0.0, Verdict.FAIL),
        (0.42, 0.1, Verdict.PASS),
        (0.43, 0.1, Verdict.INCONCLUSIVE),
        (0.84, 0.1, Verdict.INCONCLUSIVE),
        (0.86, 0.1, Verdict.FAIL),
    ],
)
def test_a_gap_is_held_against_the_noise_of_two_values(gap: float, noise: float, verdict: Verdict) -> None:
    """Three and six times sqrt(2) .1 are .424 and .849."""
    assert parted(gap, noise=noise).verdict is verdict
    assert parted(gap, noise=noise, texts=True, pair=Pair(answer(0, 0), nameless(answer(0, 1)))).verdict is verdict


def test_tokens_are_found_in_the_row_by_id_before_text_and_may_be_missing_from_it() -> None:
    renamed = replace(answer(0, 1), tokens=(made.true_token(0), replace(made.true_token(1), text="a")))
    assert parted(1.0, pair=Pair(answer(0, 0), renamed)).verdict is Verdict.FAIL, "its text is that of the other"
    absent = parted(3.0, pair=Pair(answer(0, 0), answer(0, 4)))
    assert absent.verdict is Verdict.FAIL
    (cells,) = absent.tables[0].rows
    assert cells[:3] == (2, "a", "e")
    assert cells[3] == pytest.approx(0.5126, abs=1e-3)
    bare = replace(answer(0, 1), tokens=())
    assert "'token 1'" in parted(1.0, pair=Pair(bare, replace(answer(0, 0), tokens=()))).summary


def test_an_answer_may_end_where_the_other_goes_on() -> None:
    judgement = parted(1.0, pair=Pair(answer(0), answer(0, 1)))
    assert judgement.tables[0].rows[0][1:3] == ("(the end)", "b")


def test_the_widest_gap_is_named_after_pairs_that_agree() -> None:
    def parting(gap: float) -> greedy.Parting:
        return greedy.Parting(1, OracleRow((0, 1), ("a", "b"), (-0.5, -0.5 - gap), 1), True)

    pair = Pair(answer(0, 0), answer(0, 1))
    evidence = greedy.Evidence(0.0, (Pair(answer(0), answer(0)), pair, pair), (None, parting(1.0), parting(2.0)))
    judgement = greedy.judge(evidence, Terms())
    assert "2 of 3 answers part" in judgement.summary
    assert "token 2 is 'a' and 'b', 2.00 nat apart" in judgement.summary


def test_agreement_bounds_the_share_of_other_tokens() -> None:
    pairs = (Pair(answer(*[0] * 40), answer(*[0] * 40)),)
    judgement = greedy.judge(greedy.Evidence(0.0, pairs, (None,)), Terms())
    (statement,) = judgement.statements
    assert statement.values["share"] == pytest.approx(0.0722, abs=1e-4)
    assert (1 - statement.values["share"]) ** 40 == pytest.approx(0.05)
    assert statement.error_probability == 0.05
    assert judgement.tables == ()


def moved(errors: Sequence[float], noise: float = 0.0) -> Judgement:
    tokens = [
        replace(made.true_token(n % 3, n=1), alternatives=made.alternatives(made.LAW, 1)) for n in range(len(errors))
    ]
    first = made.answer([t if n % 3 else made.true_token(0, n=1) for n, t in enumerate(tokens)])
    second = [
        replace(t, logprob=(t.logprob or 0.0) + e, alternatives=shifted(t, e))
        for t, e in zip(first.tokens, errors, strict=True)
    ]
    return logprobs.judge(logprobs.Evidence(noise, (Pair(first, made.answer(second)),)), Terms())


def shifted(token: TokenRecord, error: float) -> tuple[Alternative, ...]:
    """The list has the most likely token, whose value moves with the token's own where it is the same."""
    return tuple(replace(e, logprob=(e.logprob or 0.0) + error * (e.id == token.id)) for e in token.alternatives or ())


@pytest.mark.parametrize(
    ("errors", "noise", "verdict"),
    [
        ({7: 0.045}, 0.0, Verdict.PASS),
        ({7: 0.055}, 0.0, Verdict.FAIL),
        ({7: -0.055}, 0.0, Verdict.FAIL),
        ({7: 0.012}, 0.0, Verdict.PASS),
        ({7: 0.012, 8: 0.012}, 0.0, Verdict.FAIL),
        ({7: 0.009, 8: 0.009, 10: 0.009}, 0.0, Verdict.PASS),
        ({7: 0.39}, 0.02, Verdict.PASS),
        ({7: 0.41}, 0.02, Verdict.FAIL),
        ({7: 0.17, 8: 0.17}, 0.02, Verdict.FAIL),
        ({7: 0.15, 8: 0.15}, 0.02, Verdict.PASS),
    ],
)
def test_all_values_but_one_lie_within_a_hundredth_and_all_within_a_twentieth(
    errors: dict[int, float], noise: float, verdict: Verdict
) -> None:
    assert moved([errors.get(n, 0.0) for n in range(30)], noise).verdict is verdict


@pytest.mark.parametrize(("off", "verdict"), [(4, Verdict.PASS), (5, Verdict.FAIL)])
def test_of_hundreds_of_values_one_in_a_hundred_may_lie_outside(off: int, verdict: Verdict) -> None:
    """210 tokens, each with its own value and that of one entry of its list."""
    places = [n for n in range(210) if n % 3][:off]
    judgement = moved([0.02 * (n in places) for n in range(210)])
    assert judgement.measured["values"] == 420
    assert judgement.verdict is verdict


def test_the_worst_value_is_told_and_no_more_than_twelve() -> None:
    judgement = moved([0.1 * (n % 3 == 1) + 0.4 * (n == 7) for n in range(60)])
    assert judgement.measured["worst difference (nat)"] == pytest.approx(0.5)
    assert "'b' has -1.386 and -0.886" in judgement.summary
    assert "20 of 120 values differ by more than 0.05 nat" in judgement.summary
    assert len(judgement.tables[0].rows) == 12


def test_values_are_compared_by_text_where_ids_are_missing() -> None:
    other = nameless(made.answer([made.true_token(i, (0.4, 0.3, 0.15, 0.1, 0.05)) for i in (0, 1)]))
    evidence = logprobs.Evidence(0.0, (Pair(answer(0, 1), other),))
    assert logprobs.judge(evidence, Terms()).codes == ("DIFFERENT_LOGPROBS",)
    same = logprobs.Evidence(0.0, (Pair(answer(0, 1), nameless(answer(0, 1))),))
    assert logprobs.judge(same, Terms()).measured["values"] == 8


def test_values_that_are_no_numbers_or_without_lists_are_left_out() -> None:
    bare = [replace(t, alternatives=None) for t in answer(0, 1).tokens]
    assert (
        logprobs.judge(logprobs.Evidence(0.0, (Pair(made.answer(bare), made.answer(bare)),)), Terms()).measured[
            "values"
        ]
        == 0
    )
    infinite = [
        replace(
            t,
            logprob=None,
            alternatives=(*(t.alternatives or ())[:1], replace((t.alternatives or ())[1], logprob=float("-inf"))),
        )
        for t in answer(0, 1).tokens
    ]
    judgement = logprobs.judge(logprobs.Evidence(0.0, (Pair(made.answer(infinite), answer(0, 1)),)), Terms())
    assert judgement.measured["values"] == 2
    assert judgement.verdict is Verdict.PASS


def sampled(
    first: Sequence[law.Answer], second: Sequence[law.Answer], agreement: tuple[int, int] = (0, 0)
) -> Judgement:
    return law.judge(law.Evidence(((law.Sampled(tuple(first), tuple(second)),),), agreement), Terms())


def test_the_bound_by_counts_is_of_the_second_and_third_token_at_half_the_error_for_each_of_fourteen_rounds() -> None:
    first = [(0, n % 2, n % 3) for n in range(600)] + [(0,)] * 5
    second = [(0, n % 2, n % 4) for n in range(600)]
    judgement = sampled(first, second)
    each = 1e-3 / 2 / 2 / 14
    expected = max(
        two_sample_tv_upper([300, 300], [300, 300], each).bound,
        two_sample_tv_upper([200, 200, 200, 0], [150, 150, 150, 150], each).bound,
    )
    assert judgement.measured["total variation at most"] == pytest.approx(expected)
    assert judgement.measured["answers"] == 1205
    assert len(judgement.statements) == 2
    assert sampled(second, first).measured["total variation at most"] == pytest.approx(
        max(
            two_sample_tv_upper([300, 300], [300, 300], each).bound,
            two_sample_tv_upper([150, 150, 150, 150], [200, 200, 200, 0], each).bound,
        )
    )


def test_the_better_of_two_bounds_counts() -> None:
    samples = [(0, n % 2, n % 2) for n in range(40)]
    by_seeds = coupling_bound(3, 2000, 1e-3 / 2).bound
    assert sampled(samples, samples, (3, 2000)).measured["total variation at most"] == pytest.approx(by_seeds)


def test_too_many_tokens_give_no_bound_by_counts() -> None:
    for cells, bounded in ((11, True), (12, False)):
        samples = [(0, n % cells, 0) for n in range(240)]
        judgement = sampled(samples, samples)
        assert (judgement.measured["total variation at most"] is not None) is bounded
        assert ("more samples" in judgement.missing) is bounded
    ends = sampled([(0, 1)] * 50, [(0, 1)] * 50)
    assert ends.measured["total variation at most"] is None, "no third token came"
    assert len(ends.statements) == 1


def test_what_is_missing_grows_with_the_square_of_the_bound() -> None:
    samples = [(0, n % 2, n % 2) for n in range(300)]
    judgement = sampled(samples, samples)
    tv = judgement.measured["total variation at most"]
    assert isinstance(tv, float)
    assert f"about {math.ceil(600 * (tv / 0.15) ** 2) - 600:,} more samples" in judgement.missing


def test_seeds_that_part_at_the_first_token_are_other_random_numbers() -> None:
    def said(*pairs: Pair) -> str:
        return seeds.judge(seeds.Evidence(pairs), Terms()).summary

    same = Pair(answer(0, 1), answer(0, 1))
    assert "1 of 2 seeded answers differ, 1 of them from the first" in said(same, Pair(answer(0, 1), answer(1, 1)))
    assert "1 of 2 seeded answers differ, 0 of them from the first" in said(same, Pair(answer(0, 1), answer(0, 2)))
    judgement = seeds.judge(seeds.Evidence((same, same)), Terms())
    assert judgement.measured == {"answers": 2, "parted": 0, "tokens": 4}
