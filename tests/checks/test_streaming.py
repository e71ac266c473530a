from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.logprobs.entries import Pair
from draftproof.checks.logprobs.streaming import Evidence, judge
from draftproof.core.ask import Completion
from draftproof.core.sampling import GREEDY
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Judgement, Verdict

LAWS = (made.LAW, (0.1, 0.6, 0.1, 0.1, 0.1), (0.3, 0.05, 0.4, 0.15, 0.1), (0.02, 0.08, 0.7, 0.15, 0.05))
TOKENS = tuple(made.true_token(i, law) for i, law in zip((0, 1, 2, 2), LAWS, strict=True))
SILENT = TokenRecord(None, "b", None, None, None)


def whole(tokens: Sequence[TokenRecord] = TOKENS) -> Completion:
    return made.answer(tokens, sampling=GREEDY, drafted=3)


def stream(tokens: Sequence[TokenRecord] = TOKENS, events: Sequence[int] = (), text: str | None = None) -> Completion:
    answer = made.answer(tokens, sampling=GREEDY, drafted=3, stream=True)
    return replace(answer, event_tokens=tuple(events) or (1,) * len(tokens), text=answer.text if text is None else text)


def moved(by: float, at: int | None = None, tokens: Sequence[TokenRecord] = TOKENS) -> tuple[TokenRecord, ...]:
    """All values of a token are lower by this; of all tokens, or of the one at a place."""

    def one(token: TokenRecord) -> TokenRecord:
        listed = tuple(replace(e, logprob=(e.logprob or 0.0) - by) for e in token.alternatives or ())
        return replace(token, logprob=(token.logprob or 0.0) - by, alternatives=listed)

    return tuple(one(t) if at in (None, n) else t for n, t in enumerate(tokens))


def judged(*streams: Pair, repeats: Sequence[Pair] = ()) -> Judgement:
    return judge(Evidence(made.LIVE_ON, streams, tuple(repeats)), Terms())


@pytest.mark.parametrize(
    ("off", "noise", "verdict"),
    [
        (0.045, 0.0, Verdict.PASS),
        (-0.045, 0.0, Verdict.PASS),
        (0.055, 0.0, Verdict.FAIL),
        (-0.055, 0.0, Verdict.FAIL),
        (0.39, 0.02, Verdict.PASS),
        (0.41, 0.02, Verdict.FAIL),
        (0.0, 0.045, Verdict.PASS),
        (0.0, 0.055, Verdict.PASS),
        (0.06, 0.055, Verdict.INCONCLUSIVE),
        (0.06, 0.045, Verdict.PASS),
    ],
)
def test_the_tolerance(off: float, noise: float, verdict: Verdict) -> None:
    repeats = [Pair(whole(), whole(moved(noise)))]
    assert judged(Pair(whole(), stream(moved(off))), repeats=repeats).verdict is verdict


def test_one_value_of_many_is_enough() -> None:
    token = TOKENS[1]
    last = (token.alternatives or ())[-1]
    listed = (*(token.alternatives or ())[:-1], replace(last, logprob=(last.logprob or 0.0) + 0.5))
    other = (TOKENS[0], replace(token, alternatives=listed), *TOKENS[2:])
    judgement = judged(Pair(whole(), stream(other)))
    assert judgement.codes == ("STREAM_DIFFERS",)
    assert "1 of 4 entries differ" in judgement.summary


def test_a_broken_repeat_is_no_noise() -> None:
    repeats = [Pair(whole(), replace(whole(moved(0.02)), status=500, error="broken"))]
    assert judged(Pair(whole(), stream(moved(0.2))), repeats=repeats).codes == ("STREAM_DIFFERS",)


def test_a_list_without_its_own_value_or_a_value_without_its_list_differs() -> None:
    bare = replace(TOKENS[1], alternatives=None)
    unvalued = replace(TOKENS[1], logprob=None)
    for other in (bare, unvalued):
        assert judged(Pair(whole(), stream((TOKENS[0], other, *TOKENS[2:])))).codes == ("STREAM_DIFFERS",)


def test_least_likely_entries_may_be_others_as_likely_and_no_more() -> None:
    """Two lists of three of which the last differs: c and d are equally likely, or nearly."""
    law = (0.5, 0.25, 0.07, 0.07, 0.11)
    token = made.true_token(0, law, n=2)
    c, d = made.alternatives(law, 5)[3:]
    assert {c.id, d.id} == {2, 3}

    def listed(other: object) -> TokenRecord:
        return replace(token, alternatives=(*(token.alternatives or ()), other))  # type: ignore[arg-type]

    def with_last(off: float) -> Judgement:
        return judged(
            Pair(whole([listed(c)]), stream([listed(replace(d, logprob=(d.logprob or 0.0) + off))])),
        )

    assert with_last(0.0).verdict is Verdict.PASS
    assert with_last(0.04).verdict is Verdict.PASS
    assert with_last(0.3).codes == ("STREAM_DIFFERS",)
    assert with_last(-0.3).codes == ("STREAM_DIFFERS",)


@pytest.mark.parametrize(
    ("ids", "others"), [((1, 2), (None, None)), ((None, None), (1, 2)), ((None, None), (None, None))]
)
def test_without_ids_on_either_side_texts_tell_tokens(ids: Sequence[int | None], others: Sequence[int | None]) -> None:
    def named(tokens: Sequence[TokenRecord], names: Sequence[int | None]) -> list[TokenRecord]:
        def bare(token: TokenRecord, name: int | None) -> TokenRecord:
            listed = (
                tuple(replace(e, id=None) for e in token.alternatives or ()) if name is None else token.alternatives
            )
            return replace(token, id=name, alternatives=listed)

        return [bare(t, name) for t, name in zip(tokens, names, strict=True)]

    two = TOKENS[1:3]
    first, same = whole(named(two, ids)), stream(named(two, others), text="")
    first = replace(first, text="")
    judgement = judged(Pair(first, same))
    assert "in common" in judgement.tables[0].columns
    assert judgement.tables[0].rows[0][3] == 2
    swapped = stream(named([two[0], replace(two[1], text="z")], others), text="")
    assert judged(Pair(first, swapped)).codes == ("STREAM_DIFFERS",)


def test_texts_keep_values_apart_where_there_are_no_ids() -> None:
    bare = [replace(t, id=None, alternatives=tuple(replace(e, id=None) for e in t.alternatives or ())) for t in TOKENS]
    first = whole(bare)
    assert judged(Pair(first, stream(bare))).verdict is Verdict.PASS
    listed = bare[2].alternatives or ()
    last = replace(listed[-1], logprob=(listed[-1].logprob or 0.0) - 0.3)
    other = [*bare[:2], replace(bare[2], alternatives=(*listed[:-1], last)), bare[3]]
    assert judged(Pair(first, stream(other))).codes == ("STREAM_DIFFERS",)


@pytest.mark.parametrize(("gap", "code"), [(0.09, ()), (0.11, ("STREAM_DIFFERS",))])
def test_a_near_tie_is_twice_the_tolerance(gap: float, code: tuple[str, ...]) -> None:
    top = 0.8 / (1 + math.exp(-gap))
    tied = made.true_token(0, (top, 0.8 - top, 0.1, 0.05, 0.05))
    other = made.true_token(1, (top, 0.8 - top, 0.1, 0.05, 0.05))
    assert judged(Pair(whole([TOKENS[0], tied]), stream([TOKENS[0], other]))).codes == code


def test_one_alternative_is_no_tie() -> None:
    one = made.true_token(1, LAWS[1], n=1)
    other = made.true_token(0, LAWS[1], n=1)
    assert judged(Pair(whole([TOKENS[0], one]), stream([TOKENS[0], other]))).codes == ("STREAM_DIFFERS",)


def test_two_alternatives_can_tie() -> None:
    law = (0.41, 0.4, 0.19)
    tied, other = made.true_token(0, law, n=2), made.true_token(1, law, n=2)
    assert judged(Pair(whole([TOKENS[0], tied]), stream([TOKENS[0], other]))).verdict is Verdict.PASS


def test_a_shorter_stream_is_missing_entries_even_where_the_next_token_was_a_near_tie() -> None:
    law = (0.41, 0.4, 0.1, 0.05, 0.04)
    tied = [TOKENS[0], made.true_token(0, law)]
    assert judged(Pair(whole(tied), stream(tied[:1]))).codes == ("MISSING",)


def test_lists_of_one_event_may_be_equal_where_those_of_the_whole_answer_are() -> None:
    same = [TOKENS[0], *[made.true_token(1, LAWS[1])] * 3]
    assert judged(Pair(whole(same), stream(same, (1, 3)))).verdict is Verdict.PASS
    none = [replace(t, alternatives=()) for t in TOKENS]
    assert "COPIED" not in judged(Pair(whole(none), stream(none, (1, 3)))).codes


def test_copied_lists_are_found_in_any_event_of_two_tokens_or_more() -> None:
    def copied(*places: int) -> list[TokenRecord]:
        return [
            replace(t, alternatives=TOKENS[places[0]].alternatives) if n in places else t for n, t in enumerate(TOKENS)
        ]

    assert judged(Pair(whole(), stream(copied(0, 1), (2, 1, 1)))).codes == ("COPIED",)
    assert judged(Pair(whole(), stream(copied(2, 3), (1, 1, 2)))).codes == ("COPIED",)
    assert judged(Pair(whole(), stream(copied(0, 1), (1, 1, 1, 1)))).codes == ("STREAM_DIFFERS",)
    assert judged(Pair(whole(), stream(copied(2, 3), (2, 3)))).codes == ("COPIED",), "an event counts text of no entry"


def test_what_was_compared_is_told_in_a_table() -> None:
    judgement = judged(Pair(whole(), stream((*TOKENS, SILENT), (1, 3, 0), text=whole().text)))
    assert judgement.tables[0].rows[0][1:] == (4, 4, 4, 3, 3)
    assert judged().tables == ()


def test_a_wrong_token_is_counted_from_one() -> None:
    assert "token 3 has" in judged(Pair(whole(), stream(moved(0.3, 2)))).summary
