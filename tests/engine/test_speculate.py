from __future__ import annotations

from typing import Any

import pytest
from tests.engine.models import noisy, random_table, run

from draftproof.core.coin import RngCoin
from draftproof.core.errors import UsageError
from draftproof.core.sampling import GREEDY, NEUTRAL, Sampling
from draftproof.core.speculation import OFF, DraftModel, NgramLookup, NgramMod, Speculation
from draftproof.engine.draft.kind import Setup
from draftproof.engine.draft.ngram_pool import NgramPool
from draftproof.engine.draft.pace import Costs, Paced
from draftproof.engine.generate import Job
from draftproof.engine.in_step import run_alone
from draftproof.engine.passes import RowCosts
from draftproof.engine.speculate import make_plan
from draftproof.engine.verify import greedy, match, rejection

TARGET = random_table(1)
DRAFT = noisy(TARGET, 2)


def setup(sampling: Sampling = NEUTRAL, **asked: Any) -> Setup:
    return Setup(TARGET, Speculation(**asked), sampling, draft=DRAFT)


def test_nothing_asked_nothing_done_and_nothing_to_explain() -> None:
    plan = make_plan(Setup(TARGET))
    assert (plan.requested, plan.effective, plan.reason, plan.drafter.name) == (OFF, (), "", "none")


@pytest.mark.parametrize(
    ("sampling", "rule", "expected"),
    [
        (NEUTRAL, "auto", rejection.RULE),
        (GREEDY, "auto", greedy.RULE),
        (Sampling(temperature=0, typical_p=0.5), "auto", rejection.RULE),
        (NEUTRAL, "match", match.RULE),
        (GREEDY, "rejection", rejection.RULE),
    ],
)
def test_the_rule_is_the_one_asked_for_or_the_one_that_fits(sampling: Sampling, rule: str, expected: object) -> None:
    plan = make_plan(setup(sampling, types=("draft-simple",), rule=rule))
    assert plan.rule is expected
    assert plan.effective == ("draft-simple",)


def test_a_rule_that_would_change_the_law_is_refused_with_the_reason() -> None:
    plan = make_plan(setup(types=("draft-simple",), rule="greedy"))
    assert plan.effective == ()
    assert "temperature 0" in plan.reason
    assert plan.rule is rejection.RULE


def test_a_prompt_that_another_request_had_is_no_repetition() -> None:
    """A pool that all requests fill knows it by heart, which says nothing of how the text goes on."""
    asked = Speculation(types=("ngram-mod",), ngram_mod=NgramMod(n_match=2, n_min=0, n_max=48))
    costs, pool = Costs(RowCosts((6.0, 9.0, 11.0, 12.0, 13.0), ((49, 60.0),))), NgramPool()
    drafted = []
    for prompt in (range(200), range(100)):
        plan = make_plan(Setup(TARGET, asked, pool=pool), costs)
        drafted.append(run_alone(plan.drafter.propose(list(prompt), 48, RngCoin(1))).tokens)
    assert drafted == [(), (100, 101, 102, 103)]


def test_a_missing_draft_model_is_told() -> None:
    plan = make_plan(Setup(TARGET, Speculation(types=("draft-simple", "ngram-cache"))))
    assert plan.effective == ("ngram-cache",)
    assert "no draft model" in plan.reason


@pytest.mark.parametrize("asked", [{"types": ("nonsense",)}, {"types": ("draft-simple",), "rule": "nonsense"}])
def test_unknown_names_are_errors(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="nonsense"):
        make_plan(setup(**asked))


def test_several_types_are_tried_in_their_order() -> None:
    plan = make_plan(setup(types=("ngram-cache", "draft-simple", "ngram-cache"), adaptive=False))
    assert plan.drafter.name == "ngram-cache,draft-simple"
    assert plan.effective == ("ngram-cache", "draft-simple")


def test_a_seeded_answer_does_not_depend_on_which_of_several_drafters_others_feed() -> None:
    both = ("ngram-mod", "draft-simple")
    assert make_plan(setup(types=both)).rule.name == "match"
    assert make_plan(setup(types=both, rule="rejection")).rule.name == "rejection"
    assert make_plan(setup(types=("ngram-simple", "draft-simple"))).rule.name == "rejection"
    assert make_plan(setup(types=("ngram-mod",))).rule.name == "rejection"


def test_lengths_are_paced_unless_told_otherwise() -> None:
    assert isinstance(make_plan(setup(types=("ngram-cache",))).drafter, Paced)
    assert not isinstance(make_plan(setup(types=("ngram-cache",), adaptive=False)).drafter, Paced)


def test_one_number_caps_every_type() -> None:
    plan = make_plan(setup(types=("draft-simple",), n_max=2, draft=DraftModel(n_max=9), adaptive=False))
    counters = run(TARGET, Job((0,), 30, seed=1), plan.drafter, plan.rule, n_max=plan.n_max).generation.counters
    assert len(counters.drafted_by_position) == 2
    off = make_plan(setup(types=("draft-simple",), n_max=0))
    assert (off.effective, off.n_max) == ((), 0)


def test_strict_keeps_to_batches_that_are_bit_for_bit_like_single_tokens() -> None:
    target = random_table(1)
    target.max_rows_exact = 4
    plan = make_plan(Setup(target, Speculation(types=("draft-simple",), n_max=8, strict=True), draft=DRAFT))
    assert plan.n_max == 3
    assert "at most 3 drafted tokens" in plan.reason
    plan = make_plan(Setup(target, Speculation(types=("draft-simple",), strict=True), draft=DRAFT))
    assert (plan.n_max, plan.reason) == (3, "")  # nobody asked for more
    target.max_rows_exact = 1
    assert make_plan(Setup(target, Speculation(types=("draft-simple",), strict=True), draft=DRAFT)).effective == ()


@pytest.mark.parametrize(
    ("kind", "field"), [(DraftModel, "n_max"), (NgramLookup, "size_n"), (NgramMod, "n_match"), (Speculation, "n_max")]
)
def test_settings_that_cannot_be_are_named(kind: Any, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        kind(**{field: -1})


def test_speculation_needs_a_type() -> None:
    with pytest.raises(ValueError, match="types"):
        Speculation(types=())


DEAR = Costs(RowCosts((1.0, 4.0, 4.1, 4.2, 4.3, 4.4, 4.5, 4.6)))
"""Two rows cost as much as four, and eight not much more: only drafts of four tokens or more pay."""


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"types": ("ngram-cache",), "n_max": 3}, "no draft of at most 3 tokens pays here"),
        ({"types": ("ngram-cache",)}, "nothing to look up"),
        ({"types": ("ngram-simple",), "adaptive": False}, "nothing to look up"),
        ({"types": ("draft-simple",), "adaptive": False, "draft": DraftModel(p_min=1.0)}, "no token likely enough"),
    ],
    ids=str,
)
def test_a_drafter_that_drafted_nothing_says_why(asked: dict[str, Any], reason: str) -> None:
    plan = make_plan(setup(**asked), DEAR)
    assert plan.effective
    assert run_alone(plan.drafter.propose([0, 1, 2], min(plan.n_max, 30), RngCoin(1))).tokens == ()
    assert reason in plan.why_nothing(20)


def test_to_be_rehearsed_is_not_to_be_asked() -> None:
    """Or an answer that is too short for a draft that pays would say that there was nothing to look up."""
    plan = make_plan(setup(types=("ngram-simple",)), DEAR)
    assert run_alone(plan.drafter.propose([1, 2, 3, 4, 5] * 30, 2, RngCoin(1))).tokens == ()
    assert plan.why_nothing(20) == "no draft of at most 2 tokens pays here"


def test_who_was_never_asked_knows_no_reason_but_shortness() -> None:
    plan = make_plan(setup(types=("ngram-simple",)), DEAR)
    assert plan.why_nothing(20) == ""
    assert plan.why_nothing(2) == "too short to be drafted for"
