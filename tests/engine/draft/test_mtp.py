"""The prediction head as a kind of drafter, as requests name it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.engine.libllama.models import PROMPT, backend
from tests.engine.models import random_table

from draftproof.core.sampling import GREEDY, NEUTRAL, Sampling
from draftproof.core.speculation import DraftModel, Speculation
from draftproof.engine.backends.llama_head import LlamaHead
from draftproof.engine.draft.kind import Setup
from draftproof.engine.draft.pace import Costs, Paced
from draftproof.engine.generate import Job, generate
from draftproof.engine.passes import RowCosts
from draftproof.engine.slot import Models, Order
from draftproof.engine.slots import Slots
from draftproof.engine.speculate import make_plan

FILES = ["mtp.gguf", "mtp-hy_v3.gguf", "mtp-hy_v3-v10.gguf"]
HEAD = Speculation(types=("draft-mtp",), adaptive=False)


@pytest.mark.parametrize("name", FILES)
def test_answers_drafted_by_the_head_are_the_plain_ones(name: str) -> None:
    target = backend(name, heads=True, sequences=2)
    alone = backend(name)
    slots = Slots(Models(target, head=LlamaHead(target)), 2)
    prompts = [PROMPT, [7, 0, 7], [*PROMPT, 5, 5], PROMPT]
    for sampling, rule in ((GREEDY, "auto"), (NEUTRAL, "match")):
        for pair in (prompts[:2], prompts[2:]):
            jobs = [Job(tuple(prompt), 24, sampling, seed=3) for prompt in pair]
            speculation = Speculation(types=("draft-mtp",), rule=rule, adaptive=False)
            runs = [slots.start(Order(job, speculation)) for job in jobs]
            while slots.runs:
                slots.step()
            for job, run in zip(jobs, runs, strict=True):
                assert run.error is None
                assert run.plan.effective == ("draft-mtp",)
                assert run.generation.context[len(job.prompt) :] == [e.token for e in generate(alone, job)]
                assert run.generation.counters.drafted > 0
    slots.close()
    slots.models.close()
    alone.close()


def test_a_draft_model_and_a_head_can_be_had_at_once() -> None:
    target = backend("mtp.gguf", heads=True)
    draft = backend("mtp.gguf")
    slots = Slots(Models(target, draft=draft, head=LlamaHead(target)), 1)
    run = slots.start(Order(Job(tuple(PROMPT), 12), Speculation(types=("draft-mtp", "draft-simple"), adaptive=False)))
    assert run.plan.drafter.name == "draft-mtp,draft-simple"
    while slots.runs:
        slots.step()
    assert run.error is None
    slots.close()
    slots.models.close()


def test_the_heads_own_cost_decides_how_much_it_drafts() -> None:
    table = random_table(1)
    speculation = Speculation(types=("draft-mtp",), n_max=3, draft=DraftModel(n_max=3))
    setup = Setup(table, speculation, Sampling(), head=random_table(1))
    plan = make_plan(setup, Costs(RowCosts((1.0,) * 8), draft=9.0, head=0.1))
    assert isinstance(plan.drafter, Paced)
    answer = generate(table, Job((0,), 20), drafter=plan.drafter, rule=plan.rule, n_max=plan.n_max)
    assert any(e.origin != "plain" for e in answer)
    dear = make_plan(setup, Costs(RowCosts((1.0,) * 8), draft=0.1, head=9.0))
    assert dear.effective == ()
    assert "would pay" in dear.reason
    fixed = make_plan(
        replace(setup, speculation=replace(speculation, adaptive=False)), Costs(RowCosts((1.0,) * 8), head=9.0)
    )
    assert fixed.effective == ("draft-mtp",)


def test_without_a_head_the_reason_is_told() -> None:
    plan = make_plan(Setup(random_table(1), HEAD))
    assert plan.effective == ()
    assert "no prediction head is loaded" in plan.reason
