from __future__ import annotations

from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.drafting import (
    DECLARED,
    LONG_DRAFT,
    Drafting,
    Reports,
    batches,
    drafted_places,
    drafting,
    drafts,
    effective,
    has_placeholder,
    is_on,
    states,
    together,
    tokens_per_step,
    why_inconclusive,
    without_drafts,
)
from draftproof.core.ask import Completion, Scalar
from draftproof.core.probe import DRAFT_BATCHES, MANY_ROWS

PLAIN = made.answer([made.true_token(n) for n in (0, 1, 2)])
MARKED = made.answer([made.true_token(0), made.placeholder(1), made.true_token(2)])


@pytest.mark.parametrize(
    ("value", "on"),
    [
        (True, True),
        (False, False),
        (None, False),
        (0, False),
        (3, True),
        ("none", False),
        ("None", False),
        ("off", False),
        ("", False),
        ("[]", False),
        ('["none"]', False),
        ("draft-simple", True),
        ("none,draft-simple", True),
        ('["none", "ngram-mod"]', True),
    ],
)
def test_a_report_is_on_where_it_names_anything_but_none(value: Scalar, on: bool) -> None:
    assert is_on(value) is on


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("/slots speculative", True, True),
        ("/props speculative.types", "none", True),
        ("speculation.effective.types", "[]", True),
        ("speculation.drafter", "none", True),
        ("speculative.n_max", 16, False),
        ("speculative.types", None, False),
        ("speculative.types", 3, False),
        ("speculative.p_min", "0.5", False),
        (DECLARED, True, True),
        (DECLARED, "no", False),
    ],
)
def test_fields_of_kind_and_use_state_it_and_numbers_do_not(name: str, value: Scalar, said: bool) -> None:
    assert states(name, value) is said


def test_drafted_places_are_those_after_the_first_less_an_end_token() -> None:
    assert drafted_places(PLAIN) == PLAIN.tokens[1:]
    assert drafted_places(replace(PLAIN, finish="stop")) == PLAIN.tokens[1:2]
    assert drafted_places(replace(PLAIN, tokens=())) == ()
    assert drafted_places(made.answer([made.placeholder(0), made.true_token(1)])) == ()


def test_an_answer_drafts_by_its_count_or_by_a_token_without_a_list() -> None:
    assert not has_placeholder(PLAIN)
    assert has_placeholder(MARKED)
    assert drafts(MARKED)
    assert not drafts(PLAIN)
    assert not drafts(replace(PLAIN, drafted=0))
    assert drafts(replace(PLAIN, drafted=1))
    unasked = replace(MARKED, ask=replace(MARKED.ask, alternatives=0))
    assert not drafts(unasked)
    assert drafts(replace(MARKED, ask=replace(MARKED.ask, alternatives=1)))


def claiming(claims: tuple[tuple[str, Scalar], ...]) -> Completion:
    return replace(PLAIN, claims=claims)


def test_answers_say_together_what_each_says() -> None:
    assert together([]) is None
    assert together([False, False]) is False
    assert together([False, None]) is None
    assert together([None, True, False]) is True
    assert effective([claiming(made.IN_USE)]) is True
    assert effective([claiming(made.DECLINED)]) is False
    assert effective([claiming(made.UNEXPLAINED)]) is None
    assert effective([PLAIN]) is None


LIVE_UNDER_ANOTHER_NAME: Reports = (("/props speculative.types", "draft-simple"),)


@pytest.mark.parametrize(
    ("reports", "answers", "state"),
    [
        (made.LIVE_OFF, [MARKED], Drafting.SEEN),
        (made.LIVE_ON, [PLAIN], Drafting.SILENT),
        (made.LIVE_OFF, [PLAIN], Drafting.OFF),
        (((DECLARED, False),), [PLAIN], Drafting.OFF),
        (((DECLARED, True),), [PLAIN], Drafting.SILENT),
        (((DECLARED, False), ("/slots speculative", True)), [PLAIN], Drafting.SILENT),
        (made.LIVE_OFF, [claiming(made.IN_USE)], Drafting.SILENT),
        (made.LIVE_ON, [claiming(made.DECLINED)], Drafting.DECLINED),
        (made.LIVE_ON, [claiming(made.DECLINED), PLAIN], Drafting.SILENT),
        (made.LIVE_ON, [claiming(made.DECLINED), replace(PLAIN, error="failed")], Drafting.DECLINED),
        ((), [PLAIN], Drafting.UNKNOWN),
        ((("/props speculative.types", "none"),), [PLAIN], Drafting.UNKNOWN),
        (LIVE_UNDER_ANOTHER_NAME, [PLAIN], Drafting.SILENT),
        ((("/metrics drafted", 5.0),), [PLAIN], Drafting.SILENT),
        ((("/metrics drafted", 0.0),), [PLAIN], Drafting.UNKNOWN),
        ((("speculative.n_max", 16),), [PLAIN], Drafting.UNKNOWN),
        ((), [claiming((("speculative.types", "draft-simple"),))], Drafting.SILENT),
        ((), [claiming((("speculative.n_max", 16),))], Drafting.UNKNOWN),
    ],
)
def test_what_answers_and_reports_show_together(reports: Reports, answers: list[Completion], state: Drafting) -> None:
    assert drafting(reports, answers) is state


def test_without_answers_what_they_said_counts() -> None:
    assert drafting(made.LIVE_ON, [], said=False) is Drafting.DECLINED
    assert drafting(made.LIVE_OFF, [], said=True) is Drafting.SILENT
    assert drafting(made.LIVE_ON, [PLAIN], said=False) is Drafting.SILENT, "the answers at hand say nothing"


def test_long_drafts_are_verified_in_larger_batches() -> None:
    assert batches([replace(PLAIN, drafted=LONG_DRAFT)]) == MANY_ROWS
    assert batches([replace(PLAIN, drafted=31), PLAIN]) == DRAFT_BATCHES
    assert LONG_DRAFT == 32


def test_tokens_per_step_are_those_of_answers_that_count() -> None:
    some = replace(PLAIN, drafted=6, accepted=2, completion_tokens=8)
    assert tokens_per_step([some]) == pytest.approx(8 / 6)
    assert tokens_per_step([some, PLAIN, replace(some, accepted=None), replace(some, completion_tokens=None)]) == (
        pytest.approx(8 / 6)
    )
    assert tokens_per_step([some, replace(some, accepted=5)]) == pytest.approx(16 / 9)
    assert tokens_per_step([replace(some, accepted=8)]) is None
    assert tokens_per_step([replace(some, accepted=0)]) == 1.0
    assert tokens_per_step([]) is None


def test_only_what_was_seen_or_is_said_to_be_off_or_declined_may_pass() -> None:
    assert {state for state in Drafting if not why_inconclusive(state)} == {
        Drafting.SEEN,
        Drafting.OFF,
        Drafting.DECLINED,
    }
    assert without_drafts(Drafting.OFF) == "no drafting on this server"
    assert without_drafts(Drafting.DECLINED).startswith("drafting not done for these requests")
    assert "made to force it" in why_inconclusive(Drafting.SILENT)
    assert "does not say" in why_inconclusive(Drafting.UNKNOWN)
