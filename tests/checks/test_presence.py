from __future__ import annotations

from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.logprobs.presence import Evidence, judge
from draftproof.core.ask import Completion
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Verdict

TRUE = [made.true_token(t) for t in (0, 1, 0, 2)]
OK = made.answer(TRUE, drafted=4, accepted=1)
BARE = TokenRecord(4, "e", None, None, None)


def state(answer: Completion) -> str:
    """The word for one cell of the table."""
    return str(judge(Evidence(made.LIVE_ON, (answer,)), Terms()).tables[0].rows[0][1])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (made.answer(TRUE, ids=(0, 1, 0, 2, 4)), "ok"),
        (made.answer(TRUE, ids=(0, 1, 0, 2, 4, 4)), "MISSING"),
        (replace(made.answer(TRUE, usage=6), token_ids=None), "MISSING"),
        (replace(made.answer(TRUE, usage=5), token_ids=None), "ok"),
        (made.answer(TRUE, ids=(0, 1, 0, 2), usage=9), "ok"),
        (replace(made.answer(TRUE), token_ids=None, completion_tokens=None), "ok"),
        (made.answer([*TRUE, BARE], finish="stop"), "ok"),
        (made.answer([*TRUE, BARE], finish="length"), "MISSING"),
        (made.answer([*TRUE, BARE, BARE], finish="stop"), "MISSING"),
        (made.answer((), n=0, ids=(0, 1)), "ok"),
        (made.answer((), status=404, error="no"), "REFUSED"),
        (made.answer((), status=400, error="no"), "REFUSED"),
        (made.answer((), status=499, error="no"), "REFUSED"),
        (made.answer((), status=500, error="no"), "BROKEN"),
        (made.answer((), status=399, error="no"), "BROKEN"),
    ],
)
def test_one_logprob_may_lack_for_an_end_token_and_no_more(answer: Completion, expected: str) -> None:
    assert state(answer) == expected


def test_a_finding_counts_logprobs_and_tokens() -> None:
    summary = judge(Evidence((), (made.answer(TRUE[:2], ids=(0, 1, 0, 2), usage=9),)), Terms()).summary
    assert "2 logprobs for 4 tokens" in summary
    summary = judge(Evidence((), (made.answer((), status=500, error="broken"),)), Terms()).summary
    assert "HTTP 500: broken" in summary


def test_a_pass_counts_answers_and_refusals() -> None:
    refused = made.answer((), status=400, error="not streamed")
    unasked = made.answer((), n=0, ids=(0, 1), drafted=3)
    judgement = judge(Evidence(made.LIVE_ON, (OK, OK, refused, unasked)), Terms())
    assert judgement.verdict is Verdict.PASS
    assert "in 2 request forms, 1 refused" in judgement.summary


def test_drafts_of_answers_without_logprobs_do_not_count() -> None:
    answers = (made.answer(TRUE), made.answer((), n=0, ids=(0, 1), drafted=3))
    assert judge(Evidence(made.LIVE_ON, answers), Terms()).verdict is Verdict.INCONCLUSIVE
