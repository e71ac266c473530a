from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.contexts import Scored
from draftproof.checks.logprobs.units import Evidence, Law, Probed, judge
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

LAW = (0.5, 0.25, 0.125, 0.0625, 0.0625)
WARM, CUT, BOTH = Sampling(temperature=2.0), Sampling(top_k=2), Sampling(temperature=2.0, top_k=2)


def row(listed: int = 5) -> OracleRow:
    logs = tuple(math.log(x) for x in LAW[:listed])
    return OracleRow(tuple(range(listed)), tuple("abcde"[:listed]), logs, 2, complete=listed == 5)


def value(law: Law, token: int, sampling: Sampling) -> float:
    hot = [x ** (1 / sampling.temperature) for x in LAW]
    if law is Law.RAW:
        return math.log(LAW[token])
    kept = hot[: sampling.top_k or None] if law is Law.PROCESSED else hot
    return math.log(hot[token] / sum(kept))


def probed(report: Callable[[int, int], float | None], sampling: Sampling, listed: int = 5, n: int = 6) -> Probed:
    """`report` gives the logprob of a token by its place and its id."""
    tokens = [replace(made.true_token(i % 2), logprob=report(i, i % 2)) for i in range(n)]
    return Probed(
        made.answer(tokens, sampling=sampling, drafted=5, accepted=1), tuple(Scored(t, row(listed)) for t in tokens)
    )


def judged(*answers: Probed, noise: float = 1e-6) -> Judgement:
    return judge(Evidence(made.LIVE_ON, noise, answers), Terms())


def of(law: Law, sampling: Sampling, error: float = 0.0, listed: int = 5) -> Probed:
    return probed(lambda n, token: value(law, token, sampling) + error * (n == 3), sampling, listed)


@pytest.mark.parametrize("sampling", [WARM, CUT, BOTH, Sampling(temperature=0.5)])
@pytest.mark.parametrize("law", [Law.RAW, Law.TEMPERED, Law.PROCESSED])
def test_each_law_is_told_by_its_name(law: Law, sampling: Sampling) -> None:
    judgement = judged(of(law, sampling))
    assert judgement.verdict is Verdict.PASS
    said = law
    if law is Law.TEMPERED and sampling.temperature == 1:
        said = Law.RAW
    if law is Law.PROCESSED and not sampling.top_k:
        said = Law.TEMPERED  # the same
    assert judgement.tables[0].rows[0][1:] == (said, said)


@pytest.mark.parametrize(
    ("error", "noise", "verdict"),
    [
        (0.018, 1e-6, Verdict.PASS),
        (0.022, 1e-6, Verdict.FAIL),
        (-0.022, 1e-6, Verdict.FAIL),
        (0.075, 0.01, Verdict.PASS),
        (0.085, 0.01, Verdict.FAIL),
    ],
)
def test_every_value_must_fit(error: float, noise: float, verdict: Verdict) -> None:
    judgement = judged(of(Law.RAW, BOTH, error), noise=noise)
    assert judgement.verdict is verdict
    assert judgement.codes == (() if verdict is Verdict.PASS else ("CLASS_MIX",))


def test_laws_that_lie_within_the_tolerance_of_each_other_cannot_be_told_apart() -> None:
    """At temperature 1.02 they differ by up to .02 nats, at 1.2 by .15."""
    assert judged(of(Law.RAW, Sampling(temperature=1.02))).verdict is Verdict.INCONCLUSIVE
    assert judged(of(Law.RAW, Sampling(temperature=1.3))).verdict is Verdict.PASS
    assert judged(of(Law.RAW, NEUTRAL)).verdict is Verdict.INCONCLUSIVE
    assert judged(of(Law.RAW, CUT, 0.03), noise=0.0175).verdict is Verdict.PASS
    assert judged(of(Law.RAW, CUT, 0.03), noise=0.0185).verdict is Verdict.INCONCLUSIVE


def test_values_that_fit_as_without_noise_are_judged_where_noise_could_not_bring_another_law_there() -> None:
    """The laws differ by .288 nat, four times the noise at .072."""
    assert judged(of(Law.RAW, CUT, 0.019), noise=0.0715).verdict is Verdict.PASS
    assert judged(of(Law.RAW, CUT, 0.021), noise=0.0715).verdict is Verdict.INCONCLUSIVE
    assert judged(of(Law.RAW, CUT), noise=0.0725).verdict is Verdict.INCONCLUSIVE
    near = Sampling(temperature=1.09)  # by up to .052 nat
    assert judged(of(Law.RAW, near), noise=0.01).verdict is Verdict.PASS
    assert judged(of(Law.RAW, near), noise=0.014).verdict is Verdict.INCONCLUSIVE
    mixed = probed(lambda n, token: value(Law.PROCESSED if n else Law.RAW, token, CUT), CUT)
    assert judged(mixed, noise=0.0715).codes == ("CLASS_MIX",)


def beside_cut_rows(
    first: Law, later: Law, sampling: Sampling = WARM, error: float = 0.0, *, ids: bool = True
) -> Judgement:
    """Lists by the same law as their tokens; `error` of the fourth token's own value. `ids`: whether tokens have any."""
    tokens = []
    for n in range(6):
        law, token = later if n else first, made.true_token(n % 2)
        listed = [replace(a, logprob=value(law, a.id or 0, sampling)) for a in token.alternatives or ()]
        own = value(law, n % 2, sampling) + error * (n == 3)
        if not ids:
            token, listed = replace(token, id=None), [replace(a, id=None) for a in listed]
        tokens.append(replace(token, logprob=own, alternatives=tuple(listed)))
    answer = made.answer(tokens, sampling=sampling, drafted=5, accepted=1)
    return judged(Probed(answer, tuple(Scored(t, row(3)) for t in tokens)))


@pytest.mark.parametrize("sampling", [WARM, Sampling(temperature=0.5)])
def test_a_cut_row_tells_tempered_values_by_how_far_they_are_apart(sampling: Sampling) -> None:
    for law in (Law.RAW, Law.TEMPERED):
        judgement = beside_cut_rows(law, law, sampling)
        assert (judgement.verdict, judgement.tables[0].rows[0][1:]) == (Verdict.PASS, (law, law))
    assert beside_cut_rows(Law.RAW, Law.TEMPERED, sampling).codes == ("CLASS_MIX",)
    assert beside_cut_rows(Law.TEMPERED, Law.RAW, sampling).codes == ("CLASS_MIX",)


def test_a_cut_row_tells_them_by_text_too() -> None:
    judgement = beside_cut_rows(Law.TEMPERED, Law.TEMPERED, ids=False)
    assert (judgement.verdict, judgement.tables[0].rows[0][1:]) == (Verdict.PASS, (Law.TEMPERED, Law.TEMPERED))
    assert beside_cut_rows(Law.RAW, Law.TEMPERED, ids=False).codes == ("CLASS_MIX",)


def test_what_fits_no_law_beside_a_cut_row_accuses_nobody() -> None:
    """There may be laws that only the whole row could tell."""
    judgement = beside_cut_rows(Law.RAW, Law.TEMPERED, error=0.1)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.tables[0].rows[0][1:] == (Law.RAW, None)


def test_a_cut_row_tells_the_law_after_top_k_where_that_cuts_shorter() -> None:
    assert judged(of(Law.PROCESSED, WARM, listed=3)).verdict is Verdict.INCONCLUSIVE
    assert judged(of(Law.PROCESSED, CUT, listed=3)).verdict is Verdict.PASS


def test_tokens_that_are_not_told_leave_the_others_to_be_judged() -> None:
    some = probed(lambda n, token: None if n == 2 else value(Law.RAW, token, BOTH) + 0.5 * (n == 4), BOTH)
    assert judged(some).codes == ("CLASS_MIX",)


def test_a_mix_in_one_condition_is_not_hidden_by_the_others() -> None:
    def mixed(n: int, token: int) -> float:
        return value(Law.PROCESSED if n else Law.RAW, token, CUT)

    assert judged(of(Law.RAW, WARM), probed(mixed, CUT)).codes == ("CLASS_MIX",)


def test_values_of_no_known_law_from_token_1_on_are_units() -> None:
    wrong = probed(lambda _, token: value(Law.RAW, token, BOTH) + 0.5, BOTH)
    judgement = judged(wrong)
    assert judgement.codes == ("UNITS",)
    assert "token 1 describes none of these" in judgement.summary


def test_the_second_token_counts_as_a_later_one() -> None:
    some = probed(lambda n, token: value(Law.RAW, token, BOTH) + 0.5 * (n == 1), BOTH)
    assert judged(some).codes == ("CLASS_MIX",)


def test_a_first_token_of_no_known_law_is_enough() -> None:
    assert judged(probed(lambda _, token: value(Law.RAW, token, BOTH) + 0.5, BOTH, n=1)).codes == ("UNITS",)


def test_the_law_is_the_one_whose_worst_value_fits_best() -> None:
    """At temperature 2 the second token's value is -1.416, and -1.386 in the raw law, which the first one's does not fit."""

    def nearly(_: int, token: int) -> float:
        return value(Law.RAW, 1, WARM) if token else value(Law.TEMPERED, 0, WARM) + 0.005

    assert judged(probed(nearly, WARM), noise=0.005).verdict is Verdict.PASS


def test_one_answer_token_or_failed_answers_tell_nothing() -> None:
    short = probed(lambda _, token: value(Law.RAW, token, BOTH), BOTH, n=1)
    judgement = judged(short)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "no values after token 1 from" in judgement.summary
    failed = of(Law.PROCESSED, BOTH)
    failed = replace(failed, answer=replace(failed.answer, status=500, error="broken"))
    assert len(judged(of(Law.RAW, BOTH), failed).tables[0].rows) == 1
    assert judged(replace(short, tokens=()), of(Law.RAW, BOTH)).verdict is Verdict.PASS
    later = probed(lambda n, token: value(Law.RAW, token, BOTH) if n else None, BOTH)
    assert judged(later).verdict is Verdict.INCONCLUSIVE


def test_some_drafted_tokens_without_values_leave_it_undecided() -> None:
    some = of(Law.RAW, BOTH)
    tokens = [t.token if n != 3 else made.placeholder(1) for n, t in enumerate(some.tokens)]
    answer = made.answer(tokens, sampling=BOTH, drafted=5, accepted=1)
    judgement = judged(Probed(answer, tuple(Scored(t, row()) for t in tokens)))
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "1 tokens after the first" in judgement.summary


def test_nothing_drafted_is_undecided_and_a_pass_says_what_was() -> None:
    some = of(Law.RAW, BOTH)
    undrafted = replace(some, answer=replace(some.answer, drafted=None, accepted=None))
    assert judged(undrafted).verdict is Verdict.INCONCLUSIVE
    assert "drafted ones included" in judged(some).summary
    assert "no drafting" in judge(Evidence(made.LIVE_OFF, 1e-6, (undrafted,)), Terms()).summary
