from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from draftproof.checks import examples as made
from draftproof.checks.sampling.laws import known_model
from draftproof.checks.sampling.obeyed import Place, Trial, chance_of_best, places
from draftproof.checks.sampling.settings import BY_NAME, HOT
from draftproof.core.ask import Ask, Completion
from draftproof.core.distribution import log_softmax
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import GREEDY
from draftproof.countable.catalogue import servable

PROMPT = (1, 2, 3)


def answer(ids: Sequence[int], name: str) -> Completion:
    whole = made.answer((), ids=ids, sampling=BY_NAME[name].sampling)
    return replace(whole, ask=replace(whole.ask, prompt=PROMPT))


def one(after: Sequence[int], law: Sequence[float], *, chosen: int = 0, listed: int = 5) -> Completion:
    token = replace(made.true_token(chosen, law), alternatives=made.alternatives(law, listed))
    return replace(made.answer([token]), ask=Ask((*PROMPT, *after), 1, listed, GREEDY))


def found(name: str, ids: Sequence[int], *own: Completion, vocabulary: int | None = 5) -> list[Place]:
    return places(Trial(name, answer(ids, name), own), made.answer(()), None, vocabulary)


ONE_BEST = (0.3, 0.5, 0.08, 0.06, 0.06)
"""Token 1 leads, which stands in the prompt; a penalty of 2 puts it below token 0."""


def test_a_penalty_may_count_the_prompt_or_the_answer_alone() -> None:
    for ids in ((0,), (1,)):
        (place,) = found("presence_penalty", ids, one((), ONE_BEST))
        assert not place.differs
        assert place.gap == 0.0
    (place,) = found("presence_penalty", (4,), one((), ONE_BEST))
    assert place.differs
    assert place.plain == 1


def test_a_repeat_penalty_is_what_one_token_requests_say() -> None:
    (place,) = found("repeat_penalty", (0,), one((), ONE_BEST, chosen=0))
    assert (place.choice, place.plain, place.gap) == (0, 1, 0.0)
    (place,) = found("repeat_penalty", (1,), one((), ONE_BEST, chosen=0))
    assert (place.choice, place.plain, place.gap) == (0, 1, None)
    untold = replace(one((), ONE_BEST), token_ids=())
    (place,) = found("repeat_penalty", (1,), untold)
    assert place.choice == 1


@pytest.mark.parametrize("name", ["presence_penalty", "repeat_penalty"])
def test_places_without_a_law_are_passed_over(name: str) -> None:
    own = (one((), ONE_BEST), one((0, 0), ONE_BEST))
    assert [p.position for p in found(name, (0, 0, 0), *own)] == [0, 2]


def test_tokens_that_are_not_listed_get_what_is_left_at_most() -> None:
    """Where both listed tokens stand in the prompt, penalised by 2 they are below what an unlisted one may have."""
    assert found("presence_penalty", (0,), one((), (0.05, 0.5, 0.3, 0.05, 0.1), chosen=1, listed=2)) == []
    clear = (0.3, 0.6, 0.04, 0.03, 0.03)
    (place,) = found("presence_penalty", (0,), one((), clear, chosen=1, listed=2))
    assert not place.differs
    (place,) = found("presence_penalty", (4,), one((), clear, chosen=1, listed=2))
    assert place.gap == pytest.approx(np.log(0.3 / 0.1))
    unlisted = [
        one((), (0.05, 0.5, 0.3, 0.05, 0.1), chosen=1, listed=2),
        one((0,), (0.1, 0.2, 0.05, 0.6, 0.05), chosen=3),
    ]
    assert [p.position for p in found("presence_penalty", (0, 3), *unlisted)] == [1]


def test_without_a_vocabulary_the_listed_tokens_are_all() -> None:
    (place,) = found("presence_penalty", (0,), one((), ONE_BEST), vocabulary=None)
    assert not place.differs
    swapped = (0.06, 0.5, 0.08, 0.06, 0.3)
    (place,) = found("presence_penalty", (4,), one((), swapped, chosen=1, listed=2), vocabulary=None)
    assert place.choice == 4


def test_an_answer_without_ids_has_no_places() -> None:
    bare = replace(answer((0, 1), "presence_penalty"), token_ids=None, tokens=(made.true_token(0), made.true_token(1)))
    trial = Trial("presence_penalty", bare, (one((), ONE_BEST),))
    assert places(trial, made.answer(()), None, 5) == []
    text = replace(bare, ask=replace(bare.ask, prompt="abc"))
    assert places(Trial("presence_penalty", text, (one((), ONE_BEST),)), made.answer(()), None, 5) == []


def test_a_truncation_is_held_against_the_greedy_answer_up_to_the_first_difference() -> None:
    row = OracleRow((0, 1), ("a", "b"), (-0.5, -1.5), 4)
    trial = Trial("top_k", answer((2, 1, 0), "top_k"), (), row)
    greedy = answer((2, 0, 0), "top_k")
    assert places(trial, greedy, None, 5) == [Place(0, 2, 2, 2, 0.0), Place(1, 1, 0, 0, 1.0)]


def test_the_chance_of_the_same_tokens_is_that_of_those_after_the_first() -> None:
    known = known_model(next(iter(servable())).name)
    ids = (0, 1, 2, 3)
    chance = 1.0
    for n in range(1, 4):
        (logits,) = known.target_logits([PROMPT + ids[:n]])
        chance *= float(np.exp(log_softmax(logits / HOT))[ids[n]])
    assert chance_of_best(Trial("top_k", answer(ids, "top_k")), known, HOT) == pytest.approx(chance)
    assert chance_of_best(Trial("top_k", answer(ids[:2], "top_k")), known, HOT) < 1.0
    assert chance_of_best(Trial("top_k", answer(ids[:1], "top_k")), known, HOT) == 1.0
    bare = replace(answer(ids, "top_k"), token_ids=None, tokens=tuple(map(made.true_token, ids)))
    assert chance_of_best(Trial("top_k", bare), known, HOT) == 1.0
