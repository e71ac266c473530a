from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from draftproof.checks import examples as made
from draftproof.checks.contexts import Scored
from draftproof.checks.logprobs.rescored import Evidence, Spot, judge
from draftproof.checks.logprobs.wrong import Rescored
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Judgement, Verdict

LAW = (0.5, 0.25, 0.125, 0.0625, 0.0625)


def row(law: Sequence[float] = LAW, listed: int = 5) -> OracleRow:
    logs = tuple(math.log(x) for x in law[:listed])
    return OracleRow(tuple(range(listed)), tuple("abcde"[:listed]), logs, 2, complete=listed == len(law))


def scored(n: int, error: float = 0.0, listed: int = 5) -> Scored:
    token = n % 3
    return Scored(replace(made.true_token(token, LAW), logprob=math.log(LAW[token]) + error), row(LAW, listed))


def answer(errors: Sequence[float], sampling: Sampling = NEUTRAL, draft: tuple[float, ...] = ()) -> Rescored:
    tokens = tuple(scored(n, e) for n, e in enumerate(errors))
    return Rescored(made.answer([t.token for t in tokens], sampling=sampling, drafted=9, accepted=2), tokens, draft)


def judged(*answers: Rescored, noise: float = 1e-6, cache_noise: float = 0.0) -> Judgement:
    return judge(Evidence(made.LIVE_ON, noise, answers, cache_noise=cache_noise), Terms())


def approximately(x: float) -> Any:
    return pytest.approx(x)


def off(n: int, at: dict[int, float]) -> list[float]:
    return [at.get(i, 0.0) for i in range(n)]


@pytest.mark.parametrize(
    ("errors", "noise", "verdict"),
    [
        (off(40, {7: 0.045}), 1e-6, Verdict.PASS),
        (off(40, {7: -0.045}), 1e-6, Verdict.PASS),
        (off(40, {7: 0.06}), 1e-6, Verdict.FAIL),
        (off(40, {7: -0.06}), 1e-6, Verdict.FAIL),
        # within .01 all but one, or all but a hundredth
        (off(40, {7: 0.012, 9: 0.012}), 1e-6, Verdict.FAIL),
        (off(40, {7: 0.009, 9: 0.009}), 1e-6, Verdict.PASS),
        (off(200, {7: 0.02, 9: 0.02}), 1e-6, Verdict.PASS),
        (off(200, {7: 0.02, 9: 0.02, 11: 0.02}), 1e-6, Verdict.FAIL),
        # eight and twenty times the noise
        (off(40, {7: 0.15, 9: 0.15}), 0.02, Verdict.PASS),
        (off(40, {7: 0.17, 9: 0.17}), 0.02, Verdict.FAIL),
        (off(40, {7: 0.39}), 0.02, Verdict.PASS),
        (off(40, {7: 0.41}), 0.02, Verdict.FAIL),
        (off(40, {}), 0.049, Verdict.PASS),
        (off(40, {}), 0.051, Verdict.PASS),
        (off(40, {3: 0.06}), 0.051, Verdict.INCONCLUSIVE),
    ],
)
def test_the_tolerance(errors: list[float], noise: float, verdict: Verdict) -> None:
    assert judged(answer(errors), noise=noise).verdict is verdict


def test_the_worst_difference_is_told_whatever_its_sign() -> None:
    measured = judged(answer(off(40, {7: -0.03, 9: 0.02}))).measured
    assert measured["worst difference (nat)"] == pytest.approx(0.03)


@pytest.mark.parametrize(("reported", "verdict"), [(-3.0, Verdict.PASS), (-2.0, Verdict.PASS), (-0.5, Verdict.FAIL)])
def test_a_token_outside_the_row_can_only_be_too_likely(reported: float, verdict: Verdict) -> None:
    """Two of five tokens are listed, the least of them at log .25 = -1.39, and all others share .25."""
    beyond = Scored(replace(made.true_token(3), logprob=reported), row(LAW, 2))
    tokens = (*(scored(n) for n in range(20)), beyond)
    outside = Rescored(made.answer([t.token for t in tokens], drafted=9, accepted=2), tokens)
    assert judged(outside).verdict is verdict


def test_placeholders_are_named_from_two_of_one_value_on() -> None:
    def named(*values: float) -> tuple[str, ...]:
        tokens = [scored(n) for n in range(30)]
        for n, value in enumerate(values):
            tokens[5 + 3 * n] = Scored(replace(tokens[5 + 3 * n].token, logprob=value), row())
        return judged(Rescored(made.answer([t.token for t in tokens], drafted=9, accepted=2), tuple(tokens))).codes

    assert named(0.0, 0.0) == ("PLACEHOLDER",)
    assert named(-0.1, -0.2) != ("PLACEHOLDER",)
    assert named(0.0) != ("PLACEHOLDER",)
    assert named(0.0, 0.0, -0.1) == ("PLACEHOLDER",), "more than half of what is wrong"
    assert named(0.0, 0.0, -0.1, -0.2) != ("PLACEHOLDER",)
    assert named(0.0, 0.0, -0.1, -0.2, -0.3) != ("PLACEHOLDER",)


def test_no_pattern_is_named_from_fewer_than_four_values() -> None:
    """All values after the first are those of a draft model, which are told with them."""

    def named(n: int) -> tuple[str, ...]:
        wrong = [-0.3, *(-0.4 - 0.1 * i for i in range(n))]
        tokens = [scored(0), *(Scored(replace(made.true_token(1), logprob=x), row()) for x in wrong[1:])]
        draft = (0.0, *wrong[1:])
        return judged(
            Rescored(made.answer([t.token for t in tokens], drafted=9, accepted=2), tuple(tokens), draft)
        ).codes

    assert named(3) == ("CORRUPT",)
    assert named(4) == ("DRAFTS_OWN",)


def test_a_pattern_that_fits_fewer_than_half_of_the_values_is_not_named() -> None:
    wrong = [-0.3 - 0.1 * n for n in range(11)]
    tokens = [scored(0), *(Scored(replace(made.true_token(1), logprob=x - 7), row()) for x in wrong[1:])]
    draft = (0.0, *(x - 7 if n < 4 else 9.0 for n, x in enumerate(wrong[1:])))
    some = Rescored(made.answer([t.token for t in tokens], drafted=9, accepted=2), tuple(tokens), draft)
    assert judged(some).codes == ("CORRUPT",)


def test_few_wrong_values_are_undecided_only_where_a_context_is_text() -> None:
    wrong, right = answer(off(100, {7: 3.0, 9: 2.0, 11: 4.0})), answer(off(3, {}))
    texts = replace(right, answer=replace(right.answer, ask=replace(right.answer.ask, prompt="bcdbc")))
    assert judged(wrong, right).verdict is Verdict.FAIL
    assert judged(wrong, texts).verdict is Verdict.INCONCLUSIVE
    assert judged(answer(off(100, {n: 1.0 + n for n in (7, 9, 11, 13)})), texts).verdict is Verdict.FAIL
    assert judged(answer(off(97, {7: 3.0, 9: 2.0, 11: 4.0})), texts).verdict is Verdict.INCONCLUSIVE


def test_spots_may_be_off_by_a_twentieth_or_twenty_times_the_noise() -> None:
    def verdict(error: float, noise: float = 1e-6) -> Verdict:
        asked = replace(row(), logprobs=(row().logprobs[0] + error, *row().logprobs[1:]))
        spots = (Spot(row(), row()), Spot(asked, row()))
        return judge(Evidence(made.LIVE_ON, noise, (answer(off(30, {})),), spots=spots), Terms()).verdict

    assert verdict(0.045) is Verdict.PASS
    assert verdict(0.06) is Verdict.FAIL
    assert verdict(-0.06) is Verdict.FAIL
    assert verdict(0.35, 0.02) is Verdict.PASS
    assert verdict(0.45, 0.02) is Verdict.FAIL


def test_a_spot_with_no_token_in_common_says_nothing() -> None:
    strange = replace(row(), ids=(5, 6, 7, 8, 9))
    evidence = Evidence(made.LIVE_ON, 1e-6, (answer(off(30, {})),), spots=(Spot(strange, row()),))
    assert judge(evidence, Terms()).verdict is Verdict.PASS


def test_aggregates_are_of_the_same_tokens_as_reported_and_as_true() -> None:
    bare = Rescored(made.answer([TokenRecord(0, "a", None, None, None)]), (scored(0),))
    bare = replace(bare, tokens=(replace(bare.tokens[0], token=bare.answer.tokens[0]),))
    some = answer(off(4, {1: -0.5}))
    unknown = Scored(replace(made.true_token(4), logprob=-9.0), row(LAW, 2))
    measured = judged(bare, replace(some, tokens=(*some.tokens, unknown))).measured
    true = [math.log(LAW[n % 3]) for n in range(4)]
    reported = [x - 0.5 * (n == 1) for n, x in enumerate(true)]
    for side, values in (("reported", reported), ("true", true)):
        mean = sum(values) / 4
        assert measured[f"t1 mean logprob {side}"] == pytest.approx(mean)
        assert measured[f"t1 perplexity {side}"] == pytest.approx(math.exp(-mean))
        assert measured[f"t1 mean confidence {side}"] == pytest.approx(sum(map(math.exp, values)) / 4)


def test_wrong_values_are_shown_beside_the_true_ones() -> None:
    judgement = judged(answer(off(30, {n: -1.0 - n / 10 for n in range(3, 20)})))
    assert len(judgement.tables[0].rows) == 12
    assert judgement.tables[0].rows[0] == ("a", *map(approximately, (math.log(0.5) - 1.3, math.log(0.5), -1.3)))
    assert "17 of 30 values are wrong: the one-token oracle gives -0.69, -1.39, -2.08, -0.69 where" in judgement.summary
    assert "reported -1.99, -2.79, -3.58, -2.29 (worst 2.90 nat)" in judgement.summary


def test_a_constant_among_small_deviations_is_named() -> None:
    values = [scored(n) for n in range(24)]
    wrong = [
        replace(s, token=replace(s.token, logprob=0.0))
        if n % 2
        else replace(s, token=replace(s.token, logprob=(s.token.logprob or 0) - n / 100))
        for n, s in enumerate(values)
    ]
    made_of = Rescored(made.answer([s.token for s in wrong], drafted=9, accepted=2), tuple(wrong))
    judgement = judged(made_of)
    assert judgement.codes == ("PLACEHOLDER",)
    assert "12 of the " in judgement.summary
    assert "are 0.0" in judgement.summary


def test_a_constant_in_a_minority_explains_nothing() -> None:
    errors = [0.3 + n / 50 for n in range(24)]
    few = answer(errors)
    zeros = tuple(replace(s, token=replace(s.token, logprob=0.0)) if n < 3 else s for n, s in enumerate(few.tokens))
    assert judged(replace(few, tokens=zeros)).codes == ("CORRUPT",)


def test_noise_below_the_limit_leaves_a_few_small_differences_to_the_tolerance() -> None:
    assert judged(answer(off(40, {3: 0.06})), noise=0.045).verdict is Verdict.PASS


def test_a_draft_of_fewer_tokens_explains_those_that_it_has() -> None:
    wrong = [-0.3 - 0.1 * n for n in range(8)]
    tokens = [scored(0), *(Scored(replace(made.true_token(1), logprob=x), row()) for x in wrong[1:])]
    short = Rescored(made.answer([t.token for t in tokens], drafted=9, accepted=2), tuple(tokens), (0.0, *wrong[1:6]))
    assert judged(short).codes == ("DRAFTS_OWN",)


def test_noise_of_the_cache_does_not_excuse_a_wrong_value_without_a_list() -> None:
    """A value off by less than the noise of the cache explains, by more than that of rows: with its list, and without."""
    errors = off(40, dict.fromkeys(range(3, 40, 4), 0.2))
    listed = answer(errors)
    bare = [replace(s, token=replace(s.token, alternatives=())) if n == 7 else s for n, s in enumerate(listed.tokens)]
    right = [replace(s, token=replace(s.token, alternatives=())) if n == 8 else s for n, s in enumerate(listed.tokens)]
    assert judged(listed, cache_noise=0.03).verdict is Verdict.INCONCLUSIVE
    assert judged(replace(listed, tokens=tuple(bare)), cache_noise=0.03).verdict is Verdict.FAIL
    assert judged(replace(listed, tokens=tuple(right)), cache_noise=0.03).verdict is Verdict.INCONCLUSIVE


def test_what_fits_is_nearer_than_what_is_wrong_is_far() -> None:
    """Wrong is what is off by .05; values that are .03 beside the draft's are not the draft's."""
    rows = [scored(n) for n in range(20)]
    draft = tuple(-0.3 - n * n / 90 for n in range(20))

    def named(off: float) -> tuple[str, ...]:
        tokens = [
            replace(s.token, logprob=q + off * (-1) ** n) for n, (s, q) in enumerate(zip(rows, draft, strict=True))
        ]
        beside = tuple(replace(s, token=t) for s, t in zip(rows, tokens, strict=True))
        return judged(Rescored(made.answer(tokens, drafted=9, accepted=2), beside, draft)).codes

    assert named(0.009) == ("DRAFTS_OWN",)
    assert named(0.03) == ("CORRUPT",)
