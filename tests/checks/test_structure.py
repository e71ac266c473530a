from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.sampling.laws import known_model
from draftproof.checks.sampling.structure import Evidence, Greedy, doubled, judge, repetition
from draftproof.core.ask import Ask, Completion
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import GREEDY
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict
from draftproof.countable.catalogue import servable

EIGHT = tuple(range(8))
NINE = tuple(range(9))


@pytest.mark.parametrize(
    ("tokens", "places", "share"),
    [
        ((), [], 0.0),
        ((0,), [], 0.0),
        ((0, 1, 2), [], 0.0),
        ((0, 0), [1], 1 / 2),
        ((0, 0, 0), [1, 2], 2 / 3),
        ((0, 1, 0, 1), [2], 2 / 4),
        ((5, 0, 1, 0, 1, 6), [3], 2 / 6),
        ((0, 1, 2, 0, 1, 2, 3), [3], 3 / 7),
        ((0, 1, 2, 0, 1), [], 0.0),
        ((*EIGHT, *EIGHT), [8], 1 / 2),
        ((*NINE, *NINE), [], 0.0),
        ((1, 0, 1, 1, 0, 1, 0), [3, 5], 4 / 7),
        (("a", "b", "b"), [2], 1 / 3),
    ],
)
def test_blocks_that_come_twice_in_a_row(tokens: Sequence[int | str], places: list[int], share: float) -> None:
    assert list(doubled(tokens)) == places
    assert repetition(tokens) == pytest.approx(share)


def answer(ids: Sequence[int], prompt: tuple[int, ...] = made.PROMPT) -> Completion:
    whole = made.answer((), ids=ids, sampling=GREEDY, drafted=9, accepted=2)
    return replace(whole, ask=Ask(prompt, len(ids), 0, GREEDY, 7, route="/completion"))


def judged(*greedy: Greedy, known: str = "") -> Judgement:
    return judge(Evidence(made.LIVE_ON, 1e-6, known, greedy, ()), Terms())


def test_a_known_law_says_which_doubled_tokens_are_its_own() -> None:
    name = next(iter(servable())).name
    law = known_model(name).target((1, 2, 3, 2))
    best = int(law.argmax())
    own = judged(Greedy(answer((best, best), (1, 2, 3, 2))), known=name)
    after = known_model(name).target((1, 2, 3, 2, best))
    gap = float(after.max() - after[best])
    assert own.verdict is (Verdict.FAIL if gap > 0.05 else Verdict.PASS)
    worst = int(after.argmin())
    other = judged(Greedy(answer((worst, worst), (1, 2, 3, 2))), known=name)
    second = known_model(name).target((1, 2, 3, 2, worst))
    assert other.codes == ("DOUBLED",)
    assert f"{second.max() - second[worst]:.2f} nat below" in other.summary
    assert judged(Greedy(answer((0, 1, 2))), known=name).verdict is Verdict.PASS, "nothing doubled"


def test_the_worst_block_is_named_and_the_most_repetitive_text() -> None:
    def row(gap: float) -> OracleRow:
        return OracleRow((1, 2, 0), ("b", "c", "a"), (-0.3, -0.3 - gap, -0.3 - gap), 3)

    few = Greedy(answer((3, 4, 0, 1)))
    bad = Greedy(answer((0, 0, 3, 2, 2)), ((1, row(1.0)), (4, row(2.0))))
    judgement = judged(few, bad)
    assert "token 5 begins one, 2.00 nat below" in judgement.summary
    assert judgement.measured["repetition"] == pytest.approx(2 / 5)
    assert judgement.measured["doubled places judged"] == 2
    assert judge(Evidence(made.LIVE_ON, 1e-6, "", (), ()), Terms()).measured["repetition"] == 0.0


@pytest.mark.parametrize(("gap", "noise", "verdict"), [(0.84, 0.1, Verdict.INCONCLUSIVE), (0.86, 0.1, Verdict.FAIL)])
def test_the_noise_of_a_gap_is_that_of_two_values(gap: float, noise: float, verdict: Verdict) -> None:
    """Six times sqrt(2) .1 is .849."""
    row = OracleRow((1, 2, 0), ("b", "c", "a"), (-0.3, -0.3 - gap, -0.3 - gap), 3)
    greedy = Greedy(answer((2, 2)), ((1, row),))
    assert judge(Evidence(made.LIVE_ON, noise, "", (greedy,), ()), Terms()).verdict is verdict
