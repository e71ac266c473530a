"""What the audit takes for granted of every built-in check."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes import FACTS

from draftproof.auditing import all_checks, all_comparisons
from draftproof.auditing.safety import ROWS
from draftproof.auditing.selftest import run_controls
from draftproof.checks.check import AnyCheck
from draftproof.core.probe import Effort
from draftproof.core.terms import Terms
from draftproof.core.verdict import Verdict

CHECKS = (*all_checks(), *all_comparisons())
each = pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.name)


@each
def test_controls_are_judged_right_after_a_trip_through_json(check: AnyCheck) -> None:
    assert run_controls([check], Terms()).wrong == ()


@each
def test_controls_show_that_it_can_fail_pass_and_be_undecided(check: AnyCheck) -> None:
    verdicts = {e.verdict for e in check.examples}
    assert {Verdict.PASS, Verdict.INCONCLUSIVE} <= verdicts
    if check.aspects:
        assert Verdict.FAIL in verdicts


@each
def test_check_without_a_share_of_alpha_does_not_use_it(check: AnyCheck) -> None:
    if not check.statistical:
        assert run_controls([check], Terms(alpha=0.0)).wrong == ()


@each
def test_texts_are_there_and_aspects_are_rows_of_the_table(check: AnyCheck) -> None:
    assert all((check.claim, check.blind_to, check.remedy, check.judge.__doc__))
    assert set(check.aspects) <= set(ROWS)


@each
def test_cost_is_known_for_every_effort(check: AnyCheck) -> None:
    facts = replace(FACTS, vocabulary=8, max_alternatives=5, token_prompts=True, token_ids=True)
    if not check.applies(facts):
        costs = [check.requests(facts, effort) for effort in Effort]
        assert costs == sorted(costs)
        assert costs[0] >= 0


def test_names_are_unique_and_every_row_has_a_check() -> None:
    names = [c.name for c in CHECKS]
    assert len(set(names)) == len(names)
    assert {aspect for c in CHECKS for aspect in c.aspects} == set(ROWS)
