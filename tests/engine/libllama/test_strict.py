"""What the strict settings are for: a greedy answer with speculation is the one without, token for token, on a real model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.engine.libllama.models import smollm2

from draftproof.core.sampling import GREEDY
from draftproof.core.speculation import DraftModel, NgramLookup, Speculation
from draftproof.engine.backends.llama import LlamaBackend, LlamaOptions
from draftproof.engine.draft.pace import Costs
from draftproof.engine.generate import Job
from draftproof.engine.libllama import ContextOptions
from draftproof.engine.slot import Models, Order
from draftproof.engine.slots import Slots

pytestmark = pytest.mark.real

PROMPTS = [
    "Count: one, two, three, one, two, three, one, two,",
    "The library was closed, and the committee",
]
NGRAM = Speculation(("ngram-simple",), adaptive=False, strict=True, ngram_simple=NgramLookup(size_n=2))
SELF = Speculation(("draft-simple",), adaptive=False, strict=True, draft=DraftModel(n_max=64))
ADAPTIVE = Speculation(("ngram-simple",), strict=True, ngram_simple=NgramLookup(size_n=2))


@pytest.fixture(scope="module")
def slots() -> Iterator[Slots]:
    options = LlamaOptions(context=ContextOptions(tokens=512, sequences=2, outputs=64))
    target, draft = (LlamaBackend(smollm2(), options) for _ in range(2))
    made = Slots(
        Models(target, draft, costs=lambda: Costs(target.row_costs)),
        2,
    )
    yield made
    made.close()
    made.models.close()


def answers(slots: Slots, speculation: Speculation) -> tuple[list[list[int]], int, int]:
    """The answers to all prompts, made at once; the most tokens of a draft; how many were accepted."""
    target = slots.models.target
    assert isinstance(target, LlamaBackend)
    jobs = [Job(tuple(target.model.vocab.tokenize(p)), 48, GREEDY, ignore_eog=True) for p in PROMPTS]
    runs = [slots.start(Order(job, speculation, reuse=False)) for job in jobs]
    while slots.runs:
        slots.step()
    counters = [run.generation.counters for run in runs]
    longest = max(len(c.drafted_by_position) for c in counters)
    made = [run.generation.context[len(job.prompt) :] for job, run in zip(jobs, runs, strict=True)]
    return made, longest, sum(c.accepted for c in counters)


@pytest.mark.parametrize("speculation", [NGRAM, SELF, ADAPTIVE], ids=["ngram", "self", "adaptive"])
def test_greedy_answers_are_the_plain_ones_token_for_token(slots: Slots, speculation: Speculation) -> None:
    plain, _, _ = answers(slots, Speculation())
    found, longest, accepted = answers(slots, speculation)
    assert found == plain
    assert accepted > 0
    assert longest <= (48 if speculation is not SELF else 63)
    assert longest > 7 or speculation is ADAPTIVE
