from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.fakes import FACTS

from draftproof.checks import examples as made
from draftproof.checks.contexts import Scored, after, cache_noise, ceiling, contexts, entries_in_place
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


def told(*ids: int | None, texts: str = "abcd") -> Completion:
    """An answer of these tokens, of which some have no id."""
    tokens = [replace(made.true_token(n), id=i, text=texts[n]) for n, i in enumerate(ids)]
    return replace(made.answer(tokens), token_ids=None, text=texts)


def test_a_context_of_ids_is_the_prompt_and_the_tokens_before() -> None:
    whole = made.answer([made.true_token(n) for n in (0, 1, 2)])
    assert after((7, 8), whole, 0) == (7, 8)
    assert after((7, 8), whole, 2) == (7, 8, 0, 1)
    assert after((7, 8), whole, 3) == (7, 8, 0, 1, 2)
    assert after((7, 8), whole, 4) is None
    renamed = replace(whole, token_ids=(4, 3, 2))
    assert after((7, 8), renamed, 2) == (7, 8, 4, 3), "the ids of the answer come before those of its entries"
    assert after((7, 8), told(0, None, 2), 1) == (7, 8, 0)
    assert after((7, 8), told(0, None, 2), 2) is None
    assert after((7, 8), told(0, 1, 2), 3) == (7, 8, 0, 1, 2)
    assert after((7, 8), told(0, -1, 2), 2) is None
    assert after((7, 8), told(1, 1, 2), 2) == (7, 8, 1, 1)


def test_a_context_of_text_is_whole_characters() -> None:
    assert after("x ", told(0, 1), 2) == "x ab"
    assert after("x ", told(0, 1), 3) is None
    assert after("x ", told(0, 1, texts="a\ufffd"), 1) == "x a"
    assert after("x ", told(0, 1, texts="a\ufffd"), 2) is None


def test_contexts_end_where_one_cannot_be_written_down_or_at_the_limit() -> None:
    assert contexts(replace(told(0, None, 2), ask=replace(told(0).ask, prompt=(7,)))) == [(7,), (7, 0)]
    whole = made.answer([made.true_token(n) for n in (0, 1, 2)])
    whole = replace(whole, ask=replace(whole.ask, prompt=(7,)))
    assert contexts(whole) == [(7,), (7, 0), (7, 0, 1)]
    assert contexts(whole, 2) == [(7,), (7, 0)]
    assert contexts(whole, 9) == [(7,), (7, 0), (7, 0, 1)]
    assert contexts(replace(whole, tokens=())) == [(7,), (7, 0), (7, 0, 1)]


def test_a_token_is_found_by_id_or_where_it_has_none_by_text() -> None:
    row = OracleRow((5, 6), ("a", "b"), (-0.5, -1.5), 1)

    def true(number: int | None, text: str) -> float | None:
        return Scored(replace(made.true_token(0), id=number, text=text), row).true

    assert true(6, "a") == -1.5
    assert true(7, "a") is None
    assert true(None, "a") == -0.5
    assert true(None, "c") is None


def test_a_token_outside_a_row_has_at_most_what_is_left_or_the_least_listed() -> None:
    def top(*law: float) -> float:
        return ceiling(OracleRow(tuple(range(len(law))), tuple("abcdef"[: len(law)]), tuple(map(math.log, law)), 1))

    assert top(0.6, 0.3) == pytest.approx(math.log(0.1))
    assert top(0.4, 0.1, 0.05) == pytest.approx(math.log(0.1)), "the drawn token may stand below the list"
    assert top(0.5, 0.5) == -math.inf
    assert top(0.9) == pytest.approx(math.log(0.1))
    assert ceiling(OracleRow((), (), (), 1)) == 0.0


def test_entries_are_in_place_up_to_the_first_that_is_another_token() -> None:
    whole = made.answer([made.true_token(n) for n in (0, 1, 2)])
    assert entries_in_place(whole) == whole.tokens
    assert entries_in_place(replace(whole, token_ids=None)) == whole.tokens
    assert entries_in_place(replace(whole, token_ids=(0, 4, 2))) == whole.tokens[:1]
    nameless = replace(whole, tokens=tuple(replace(t, id=None) for t in whole.tokens))
    assert entries_in_place(nameless) == nameless.tokens
