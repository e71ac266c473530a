"""The EAGLE-3 draft as a kind of drafter, as requests name it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.engine.libllama.models import EAGLE_DRAFT, EAGLE_TARGET, PROMPT, backend
from tests.engine.models import random_table

from draftproof.core.coin import RngCoin
from draftproof.core.sampling import GREEDY, NEUTRAL, Sampling
from draftproof.core.speculation import DraftModel, NgramLookup, Speculation
from draftproof.engine.backends.llama_eagle import LlamaEagle
from draftproof.engine.draft import kind
from draftproof.engine.draft.drafter import NOTHING
from draftproof.engine.draft.kind import Setup
from draftproof.engine.draft.pace import Costs, time_row
from draftproof.engine.generate import Job, generate
from draftproof.engine.in_step import run_alone
from draftproof.engine.passes import RowCosts
from draftproof.engine.slot import Models, Order
from draftproof.engine.slots import Slots
from draftproof.engine.speculate import make_plan

EAGLE = Speculation(types=("draft-eagle3",), adaptive=False)
MIXED = Speculation(
    types=("ngram-simple", "draft-eagle3"), adaptive=False, ngram_simple=NgramLookup(size_n=2, size_m=3)
)


@pytest.fixture
def slots() -> Iterator[Slots]:
    target = backend(EAGLE_TARGET, sequences=2)
    made = Slots(Models(target, eagle=LlamaEagle(target, EAGLE_DRAFT, rehearse=False)), 2)
    yield made
    made.close()
    made.models.close()


@pytest.mark.parametrize("speculation", [EAGLE, MIXED], ids=["alone", "mixed"])
@pytest.mark.parametrize(
    "sampling", [GREEDY, NEUTRAL, Sampling(repeat_penalty=1.5)], ids=["greedy", "neutral", "penalty"]
)
def test_answers_are_those_without_drafts_in_company_and_on_kept_prompts(
    slots: Slots, speculation: Speculation, sampling: Sampling
) -> None:
    alone = backend(EAGLE_TARGET)
    prompts = [PROMPT, [7, 0, 7], [*PROMPT, 5, 5], PROMPT, [3], [7, 0, 7, 1]]
    reused = 0
    for pair in (prompts[:2], prompts[2:4], prompts[4:]):
        jobs = [Job(tuple(prompt), 24, sampling, seed=3) for prompt in pair]
        runs = [slots.start(Order(job, speculation)) for job in jobs]
        while slots.runs:
            slots.step()
        for job, run in zip(jobs, runs, strict=True):
            assert run.error is None
            assert run.plan.effective == speculation.types
            assert run.generation.context[len(job.prompt) :] == [e.token for e in generate(alone, job)]
            assert run.generation.counters.drafted > run.generation.counters.accepted
            reused += run.reused
    assert reused >= len(PROMPT)
    alone.close()


def test_p_min_looks_at_the_ten_likeliest_whatever_is_asked_for() -> None:
    # a table whose rows are all but even: its likeliest token has far less than one half, and under temperature 0 all
    table = random_table(1)
    settings = Speculation(draft=DraftModel(n_max=3, p_min=0.9))
    drafter = kind("draft-eagle3").open(Setup(table, settings, GREEDY, eagle=table))
    assert run_alone(drafter.propose([0, 1], 3, RngCoin(1))) == NOTHING


def test_before_the_second_token_there_is_nothing_to_draft_from() -> None:
    table = random_table(1)
    drafter = kind("draft-eagle3").open(Setup(table, EAGLE, NEUTRAL, eagle=table))
    assert run_alone(drafter.propose([0], 3, RngCoin(1))) == NOTHING
    draft = run_alone(drafter.propose([0, 1], 3, RngCoin(1)))
    assert (len(draft.tokens), draft.q, draft.drafter) == (3, None, "draft-eagle3")


def test_its_own_cost_is_measured_and_decides() -> None:
    target = backend(EAGLE_TARGET)
    eagle = LlamaEagle(target, EAGLE_DRAFT, rehearse=False)
    target.sequence()
    assert time_row(eagle) > 0
    eagle.close()
    target.close()
    setup = Setup(random_table(1), Speculation(types=("draft-eagle3",)), eagle=random_table(1))
    plan = make_plan(setup, Costs(head=9.0))
    assert plan.effective == ()
    assert "would pay" in plan.reason
    assert make_plan(setup, Costs(RowCosts((1.0,) * 8), draft=9.0, head=0.1)).effective == ("draft-eagle3",)


def test_without_one_the_reason_is_told() -> None:
    plan = make_plan(Setup(random_table(1), EAGLE))
    assert plan.effective == ()
    assert "no EAGLE-3 draft is loaded" in plan.reason
