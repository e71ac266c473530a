from __future__ import annotations

from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.randomness.history import AFTER, AGAIN, ANEW, Evidence, judge
from draftproof.checks.randomness.partly import PARTLY
from draftproof.checks.randomness.repeats import Repeat
from draftproof.core.ask import Completion
from draftproof.core.sampling import GREEDY, NEUTRAL, Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

IDS = tuple(n * n % 5 for n in range(20))


def answer(sampling: Sampling = NEUTRAL, accepted: int = 9, drafted: int = 12, moved: float = 0.0) -> Completion:
    tokens = [made.true_token(i) for i in IDS]
    tokens = [replace(t, logprob=(t.logprob or 0.0) - moved) for t in tokens]
    return made.answer(tokens, sampling=sampling, drafted=drafted, accepted=accepted)


def judged(*repeats: Repeat, noise: float = 0.0) -> Judgement:
    return judge(Evidence(made.LIVE_ON, repeats, (), noise), Terms())


def fallen(before: tuple[int, int], after: tuple[int, int]) -> Judgement:
    """Accepted and drafted tokens of the greedy request before and after."""
    first = answer(GREEDY)
    return judged(
        Repeat(AGAIN, first, answer(GREEDY, *before)),
        Repeat(ANEW, answer(), answer()),
        Repeat(AFTER, first, answer(GREEDY, *after)),
    )


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        ((8, 12), (4, 12), ()),
        ((8, 12), (3, 12), ("ACCEPTANCE_FELL",)),
        ((7, 12), (0, 12), ()),
        ((8, 12), (6, 24), ("ACCEPTANCE_FELL",)),
        ((8, 12), (8, 24), ()),
        ((16, 24), (4, 12), ()),
        ((8, 12), (0, 0), ()),
        ((8, 12), (0, 1), ("ACCEPTANCE_FELL",)),
        ((12, 12), (5, 12), ("ACCEPTANCE_FELL",)),
    ],
)
def test_less_than_half_of_the_share_of_at_least_eight_accepted_drafts_is_a_fall(
    before: tuple[int, int], after: tuple[int, int], codes: tuple[str, ...]
) -> None:
    assert fallen(before, after).codes == codes


def test_counts_of_all_repeats_are_added_up() -> None:
    first = answer(GREEDY)
    uncounted = replace(answer(GREEDY), accepted=None)
    judgement = judged(
        Repeat(AGAIN, first, answer(GREEDY, 5, 12)),
        Repeat(AGAIN, first, uncounted),
        Repeat(ANEW, answer(), answer()),
        Repeat(AFTER, first, answer(GREEDY, 3, 10)),
        Repeat(AFTER, first, answer(GREEDY, 2, 4)),
    )
    assert judgement.measured["drafts accepted before"] == "5 of 24"
    assert judgement.measured["drafts accepted after"] == "5 of 14"


def test_what_a_cached_beginning_moves_is_shown_where_it_was_tried() -> None:
    same = [Repeat(c, answer(), answer()) for c in (AGAIN, ANEW, AFTER)]
    long = (Repeat(PARTLY, answer(GREEDY), answer(GREEDY, moved=0.01)),)
    without, tried = (judge(Evidence(made.LIVE_ON, tuple(same), (), 0.0, cached), Terms()) for cached in ((), long))
    assert [row[0] for row in without.tables[0].rows] == [AGAIN, ANEW, AFTER]
    assert tried.tables[0].rows[-1][:4] == (PARTLY, 1, 0, 0)
    assert tried.measured["logprob drift by a cached beginning (nat)"] == pytest.approx(0.01)


def test_the_largest_drift_is_told_and_every_way_must_have_been_tried() -> None:
    ways = [
        Repeat(AGAIN, answer(), answer(moved=0.001)),
        Repeat(ANEW, answer(), answer(moved=0.01)),
        Repeat(AFTER, answer(), answer()),
    ]
    judgement = judged(*ways)
    assert judgement.verdict is Verdict.PASS
    assert judgement.measured["largest logprob drift (nat)"] == pytest.approx(0.01)
    assert judged(*ways[:2]).verdict is Verdict.INCONCLUSIVE
