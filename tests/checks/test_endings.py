"""Which tokens are tried for the end of texts, and what is said of answers that go on after one."""

from __future__ import annotations

from dataclasses import replace

from draftproof.checks import examples as made
from draftproof.checks.stopping.endings import FORCED, MOST, NEAR, Endings, candidates, ends, passed
from draftproof.core.ask import Completion
from draftproof.core.sampling import GREEDY

END = 8


def answer(*ids: int, finish: str = "stop") -> Completion:
    return replace(made.answer(()), token_ids=ids, finish=finish)


def forced(token: int, *came: int) -> Completion:
    told = answer(*came, finish="length" if len(came) == 2 else "stop")
    return replace(told, ask=replace(told.ask, sampling=replace(GREEDY, logit_bias=((token, FORCED),))))


def test_what_ends_other_answers_is_tried_first() -> None:
    assert candidates([answer(1, 2, END), answer(3, END, 4), answer(5, 2, END)])[:1] == [END]


def test_only_answers_that_the_model_ended_are_looked_at_and_only_near_their_end() -> None:
    assert candidates([answer(1, 2, 3, finish="length")]) == []
    assert 1 not in candidates([answer(1, *[2] * NEAR, 3)])
    assert len(candidates([answer(*range(9))])) == MOST


def test_a_token_ends_texts_if_nothing_comes_after_it() -> None:
    assert ends(forced(END, END))
    assert ends(forced(END))  # not delivered
    assert not ends(forced(1, 1, 2))
    assert not ends(forced(END, 3))  # the bias had no effect
    assert not ends(replace(forced(END, END), error="HTTP 400", status=400))


def test_every_answer_that_goes_on_is_told_whatever_it_says_of_its_end() -> None:
    late, never, right = answer(1, END, 2, 3), answer(END, 1, finish="length"), answer(1, 2, END)
    found = list(passed(Endings((late, never, right), (forced(END, END), forced(1, 1, 2)))))
    assert [f.code for f in found] == ["END_PASSED"] * 2
    assert found[0].text.startswith("2 tokens come after the end token (id 8)")
