"""A long prompt with its beginning cached: what is asked, and how rounding is told from a wrong cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from tests.fakes import FACTS

from draftproof.checks import examples as made
from draftproof.checks.randomness.partly import ELSEWHERE, PARTLY, PLACES, Cached, collect
from draftproof.checks.randomness.repeats import Repeat
from draftproof.core.ask import Ask, Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Probe
from draftproof.core.sampling import GREEDY
from draftproof.core.tokens import Alternative, TokenRecord

IDS = (0, 1, 2, 3, 0, 1)
LARGE = replace(FACTS, vocabulary=49_152, uncached=(("cache_prompt", False),), context=4096)


def moved(*by: float, ids: tuple[int, ...] = IDS) -> Completion:
    """An answer whose token i has values that are by[i] nats higher than in `moved()`; tokens beyond as there."""
    tokens = []
    for i, token in enumerate(ids):
        more = by[i] if i < len(by) else 0.0
        values = tuple(Alternative(n, made.letter(n), -1.0 - n + more) for n in range(5))
        tokens.append(TokenRecord(token, made.letter(token), (97 + token,), values[token].logprob, values))
    return made.answer(tokens, sampling=GREEDY)


def cached(again: Completion, less: Completion | None = None) -> Cached:
    repeats = [Repeat(PARTLY, moved(), again)]
    return Cached.of(repeats if less is None else [*repeats, Repeat(ELSEWHERE, moved(), less)])


def said(found: Cached) -> str:
    return "fault" if found.is_fault else "unclear" if found.unclear else "rounding" if found.moves else "same"


@pytest.mark.parametrize(
    ("again", "less", "expected"),
    [
        (moved(0.019), None, "same"),
        (moved(0.3, 0.1), moved(), "rounding"),
        (moved(0.3, 0.1), moved(0.29, 0.11), "unclear"),  # both cached beginnings agree: it is the cache
        (moved(0.06), moved(0.06), "rounding"),  # ... but hardly moves anything
        (moved(0.51), moved(), "unclear"),
        (moved(1.01), moved(), "fault"),
        (moved(0.3), None, "unclear"),
    ],
)
def test_how_far_values_move_decides(again: Completion, less: Completion | None, expected: str) -> None:
    assert said(cached(again, less)) == expected


def test_a_text_that_parts_is_said_where_it_is_rounding() -> None:
    parted = moved(0.0, 0.0, 0.1, ids=(0, 1, 4, 4, 4, 4))
    found = cached(parted, moved())
    assert said(found) == "rounding"
    assert found.largest == pytest.approx(0.1)
    assert "up to 0.1 nat" in found.caution
    assert "and greedy text with them" in found.caution
    assert cached(moved()).caution == ""


def test_values_after_the_first_token_that_differs_are_of_another_context() -> None:
    parted = moved(0.0, 0.0, 0.1, 5.0, ids=(0, 1, 4, 4, 4, 4))
    assert cached(parted, moved()).largest == pytest.approx(0.1)


def test_a_token_that_only_one_answer_lists_moved_at_least_below_the_other_list() -> None:
    def short(*values: tuple[int, float]) -> Completion:
        listed = tuple(Alternative(i, made.letter(i), x) for i, x in values)
        return made.answer([TokenRecord(values[0][0], made.letter(values[0][0]), None, values[0][1], listed)])

    repeat = Repeat(PARTLY, short((0, -0.5), (1, -1.0)), short((0, -0.5), (2, -2.5)))
    assert Cached.of([repeat]).largest == 1.5


def test_without_values_nothing_tells_rounding_from_a_wrong_cache() -> None:
    def bare(ids: tuple[int, ...]) -> Completion:
        return made.answer([TokenRecord(i, made.letter(i), None, None, None) for i in ids])

    assert said(Cached.of([Repeat(PARTLY, bare(IDS), bare((0, 4)))])) == "unclear"
    assert said(Cached.of([Repeat(PARTLY, bare(IDS), bare(IDS))])) == "same"
    assert said(Cached.of([])) == "same"


@dataclass
class Asked:
    """Answers long prompts by `answer`, and writes down what it was asked."""

    answer: Callable[[Ask], Completion]
    facts: Facts = LARGE
    asks: list[Ask] = field(default_factory=list)

    def tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(range(160))

    def ask(self, ask: Ask) -> Completion:
        self.asks.append(ask)
        return replace(self.answer(ask), ask=ask)


def collected(probe: Asked) -> list[Repeat]:
    greedy = Ask((1,), 32, 3, GREEDY, extra=probe.facts.uncached)
    found: Iterator[Repeat] = collect(cast("Probe", probe), greedy)
    return list(found)


def test_a_prompt_is_asked_for_anew_then_with_its_beginning_in_the_cache() -> None:
    probe = Asked(lambda _: moved())
    assert [r.condition for r in collected(probe)] == [PARTLY]
    anew, beginning, again = probe.asks
    assert isinstance(anew.prompt, tuple)
    assert anew.extra == beginning.extra == probe.facts.uncached
    assert beginning.prompt == anew.prompt[: PLACES[PARTLY]]
    assert again.prompt == anew.prompt
    assert again.extra == ()


def test_where_that_moves_values_less_of_it_is_cached_too() -> None:
    """A cache that gives the rows of another text, and one that rounds."""
    wrong = Asked(lambda ask: moved(*([2.0] * 6)) if not ask.extra else moved())
    assert [r.condition for r in collected(wrong)] == [PARTLY, ELSEWHERE]
    assert len(wrong.asks) == 5
    assert said(Cached.of(collected(wrong))) == "fault"
    turns = iter([0.1, -0.08])
    rounding = Asked(lambda ask: moved(next(turns)) if not ask.extra else moved())
    assert said(Cached.of(collected(rounding))) == "rounding"


@pytest.mark.parametrize("facts", [{"vocabulary": 8}, {"context": 256}])
def test_small_models_and_short_contexts_are_not_asked(facts: dict[str, int]) -> None:
    probe = Asked(lambda _: moved())
    probe.facts = Facts(**{**{f: getattr(probe.facts, f) for f in Facts.__slots__}, **facts})
    assert not collected(probe)
    assert not probe.asks
