"""A long prompt with its beginning cached: what is asked, and how rounding is told from a wrong cache."""

from __future__ import annotations

import math
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


@pytest.mark.parametrize(
    ("largest", "rms", "noise", "expected"),
    [
        (0.02, 0.02, 0.0, "same"),
        (0.0201, 0.02, 0.0, "rounding"),
        (0.3, 0.05, 0.0, "rounding"),
        (0.3, 0.0501, 0.0, "unclear"),
        (0.3, 0.16, 0.02, "rounding"),
        (0.3, 0.1601, 0.02, "unclear"),
        (0.5, 0.05, 0.01, "rounding"),
        (0.501, 0.05, 0.01, "unclear"),
        (1.0, 0.05, 0.01, "unclear"),
        (1.001, 0.05, 0.01, "fault"),
        (0.3, 0.05, None, "unclear"),
        (0.3, None, 0.01, "unclear"),
        (None, None, None, "same"),
    ],
)
def test_each_limit_is_still_on_the_better_side(
    largest: float | None, rms: float | None, noise: float | None, expected: str
) -> None:
    assert said(Cached(1, largest=largest, rms=rms, noise=noise)) == expected


def test_less_of_it_cached_may_move_values_no_further() -> None:
    """Else a cache that is wrong from an earlier place on would pass as noise between the two."""
    assert said(cached(moved(0.1), moved(1.1))) == "fault"
    assert said(cached(moved(0.1), moved(0.6))) == "unclear"
    assert cached(moved(0.1), moved(0.2)).largest == pytest.approx(0.2)


PARTED = (0, 1, 4, 4, 4, 4)


def parting(second: float, fourth: float, *, ids: tuple[int, ...] = IDS, later: float = 0.0) -> Completion:
    """An answer whose token 2 has two near rivals, 2 and 4, of these values; `later`: how much higher all after it are."""
    answer = moved(0.0, 0.0, 0.0, later, later, later, ids=ids)
    values = {0: -3.0, 1: -4.0, 2: second, 3: -5.0, 4: fourth}
    listed = tuple(Alternative(n, made.letter(n), x) for n, x in values.items())
    tokens = list(answer.tokens)
    tokens[2] = replace(tokens[2], logprob=values[ids[2]], alternatives=listed)
    return replace(answer, tokens=tuple(tokens))


def parted(again: Completion, less: Completion | None = None) -> Cached:
    first = parting(-1.0, -1.1)
    return Cached.of([Repeat(PARTLY, first, again), Repeat(ELSEWHERE, first, first if less is None else less)])


def test_a_text_that_parts_is_said_where_it_is_rounding() -> None:
    found = parted(parting(-1.1, -1.05, ids=PARTED))
    assert said(found) == "rounding"
    assert found.largest == pytest.approx(0.1)
    assert "up to 0.1 nat" in found.caution
    assert "and greedy text with them" in found.caution
    assert found.row == (PARTLY, 1, 1, 1, found.largest)
    assert cached(moved()).caution == ""


def test_a_change_that_is_not_explained_is_not_counted_as_explained() -> None:
    for again in (parting(-1.6, -1.05, ids=PARTED), parting(-2.5, -1.05, ids=PARTED)):
        found = parted(again)
        assert found.row == (PARTLY, 1, 1, 0, found.largest)
    assert cached(moved(0.3, 0.1), moved()).row[:4] == (PARTLY, 1, 0, 0)
    assert Cached(1, parted=True, largest=1.5, rms=0.05, noise=0.01).row[3] == 0
    assert Cached(1, parted=True, largest=0.7, rms=0.05, noise=0.01).row[3] == 0


@pytest.mark.parametrize(
    ("moves", "lead", "expected"),
    [(0.05, 0.09, "rounding"), (0.05, 0.11, "unclear"), (0.0, 0.03, "rounding"), (0.0, 0.05, "unclear")],
)
def test_a_text_parts_by_rounding_only_where_its_tokens_were_as_near_as_values_move(
    moves: float, lead: float, expected: str
) -> None:
    """One of two tokens that change their order moves by half of what was between them. Values of .02 nat count as unmoved."""
    for one, other in ((0.0, moves), (moves, 0.0)):
        first, again = parting(-1.0 - one, -1.0 - lead), parting(-1.0 - other, -1.0 - lead, ids=PARTED)
        assert said(Cached.of([Repeat(PARTLY, first, again), Repeat(ELSEWHERE, first, first)])) == expected


def test_values_after_the_first_token_that_differs_are_of_another_context() -> None:
    assert parted(parting(-1.1, -1.05, ids=PARTED, later=5.0)).largest == pytest.approx(0.1)


def test_where_a_text_parts_both_answers_must_tell_values() -> None:
    again = parting(-1.1, -1.05, ids=PARTED)
    drafted = TokenRecord(4, made.letter(4), (97 + 4,), 0.0, ())
    assert said(parted(replace(again, tokens=(*again.tokens[:2], drafted, *again.tokens[3:])))) == "unclear"
    short = replace(again, tokens=again.tokens[:2], token_ids=PARTED[:2])
    assert said(parted(short)) == "unclear"
    assert said(parted(again, less=short)) == "unclear"


def listing(*values: tuple[int | None, str, float | None], chosen: int = 0) -> Completion:
    """One token with these alternatives."""
    listed = tuple(Alternative(*value) for value in values)
    number, text, x = values[chosen]
    return made.answer([TokenRecord(number, text, None, x, listed)], ids=(number or 0,))


@pytest.mark.parametrize("order", [1, -1])
def test_a_token_that_only_one_answer_lists_moved_at_least_below_the_other_list(order: int) -> None:
    first, again = (
        listing((0, "a", -0.5), (1, "b", -1.0), (3, "d", -2.75)),
        listing((0, "a", -0.5), (2, "c", -2.5), (4, "e", -2.875)),
    )[::order]
    assert Cached.of([Repeat(PARTLY, first, again)]).largest == 1.875


def test_tokens_that_neither_list_has_room_for_did_not_move_as_far_as_is_known() -> None:
    pair = listing((0, "a", -0.5), (1, "b", -3.0)), listing((0, "a", -0.5), (2, "c", -3.0))
    found = Cached.of([Repeat(PARTLY, *pair)])
    assert (found.largest, found.rms) == (0.0, 0.0)


def test_a_value_that_is_missing_or_no_number_is_not_compared() -> None:
    pair = listing((0, "a", -0.5), (1, "b", None), (2, "c", -math.inf)), listing((0, "a", -0.5), (1, "b", -2.0))
    assert Cached.of([Repeat(PARTLY, *pair)]).largest == 0.0


def test_pieces_of_characters_are_not_told_apart_by_text() -> None:
    """Two tokens of the text U+FFFD, of which a list by text alone shows one: either. With ids they are known."""
    piece, none = "\ufffd", ""
    pair = (
        listing((None, "a", -0.5), (None, piece, -1.0), (None, none, -1.0), (None, "b", -3.0)),
        listing((None, "a", -0.5), (None, piece, -4.0), (None, none, -4.0), (None, "b", -3.0)),
    )
    assert Cached.of([Repeat(PARTLY, *pair)]).largest == 0.0
    known = listing((0, "a", -0.5), (1, piece, -1.0)), listing((0, "a", -0.5), (1, piece, -1.25))
    assert Cached.of([Repeat(PARTLY, *known)]).largest == 0.25


def test_tokens_are_told_by_id_where_there_is_one_and_else_by_text() -> None:
    texts = listing((None, "a", -0.5), (None, "b", -1.0)), listing((None, "a", -0.5), (None, "b", -1.25))
    ids = (
        listing((0, "a", -0.5), (1, " ", -1.0), (2, " ", -2.0)),
        listing((0, "a", -0.5), (2, " ", -2.0), (1, " ", -1.0)),
    )
    assert Cached.of([Repeat(PARTLY, *texts)]).largest == 0.25
    assert Cached.of([Repeat(PARTLY, *ids)]).largest == 0.0


def test_a_token_beyond_the_other_list_was_at_most_the_least_of_it() -> None:
    """The first list has no place for token 4, which leads the second one."""
    first = listing((2, "c", -1.0), (0, "a", -1.5), (1, "b", -2.0))
    again = listing((4, "e", -1.25), (2, "c", -1.5), (0, "a", -1.75))
    found = Cached.of([Repeat(PARTLY, first, again), Repeat(ELSEWHERE, first, first)])
    assert found.largest == 0.75
    assert found.tied
    no_tie = listing((2, "c", -1.0), (0, "a", -1.5), (1, "b", -1.75))
    not_its_top = listing((2, "c", -1.25), (4, "e", -1.5), (0, "a", -1.625), chosen=1)
    found = Cached.of([Repeat(PARTLY, no_tie, not_its_top)])
    assert (found.largest, found.tied) == (0.25, False)


def test_a_token_is_compared_only_where_both_answers_have_its_values() -> None:
    drafted = made.answer([TokenRecord(0, "a", None, 0.0, ())])
    for pair in ((listing((0, "a", -0.5), (1, "b", -1.0)), drafted), (drafted, listing((0, "a", -0.5)))):
        assert Cached.of([Repeat(PARTLY, *pair)]).largest is None


def test_an_answer_that_failed_is_not_compared() -> None:
    refused = replace(moved(2.0), status=500, error="broken")
    for pair in ((moved(), refused), (refused, moved())):
        assert Cached.of([Repeat(PARTLY, *pair)]) == Cached()
    less = Cached.of([Repeat(PARTLY, moved(), moved(0.3)), Repeat(ELSEWHERE, moved(), refused)])
    assert less.largest == pytest.approx(0.3)
    assert less.noise is None


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
