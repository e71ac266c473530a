"""The built-in pair must show every named fault. If one fails, benches/choose_countable.py finds another pair."""

from __future__ import annotations

import pytest

from draftproof.core.sampling import NEUTRAL
from draftproof.countable import story
from draftproof.countable.catalogue import builtin
from draftproof.countable.law import next_laws
from draftproof.countable.power import fault_strengths, sampled_contexts
from draftproof.stats.faults import FAULTS

LEAST = 2e-3
LEAST_LENIENT = 5e-4
"""p/(.95 q) instead of p/q is the smallest fault by nature."""


@pytest.fixture(scope="module")
def strengths() -> dict[str, float]:
    pair = builtin()
    contexts = sampled_contexts(pair.target_many, story.ids(story.PROMPT), requests=300)
    return fault_strengths(pair, contexts)


@pytest.mark.parametrize("name", [fault.name for fault in FAULTS])
def test_every_named_fault_shows(strengths: dict[str, float], name: str) -> None:
    assert strengths[name] >= (LEAST_LENIENT if name == "lenient_ratio_0.95" else LEAST)


def test_contexts_are_drawn_from_the_target() -> None:
    pair = builtin()
    prompt = story.ids(story.PROMPT)
    contexts = sampled_contexts(pair.target_many, prompt, requests=4000, tokens=2)
    first = next_laws(pair.target_many, [prompt], NEUTRAL)[0]
    share = sum(context[-1] == story.ids("f")[0] for context in contexts) / len(contexts)
    assert share == pytest.approx(first[story.ids("f")[0]], abs=0.02)
    assert {len(context) for context in contexts} == {len(prompt) + 1}
