from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.check import Terms
from draftproof.checks.randomness.batch_mates import MATES, Evidence, judge
from draftproof.checks.randomness.company import Timed
from draftproof.checks.randomness.repeats import Repeat
from draftproof.core.verdict import Judgement, Verdict

ANSWER = made.answer([made.true_token(n * n % 5) for n in range(20)], drafted=9, accepted=3)
KINDS = tuple(kind for kind, _ in MATES)


def judged(*shares: float, kinds: Sequence[str] = KINDS) -> Judgement:
    """Rounds in which the request had company for these shares of its time."""
    rounds = tuple((Timed(ANSWER, 0.0, 10.0), Timed(ANSWER, 0.0, 10.0 * share)) for share in shares)
    return judge(Evidence(made.LIVE_ON, ANSWER, tuple(Repeat(k, ANSWER, ANSWER) for k in kinds), rounds, 0.0), Terms())


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ((0.5,), Verdict.PASS),
        ((0.4,), Verdict.INCONCLUSIVE),
        ((0.1, 0.9), Verdict.PASS),
        ((0.1, 0.2), Verdict.INCONCLUSIVE),
        ((), Verdict.INCONCLUSIVE),
    ],
)
def test_company_for_half_of_the_time_of_one_round_is_needed(shares: tuple[float, ...], verdict: Verdict) -> None:
    assert judged(*shares).verdict is verdict


def test_the_least_company_is_told() -> None:
    assert judged(0.1, 0.9).measured["share of time in company"] == pytest.approx(0.1)
    assert judged().measured["share of time in company"] == 0.0


def test_every_kind_of_mate_must_have_been_tried() -> None:
    assert judged(1.0, kinds=KINDS[:1]).verdict is Verdict.INCONCLUSIVE


def test_company_is_that_of_the_request_itself() -> None:
    """Its mate works alone afterwards for long: 1 of its 10 seconds are shared."""
    rounds = ((Timed(ANSWER, 0.0, 1.0), Timed(replace(ANSWER, exchange=9), 0.0, 10.0)),)
    repeats = tuple(Repeat(k, ANSWER, ANSWER) for k in KINDS)
    judgement = judge(Evidence(made.LIVE_ON, ANSWER, repeats, rounds, 0.0), Terms())
    assert judgement.measured["share of time in company"] == 1.0
