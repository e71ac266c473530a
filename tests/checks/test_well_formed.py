from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.logprobs.well_formed import Evidence, judge
from draftproof.core.sampling import GREEDY, NEUTRAL, Sampling
from draftproof.core.terms import Terms
from draftproof.core.tokens import Alternative, TokenRecord
from draftproof.core.verdict import Verdict


def token(
    listed: Sequence[float], chosen: int | None = 0, value: float | None = None, ids: Sequence[int] | None = None
) -> TokenRecord:
    """A token with a list of these logprobs; `chosen` is its place in the list (None: not listed), `value` its own logprob."""
    names = list(range(len(listed))) if ids is None else list(ids)
    entries = tuple(Alternative(i, made.letter(i), x) for i, x in zip(names, listed, strict=True))
    own = 20 if chosen is None else names[chosen]
    if value is None and chosen is not None:
        value = listed[chosen]
    return TokenRecord(own, made.letter(own), None, value, entries)


def codes(
    *tokens: TokenRecord, n: int = 3, vocabulary: int | None = 30, sampling: Sampling = NEUTRAL
) -> tuple[str, ...]:
    answer = made.answer(tokens, n=n, sampling=sampling, drafted=3, accepted=1)
    return judge(Evidence(made.LIVE_ON, vocabulary, (answer,)), Terms()).codes


SOUND = (-0.7, -1.4, -2.1)


@pytest.mark.parametrize(
    ("tokens", "found"),
    [
        ([token(SOUND)], ()),
        ([token((4e-7, -20, -21))], ()),
        ([token((1.5e-6, -20, -21))], ("UNITS",)),
        ([replace(token(SOUND), alternatives=None, logprob=0.4), token(SOUND)], ("UNITS",)),
        ([replace(token(SOUND), alternatives=None, logprob=None), token(SOUND)], ()),
        # mass: 1.0007 is rounding, 1.002 is not, and neither is 1.5
        ([token((math.log(0.5), math.log(0.4004), math.log(0.1003)))], ()),
        ([token((math.log(0.5), math.log(0.402), math.log(0.1)))], ("MASS",)),
        ([token((math.log(0.6), math.log(0.5), math.log(0.4)))], ("MASS",)),
        ([token((800.0, -1.0, -2.0))], ("MASS", "UNITS")),
        # order: equal values, and rounding, are no fault
        ([token((-1.2, -1.2, -1.2))], ()),
        ([token((-1.2, -1.2 + 7e-7, -1.3))], ()),
        ([token((-1.2, -1.2 + 3e-6, -1.3))], ("ORDER",)),
    ],
)
def test_values_and_their_sum_and_order(tokens: list[TokenRecord], found: tuple[str, ...]) -> None:
    assert tuple(sorted(codes(*tokens))) == found


def test_texts_tell_entries_apart_where_there_are_no_ids() -> None:
    entries = token(SOUND).alternatives or ()
    bare = tuple(replace(e, id=None) for e in entries)
    assert codes(replace(token(SOUND), id=None, alternatives=bare)) == ()
    twice = (bare[0], bare[1], replace(bare[1], logprob=-2.1))
    assert codes(replace(token(SOUND), id=None, alternatives=twice)) == ("DUPLICATE",)


def test_an_entry_of_the_same_text_and_another_id_is_not_the_chosen_one() -> None:
    """Its value may differ."""
    listed = tuple(replace(e, text="x") for e in token(SOUND).alternatives or ())
    assert codes(replace(token(SOUND, chosen=1), text="x", alternatives=listed)) == ()


def test_the_chosen_entry_is_found_by_its_text_where_ids_lack() -> None:
    assert codes(replace(token(SOUND, chosen=1, value=-1.0), id=None)) == ("CHOSEN",)
    listed = tuple(replace(e, id=None) for e in token(SOUND).alternatives or ())
    assert codes(replace(token(SOUND, chosen=1, value=-1.0), alternatives=listed)) == ("CHOSEN",)


@pytest.mark.parametrize(
    ("asked", "listed", "chosen", "vocabulary", "found"),
    [
        (3, 3, 0, 30, ()),
        (3, 2, 0, 30, ("COUNT",)),
        (3, 4, 3, 30, ()),
        (3, 4, 1, 30, ("COUNT",)),
        (3, 4, 2, 30, ("COUNT",)),
        (3, 4, None, 30, ()),
        (3, 5, 4, 30, ("COUNT",)),
        (8, 5, 0, 5, ()),
        (8, 5, 0, None, ("COUNT",)),
        (8, 8, 0, None, ()),
        (3, 3, 0, 5, ()),
    ],
)
def test_as_many_entries_as_asked_and_perhaps_the_chosen_one(
    asked: int, listed: int, chosen: int | None, vocabulary: int | None, found: tuple[str, ...]
) -> None:
    values = [-1.7 - 0.3 * i for i in range(listed)]
    one = token(values, chosen, value=-9.0 if chosen is None else None)
    assert codes(one, n=asked, vocabulary=vocabulary) == found


@pytest.mark.parametrize(
    ("one", "sampling", "found"),
    [
        (token(SOUND, 1, -1.4008), NEUTRAL, ()),
        (token(SOUND, 1, -1.402), NEUTRAL, ("CHOSEN",)),
        (token(SOUND, 1, -1.398), NEUTRAL, ("CHOSEN",)),
        (token(SOUND, None, -2.0995), NEUTRAL, ()),
        (token(SOUND, None, -2.098), NEUTRAL, ("CHOSEN",)),
        (token(SOUND, None, -2.5), NEUTRAL, ()),
        (token(SOUND, None), NEUTRAL, ()),
        # beyond top-k
        (token(SOUND, 1), Sampling(top_k=2), ()),
        (token((-0.7, -1.4, -1.4005), 2), Sampling(top_k=2), ()),
        (token((-0.7, -1.4, -1.402), 2), Sampling(top_k=2), ("ALIEN",)),
        (token(SOUND, 2), Sampling(top_k=3), ()),
        (token(SOUND, None, -3.0), Sampling(top_k=3), ("ALIEN",)),
        (token(SOUND, None, -3.0), Sampling(top_k=4), ()),
        (token(SOUND, 1), Sampling(top_k=1), ("ALIEN",)),
        # at temperature 0
        (token(SOUND, 0), GREEDY, ()),
        (token((-0.9, -0.9005, -2.1), 1), GREEDY, ()),
        (token((-0.9, -0.902, -2.1), 1), GREEDY, ("NOT_GREEDY",)),
    ],
)
def test_the_chosen_token_among_its_list(one: TokenRecord, sampling: Sampling, found: tuple[str, ...]) -> None:
    assert codes(one, sampling=sampling) == found


def test_a_grammar_may_exclude_what_is_likelier() -> None:
    for sampling in (GREEDY, Sampling(top_k=1)):
        answer = made.answer([token(SOUND, 2)], sampling=sampling, drafted=3, accepted=1)
        answer = replace(answer, ask=replace(answer.ask, grammar='root ::= "c"'))
        assert judge(Evidence(made.LIVE_ON, 30, (answer,)), Terms()).codes == ()


def test_one_list_at_four_places_is_copied_if_the_tokens_differ() -> None:
    def copied(*ids: int, n: int = 3) -> bool:
        tokens = [replace(token(SOUND[:n], i), logprob=SOUND[i]) for i in ids]
        return codes(*tokens, n=n) == ("COPIED",)

    assert copied(0, 1, 0, 1)
    assert copied(0, 1, 0, 2, 1)
    assert copied(0, 1, 0, 1, n=2)
    assert not copied(0, 1, 0)
    assert not copied(0, 0, 0, 0)


def test_lists_of_one_entry_are_not_called_copied() -> None:
    one = token((-0.5,))
    other = replace(one, id=4, text="e", logprob=-0.9)
    assert codes(one, other, one, other, n=1) == ()


def test_texts_tell_tokens_with_one_list_apart_where_there_are_no_ids() -> None:
    tokens = [replace(token(SOUND, i), id=None) for i in (0, 1, 0, 1)]
    assert codes(*tokens) == ("COPIED",)


def test_places_with_another_list_between_are_not_copied() -> None:
    assert codes(*(token(SOUND, i) for i in (0, 1, 0)), token((-0.8, -1.4, -2.1))) == ()


def changing(first: float, second: float, *varied: float, text: str = "a") -> bool:
    def answers(values: Sequence[float], text: str) -> tuple:  # type: ignore[type-arg]
        return tuple(made.answer([replace(token((x, -3.0, -4.0)), text=text)], drafted=1) for x in values)

    evidence = Evidence(made.LIVE_ON, 30, answers([-1.0], "a"), answers([first, second], "a"), answers(varied, text))
    return judge(evidence, Terms()).codes == ("CHANGING",)


def test_a_value_may_move_with_the_list_by_a_twentieth_and_four_times_its_noise() -> None:
    assert not changing(-1.0, -1.0, -1.04)
    assert changing(-1.0, -1.0, -1.06)
    assert changing(-1.0, -1.0, -1.0, -0.9)
    assert not changing(-1.0, -1.01, -1.085)
    assert changing(-1.0, -1.01, -1.095)
    assert not changing(-1.0, -1.0, -2.0, text="b")
    assert not changing(-1.0, -1.2)


def test_an_answer_that_failed_is_passed_over_and_those_after_it_are_not() -> None:
    broken = replace(made.answer([token(SOUND)]), error="broken", status=500)
    wrong = made.answer([token((-1.2, -1.1, -1.3))], drafted=3, accepted=1)
    judgement = judge(Evidence(made.LIVE_ON, 30, (broken, wrong)), Terms())
    assert judgement.verdict is Verdict.FAIL
    assert judgement.codes == ("ORDER",)
    unequal = replace(broken, tokens=(token((-9.0, -9.5, -9.7)),))
    repeated = (made.answer([token(SOUND)]),) * 2
    sound = made.answer([token(SOUND)], drafted=3, accepted=1)
    assert judge(Evidence(made.LIVE_ON, 30, (sound,), repeated, (unequal, repeated[0])), Terms()).codes == ()
