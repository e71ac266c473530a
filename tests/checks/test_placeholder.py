from __future__ import annotations

import math
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.logprobs.placeholder import Evidence, judge
from draftproof.core.ask import Completion
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Verdict

SOUND = made.answer([made.true_token(t) for t in (0, 1, 0, 2)], drafted=5, accepted=2)
DRAFTED = made.answer([made.true_token(0), made.placeholder(1), made.placeholder(2)], drafted=6, accepted=1)


def claimed(*tokens: tuple[int, float]) -> Completion:
    """An answer whose tokens have these ids and claimed probabilities."""
    return made.answer([TokenRecord(i, made.letter(i), None, math.log(p), ()) for i, p in tokens])


def codes(*answers: Completion, seeded: tuple[Completion, ...] = ()) -> tuple[str, ...]:
    return judge(Evidence((), answers, seeded), Terms()).codes


@pytest.mark.parametrize(
    ("claims", "book"), [((0.5, 0.5004), False), ((0.5, 0.5008), False), ((0.5, 0.502), True), ((0.5, 0.49), False)]
)
def test_claims_that_add_to_more_than_one_by_more_than_rounding(claims: tuple[float, float], book: bool) -> None:
    seeded = tuple(claimed((i, p)) for i, p in enumerate(claims))
    assert ("DUTCH_BOOK" in codes(SOUND, seeded=seeded)) is book


def test_the_worst_prefix_of_all_is_told() -> None:
    """After the first token there is one claim only; before it two of .8."""
    seeded = (claimed((0, 0.8), (2, 0.3)), claimed((1, 0.8), (3, 0.2)))
    judgement = judge(Evidence((), (SOUND,), seeded), Terms())
    assert "2 different tokens" in judgement.summary
    assert "1.600" in judgement.summary


def test_claims_after_different_prefixes_do_not_add() -> None:
    assert codes(SOUND, seeded=(claimed((0, 0.5), (2, 0.9)), claimed((1, 0.5), (3, 0.9)))) == ()


def test_tokens_of_one_text_and_different_ids_are_different_tokens() -> None:
    same_text = tuple(
        replace(claimed((i, 0.8)), tokens=(TokenRecord(i, "a", None, math.log(0.8), ()),)) for i in (0, 1)
    )
    assert codes(SOUND, seeded=same_text) == ("DUTCH_BOOK",)


def test_tokens_without_ids_are_told_apart_by_their_texts() -> None:
    bare = tuple(replace(made.answer(()), tokens=(TokenRecord(None, t, None, math.log(0.8), ()),)) for t in "ab")
    assert codes(SOUND, seeded=bare) == ("DUTCH_BOOK",)


def test_one_route_without_placeholders_hides_none_of_the_next() -> None:
    judgement = judge(Evidence((), (SOUND, replace(DRAFTED, route="/v1/completions"))), Terms())
    assert judgement.codes == ("PLACEHOLDER",)
    assert "/v1/completions" in judgement.summary


def bare(*values: float) -> Completion:
    return made.answer([TokenRecord(0, "a", None, v, None) for v in values])


@pytest.mark.parametrize(
    ("values", "degenerate"),
    [
        ((0.0,) * 7, False),
        ((0.0,) * 8, True),
        ((-9999.0,) * 8, True),
        ((-9998.0,) * 8, True),
        ((*(0.0,) * 8, -1.5), False),
    ],
)
def test_eight_values_that_are_all_none(values: tuple[float, ...], degenerate: bool) -> None:
    assert ("DEGENERATE" in codes(bare(*values))) is degenerate


def test_certain_tokens_some_of_which_have_alternatives_are_not_degenerate() -> None:
    certain = TokenRecord(0, "a", None, 0.0, made.alternatives((1.0, 0.0), 2))
    assert codes(made.answer([*bare(*(0.0,) * 8).tokens, certain])) == ()


def test_an_answer_that_failed_counts_for_nothing() -> None:
    broken = replace(DRAFTED, status=500, error="broken")
    judgement = judge(Evidence(made.LIVE_OFF, (replace(SOUND, drafted=None), broken)), Terms())
    assert judgement.verdict is Verdict.PASS
    assert judgement.measured["tokens"] == 4
    assert judgement.measured["drafted"] == 0


def test_a_pass_says_whether_drafted_tokens_are_part_of_it() -> None:
    assert "5 drafted" in judge(Evidence(made.LIVE_ON, (SOUND,)), Terms()).summary
    assert "no drafting" in judge(Evidence(made.LIVE_OFF, (replace(SOUND, drafted=None),)), Terms()).summary
