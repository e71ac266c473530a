from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.fakes import FACTS

from draftproof.checks.contexts import Scored, cache_noise, ceiling
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.probe import OracleRow
from draftproof.core.tokens import Alternative, TokenRecord


def test_the_drawn_token_below_the_list_does_not_lower_the_ceiling_of_others() -> None:
    listed, drawn = (math.log(0.5), math.log(0.2), math.log(0.1)), math.log(1e-6)
    row = OracleRow((0, 1, 2, 9), ("a", "b", "c", "j"), (*listed, drawn), 1)
    assert math.isclose(ceiling(row), math.log(0.1))


def test_the_mass_that_is_left_limits_a_token_that_is_not_listed() -> None:
    row = OracleRow((0, 1), ("a", "b"), (math.log(0.6), math.log(0.399)), 1)
    assert math.isclose(ceiling(row), math.log(0.001), rel_tol=1e-9)


LONG = "the whole of a prompt that is longer than one batch"


class Caching:
    """A probe of a server whose values depend on whether the prompt was in its cache."""

    def __init__(self, uncached: tuple[tuple[str, bool], ...] = ()) -> None:
        self.facts = replace(FACTS, uncached=uncached, max_alternatives=2)
        self.seen: set[Prompt] = set()

    def ask(self, ask: Ask) -> Completion:
        off = 0.0 if ask.prompt in self.seen and not ask.extra else 0.2
        self.seen.add(ask.prompt)
        return Completion(ask, 1, "/completion", 200, tokens=(self.token(off),))

    @staticmethod
    def token(off: float) -> TokenRecord:
        listed = (Alternative(0, "a", -0.5 - off), Alternative(1, "b", -1.0 - off))
        return TokenRecord(0, "a", None, -0.5 - off, listed)


@pytest.mark.parametrize("uncached", [(), (("cache_prompt", False),)])
def test_noise_of_the_cache_is_measured_at_the_length_of_an_answer(uncached: tuple[tuple[str, bool], ...]) -> None:
    probe = Caching(uncached)
    answer = Completion(Ask(LONG, 1), 1, "/completion", 200, tokens=(probe.token(0.0),))
    scored = (Scored(probe.token(0.0), OracleRow((0, 1), ("a", "b"), (-0.5, -1.0), 1)),)
    assert math.isclose(cache_noise(probe, [(answer, scored)]), 0.2, rel_tol=1e-6)  # type: ignore[arg-type]
    assert {len(context) for context in probe.seen} == {len(LONG)}
