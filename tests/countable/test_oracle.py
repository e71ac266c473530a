"""The forward pass against laws that were computed by another program."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from draftproof.core.errors import UsageError
from draftproof.countable.oracle import CountablePair

INDEPENDENT = Path(__file__).parent.parent / "data" / "countable-independent"
PROMPT = (1, 2, 3, 1, 2)


@pytest.fixture(scope="module")
def independent() -> CountablePair:
    return CountablePair(INDEPENDENT / "target.gguf", INDEPENDENT / "draft.gguf")


@pytest.mark.parametrize("which", ["target", "draft"])
def test_agrees_with_the_independent_laws(independent: CountablePair, which: str) -> None:
    told = json.loads((INDEPENDENT / "law.json").read_text())[which]
    law = getattr(independent, which)
    assert np.exp(law(PROMPT)) == pytest.approx(told["first"], abs=1e-8)
    for letter, second in told["second_given_first"].items():
        assert np.exp(law((*PROMPT, "abcdefgh".index(letter)))) == pytest.approx(second, abs=1e-8)


def test_one_context_or_many_in_any_order_is_the_same_law(independent: CountablePair) -> None:
    rng = np.random.default_rng(7)
    contexts = [tuple(rng.integers(0, 8, size=length).tolist()) for length in rng.integers(1, 40, size=60)]
    many = independent.target_many(contexts)
    fresh = CountablePair(INDEPENDENT / "target.gguf", INDEPENDENT / "draft.gguf")
    one_by_one = np.stack([fresh.target(context) for context in reversed(contexts)])[::-1]
    assert many == pytest.approx(one_by_one, abs=1e-13)


def test_a_context_that_the_model_cannot_have_is_refused(independent: CountablePair) -> None:
    for context in ((), (8,), (-1, 2), (1,) * 4097):
        with pytest.raises(UsageError):
            independent.target(context)


def test_a_memory_that_starts_afresh_gives_the_same_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    from draftproof.countable import incremental, story

    contexts = [(1, 2, *divmod(n, 8)) for n in range(64)]
    expected = story.build().target_many(contexts)
    monkeypatch.setattr(incremental, "REMEMBERED", 5)
    forgetful = story.build()
    for start in range(0, 64, 7):
        np.testing.assert_allclose(
            forgetful.target_many(contexts[start : start + 7]), expected[start : start + 7], atol=1e-12
        )
    assert isinstance(forgetful.target_model, incremental.Incremental)
    assert len(forgetful.target_model._memory.index) < 40
