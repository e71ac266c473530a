from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.logprobs.encoding import Evidence, judge
from draftproof.core.ask import Completion
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Judgement, Verdict


def token(text: str, raw: Sequence[int] | None) -> TokenRecord:
    return TokenRecord(3, text, None if raw is None else tuple(raw), -0.5, made.alternatives(made.LAW, 3))


def answer(*tokens: TokenRecord, text: str, drafted: int | None = 3) -> Completion:
    return replace(made.answer(tokens, drafted=drafted), text=text)


def judged(*answers: Completion) -> Judgement:
    return judge(Evidence(made.LIVE_ON, True, answers), Terms())


@pytest.mark.parametrize(("raw", "text"), [((0,), "b"), ((255,), "b"), ((98, 0), "b\x01")])
def test_every_byte_is_held_against_the_text(raw: Sequence[int], text: str) -> None:
    assert judged(answer(token("a", b"a"), token("b", raw), text="a" + text)).codes == ("BYTES",)


@pytest.mark.parametrize("number", [256, -1, 70_000])
def test_numbers_that_are_no_bytes_are_held_against_nothing(number: int) -> None:
    judgement = judged(answer(token("a", b"a"), token("b", (98, number)), text="ab"))
    assert judgement.verdict is Verdict.PASS
    assert judgement.measured["texts held against bytes"] == 0
    lost = (*"\ufffd".encode(), number)
    assert judged(answer(token("a", b"a"), token("b", lost), text="ab")).codes == ("LOST_BYTES",)


def test_values_are_those_of_tokens_and_of_their_lists() -> None:
    judgement = judged(answer(token("a", b"a"), token("b", b"b"), text="ab"))
    assert judgement.measured == {"values": 8, "texts held against bytes": 1, "of them foreign": 0}


def test_drafts_of_an_answer_without_logprobs_show_nothing() -> None:
    undrafted = answer(token("a", b"a"), text="a", drafted=None)
    assert judged(undrafted, made.answer((), drafted=3)).verdict is Verdict.INCONCLUSIVE


def test_the_first_byte_that_differs_is_named() -> None:
    judgement = judged(answer(token("a", b"a"), token("b", b"c"), text="ab"))
    assert "from byte 2 on" in judgement.summary
