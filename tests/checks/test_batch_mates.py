from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.randomness.batch_mates import MATES, Evidence, judge
from draftproof.checks.randomness.company import Timed
from draftproof.checks.randomness.repeats import Repeat
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

ANSWER = made.answer([made.true_token(n * n % 5) for n in range(20)], drafted=9, accepted=3)
KINDS = tuple(kind for kind, _ in MATES)


def judged(*shares: float, kinds: Sequence[str] = KINDS) -> Judgement:
    """Rounds in which the request had company for these shares of its time, beside each kind in turn."""
    rounds = tuple((Timed(ANSWER, 0.0, 10.0), Timed(ANSWER, 0.0, 10.0 * share)) for share in shares)
    repeats = tuple(Repeat(kinds[i % len(kinds)], ANSWER, ANSWER) for i in range(len(shares)))
    return judge(Evidence(made.LIVE_ON, ANSWER, repeats, rounds, 0.0), Terms())


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ((0.5, 0.5), Verdict.PASS),
        ((0.1, 0.9), Verdict.INCONCLUSIVE),
        ((0.9, 0.4), Verdict.INCONCLUSIVE),
        ((0.1, 0.9, 0.8, 0.2), Verdict.PASS),
        ((0.1, 0.2), Verdict.INCONCLUSIVE),
        ((), Verdict.INCONCLUSIVE),
    ],
)
def test_company_for_half_of_the_time_is_needed_beside_each_kind_in_one_round(
    shares: tuple[float, ...], verdict: Verdict
) -> None:
    assert judged(*shares).verdict is verdict


def test_the_company_that_decides_is_the_one_that_is_told() -> None:
    least = judged(0.1, 0.9, 0.3, 0.2)
    assert least.measured["share of time in company"] == pytest.approx(0.3)
    assert least.summary == "beside an unfiltered request the request was for 30% of its time at most, 50% are needed"
    assert judged(0.9, 0.4).summary.startswith("beside a request with top_k 1 the request was for 40%")
    assert judged().measured["share of time in company"] == 0.0


def test_every_kind_of_mate_must_have_been_tried() -> None:
    assert judged(1.0, 1.0, kinds=KINDS[:1]).summary == "no answers to compare"


def test_company_is_that_of_the_request_itself() -> None:
    """Its mate works alone afterwards for long: 1 of its 10 seconds are shared."""
    rounds = ((Timed(ANSWER, 0.0, 1.0), Timed(replace(ANSWER, exchange=9), 0.0, 10.0)),) * len(KINDS)
    repeats = tuple(Repeat(k, ANSWER, ANSWER) for k in KINDS)
    judgement = judge(Evidence(made.LIVE_ON, ANSWER, repeats, rounds, 0.0), Terms())
    assert judgement.measured["share of time in company"] == 1.0
