"""How many samples are drawn, and what is said where they were too few."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from tests.fakes import FakeProbe

from draftproof.checks.sampling import distribution, temperature, unchanged
from draftproof.checks.sampling.arms import ENOUGH, Evidence, bound, lacking, next_size
from draftproof.checks.sampling.assessment import option
from draftproof.checks.sampling.collecting import (
    MOST_SAMPLES,
    SECONDS,
    Batch,
    may_shorten,
    next_batch,
)
from draftproof.core.probe import Effort, Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Verdict

QUICK = Effort.QUICK
DUE_S = SECONDS[QUICK]


def probe(samples: int | None = None) -> Probe:
    return cast("Probe", FakeProbe(lambda: None, samples=samples))


@pytest.mark.parametrize("took_s", [0.01, 1.0, DUE_S / 20])
def test_as_long_as_there_is_time_the_number_alone_decides(took_s: float) -> None:
    assert next_batch(64, 0, took_s, QUICK, coupled=True) == Batch(64)
    assert next_batch(64, 0, took_s, QUICK, coupled=False) == Batch(960)
    assert next_batch(1024, 0, took_s, QUICK, coupled=False) == Batch(512)


def test_a_slow_server_is_asked_for_what_it_can_answer_in_time() -> None:
    assert next_batch(64, 0, DUE_S / 5, QUICK, coupled=False) == Batch(256)
    assert next_batch(64, 0, DUE_S / 2, QUICK, coupled=False) == Batch(64)
    assert next_batch(64, 0, 0.6 * DUE_S, QUICK, coupled=False) == Batch(0)


def test_what_the_bound_lacks_is_drawn_though_the_time_is_up_where_that_is_little() -> None:
    assert next_batch(1024, 100, 0.9 * DUE_S, QUICK, coupled=False) == Batch(115, first_only=True)
    assert next_batch(1024, 100, 1.1 * DUE_S, QUICK, coupled=False) == Batch(115, first_only=True)
    assert next_batch(1024, 100, 1.3 * DUE_S, QUICK, coupled=False) == Batch(0)
    assert next_batch(1024, 900, 0.9 * DUE_S, QUICK, coupled=False) == Batch(0)
    assert next_batch(1024, 0, 0.9 * DUE_S, QUICK, coupled=False) == Batch(0)


def test_above_quick_effort_time_is_kept_for_what_the_bound_lacks_as_long_as_it_can_be_had() -> None:
    """150 seconds, 200 with grace, and 3,600 answers of the first condition to come."""

    def batch(total: int, took_s: float, alone_s: float) -> Batch:
        return next_batch(total, 3600, took_s, Effort.STANDARD, coupled=False, alone_s=alone_s)

    assert batch(64, 20, 0) == Batch(416)
    assert batch(64, 20, 0.025) == Batch(144), "45 of 180 seconds are left"
    assert batch(64, 20, 0.034) == Batch(4140, first_only=True), "none are"
    assert batch(64, 20, 0.005) == Batch(416)
    assert batch(64, 20, 0.05) == Batch(416), "it cannot be had"
    assert batch(320, 90, 0.025) == Batch(4140, first_only=True)
    assert batch(320, 100, 0.025) == Batch(4000, first_only=True), "less to spare"
    assert batch(320, 100, 0.03) == Batch(0)


def test_a_quick_audit_looks_for_shorter_answers_only_where_the_others_would_come_too_late() -> None:
    """336 more than 64 take 6.25 times as long as those did."""
    assert not may_shorten(64, 336, 0.15 * DUE_S, QUICK)
    assert may_shorten(64, 336, 0.17 * DUE_S, QUICK)
    assert may_shorten(64, 1, 0.01, Effort.STANDARD)
    assert not may_shorten(64, 0, DUE_S, QUICK)


def test_a_slow_server_has_time_left_for_short_answers() -> None:
    assert next_batch(64, 336, 0.4 * DUE_S, QUICK, coupled=False, alone_s=0.1) == Batch(387, first_only=True)
    assert next_batch(64, 336, 0.4 * DUE_S, QUICK, coupled=False, alone_s=0.2) == Batch(96), (
        "nor is there time for them"
    )


def test_above_quick_effort_no_more_is_drawn_than_the_bound_lacks() -> None:
    def batch(total: int, lacking: int, effort: Effort) -> Batch:
        return next_batch(total, lacking, 1, effort, coupled=False)

    assert batch(4096, 1000, Effort.DEEP) == Batch(1150, first_only=True)
    assert batch(4096, 1800, Effort.DEEP) == Batch(2048), "more than half of what there is"
    assert batch(4096, 0, Effort.DEEP) == Batch(2048), "it is not known"
    assert batch(1023, 100, Effort.DEEP) == Batch(511)
    assert batch(4096, 1000, QUICK) == Batch(2048)


def lacks(evidence: Evidence) -> int:
    return lacking(evidence, bound(evidence, Terms().pass_error), Terms().target_tv)


def test_pairs_are_drawn_on_while_they_can_give_the_bound() -> None:
    near, far = unchanged._made(n=600), unchanged._made(n=60)
    enough = ENOUGH[QUICK]
    assert next_size(enough - 1, lacks(far), probe()) > 0
    assert 0 < next_size(enough + 1, lacks(near), probe()) < (enough + 1) // 4 + 1
    assert next_size(MOST_SAMPLES[QUICK], lacks(near), probe()) == 0
    assert next_size(enough + 1, lacks(replace(near, rows=())), probe()) == 0
    assert next_size(256, lacks(near), probe(samples=300)) == 44
    assert next_size(300, lacks(near), probe(samples=300)) == 0


def test_what_is_lacking_is_said_in_samples_and_never_as_an_effort_that_asks_for_more() -> None:
    short = [
        distribution.judge(replace(distribution._made("law", n=60), ended_s=44.9), Terms()),
        unchanged.judge(replace(unchanged._made(n=60), ended_s=44.9), Terms()),
    ]
    for judgement in short:
        assert judgement.verdict is Verdict.INCONCLUSIVE
        assert "sampling ended after 45 s, its time at this effort" in judgement.summary
        assert judgement.more > 0
        assert "more samples" in judgement.missing
        assert "--samples" in judgement.missing
        assert "--effort" not in judgement.missing
        assert isinstance(judgement.measured["samples"], int)
    assert "its time" not in unchanged.judge(unchanged._made(n=60), Terms()).summary
    late = temperature.judge(replace(temperature._made(2.0, n=10), ended_s=20.2), Terms())
    assert "ended after 20 s" in late.summary


def test_the_samples_that_are_named_are_enough() -> None:
    """Seeded: with as many as were said, the same evidence passes."""
    few = unchanged.judge(unchanged._made(n=300), Terms())
    assert few.verdict is Verdict.INCONCLUSIVE
    named = int(few.missing.split("--samples ")[1].rstrip(")"))
    assert 300 + few.more <= named <= 1.4 * (300 + few.more)
    assert unchanged.judge(unchanged._made(n=named), Terms()).verdict is Verdict.PASS


@pytest.mark.parametrize(("samples", "said"), [(1, 10), (95, 120), (640, 800), (1234, 1600)])
def test_numbers_of_samples_are_round(samples: int, said: int) -> None:
    assert option(samples) == f"--samples {said}"
