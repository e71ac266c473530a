from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from draftproof.checks import examples as made
from draftproof.checks.randomness.seeds import CHECK, Evidence, judge
from draftproof.core.ask import Completion
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

SOUND: Evidence = next(e.evidence for e in CHECK.examples if e.name == "sound")
ALPHA = 3e-6
"""A millionth for each of the three tests."""


def answers(*texts: Sequence[int]) -> tuple[Completion, ...]:
    return tuple(made.answer((), n=0, ids=ids, drafted=4, accepted=1) for ids in texts)


def judged(alpha: float = ALPHA, **changed: Any) -> Judgement:
    return judge(replace(SOUND, **changed), Terms(alpha=alpha))


@pytest.mark.parametrize(
    ("chance", "verdict"), [(0.0099, Verdict.FAIL), (0.0101, Verdict.INCONCLUSIVE), (None, Verdict.INCONCLUSIVE)]
)
@pytest.mark.parametrize("which", ["seeded", "unseeded"])
def test_equal_answers_are_a_fault_below_a_third_of_alpha(which: str, chance: float | None, verdict: Verdict) -> None:
    """Four answers, so that the chance of a coincidence is the cube of one answer's."""
    own = {"seeded": "chance", "unseeded": "unseeded_chance"}[which]
    judgement = judged(ALPHA, **{which: answers((0, 1, 2)) * 4, own: chance})
    assert judgement.verdict is verdict
    assert judgement.codes == (
        ({"seeded": "IGNORED", "unseeded": "SHARED_STREAM"}[which],) if verdict is Verdict.FAIL else ()
    )


def test_how_likely_one_answer_is_says_nothing_of_another() -> None:
    """A likely answer four times without a seed, and an unlikely one with the first seed."""
    assert judged(unseeded=answers((0, 0, 0)) * 4, chance=1e-9, unseeded_chance=0.7).verdict is Verdict.INCONCLUSIVE
    assert judged(seeded=answers((0, 0, 0)) * 4, chance=0.7, unseeded_chance=1e-9).verdict is Verdict.INCONCLUSIVE


def test_three_equal_answers_are_the_least_to_say_so() -> None:
    assert judged(seeded=answers((0, 1, 2)) * 3, chance=1e-5).codes == ("IGNORED",)
    assert judged(seeded=answers((0, 1, 2)) * 2, chance=1e-5).verdict is Verdict.INCONCLUSIVE
    assert judged(unseeded=answers((0, 1, 2)) * 3, unseeded_chance=1e-5).codes == ("SHARED_STREAM",)
    assert judged(unseeded=answers((0, 1, 2)) * 2, unseeded_chance=1e-5).verdict is Verdict.INCONCLUSIVE


def test_one_different_answer_is_enough() -> None:
    assert judged(unseeded=answers(*[(0, 1, 2)] * 3, (0, 1, 3)), unseeded_chance=1e-5).verdict is Verdict.PASS


def test_both_faults_are_one_if_all_answers_are_equal() -> None:
    same = answers((0, 1, 2)) * 4
    assert judged(seeded=same, unseeded=same, chance=1e-4, unseeded_chance=1e-4).codes == ("IGNORED",)


@pytest.mark.parametrize(
    ("different", "chance", "verdict"),
    [
        (2, 0.09, Verdict.PASS),
        (2, 0.11, Verdict.INCONCLUSIVE),
        (2, None, Verdict.INCONCLUSIVE),
        (3, None, Verdict.PASS),
        (3, 0.9, Verdict.PASS),
    ],
)
def test_few_different_answers_pass_only_where_a_coincidence_is_unlikely(
    different: int, chance: float | None, verdict: Verdict
) -> None:
    """The cube of the first answer's probability against a thousandth; token 1 is not tested."""
    seeded = answers(*((0, n % different, 2) for n in range(12)))
    assert judged(seeded=seeded, unseeded=SOUND.unseeded[:4], chance=chance, law=()).verdict is verdict


def test_the_chance_of_a_coincidence_is_told() -> None:
    measured = judged(seeded=SOUND.seeded[:9], unseeded=SOUND.unseeded[:4], chance=0.5).measured
    assert measured["chance of a coincidence"] == pytest.approx(0.125)
    assert judged(chance=None).measured["chance of a coincidence"] is None
    assert judged(unseeded=SOUND.unseeded[:1]).measured["chance of a coincidence"] is None


def tokens(*counts: int) -> tuple[Completion, ...]:
    """Answers whose first tokens are so many of each, all different in the end."""
    firsts = [i for i, n in enumerate(counts) for _ in range(n)]
    return answers(*((i, n // 5, n % 5) for n, i in enumerate(firsts)))


def test_token_1_is_tested_from_twenty_answers_on() -> None:
    law = ((0, 0.999), (1, 0.001))
    assert judged(seeded=tokens(0, 19), law=law).verdict is Verdict.PASS
    judgement = judged(seeded=tokens(0, 20), law=law)
    assert judgement.codes == ("CORRELATED_SEEDS",)
    assert judgement.statements[0].n == 20
    assert judgement.statements[0].error_probability == pytest.approx(ALPHA / 3)
    broken = replace(tokens(1)[0], status=500, error="broken")
    assert judged(seeded=(*tokens(0, 19), broken), law=law).statements == ()
    assert judged(seeded=(*tokens(0, 19), replace(tokens(1)[0], token_ids=None)), law=law).statements == ()


def test_token_1_is_tested_at_a_third_of_alpha() -> None:
    """All of 20 tokens are the first, of probability 1/2: 2 of 2**20 outcomes are as extreme."""
    law, p = ((0, 0.5), (1, 0.5)), 2.0**-19
    assert judged(3.01 * p, seeded=tokens(20), law=law, chance=None).codes == ("CORRELATED_SEEDS",)
    assert judged(2.99 * p, seeded=tokens(20), law=law, chance=None).codes == ()


def test_tokens_beyond_the_law_share_what_it_leaves() -> None:
    assert judged(seeded=tokens(10, 5, 5), law=((0, 0.5), (1, 0.25))).verdict is Verdict.PASS
    assert judged(seeded=tokens(5, 5, 10), law=((0, 0.6), (1, 0.399))).codes == ("CORRELATED_SEEDS",)
    assert judged(seeded=tokens(10, 9, 1), law=((0, 0.5), (1, 0.5))).codes == ("CORRELATED_SEEDS",)
    assert judged(seeded=tokens(10, 10), law=((0, 0.5), (1, 0.3), (2, 0.2))).verdict is Verdict.PASS


def test_numbers_that_are_no_law_or_leave_no_choice_are_not_tested() -> None:
    assert judged(seeded=tokens(0, 20), law=((0, 0.999), (1, 0.1))).statements == ()
    assert judged(seeded=tokens(10, 10), law=((0, 0.5), (1, 0.5 + 8e-7))).statements != ()
    assert judged(seeded=tokens(20), law=((0, 1.0),)).statements == ()


def test_unequal_answers_to_one_seed_count_against_the_most_common_one() -> None:
    usual, other = answers((0, 1, 2))[0], answers((0, 1, 3))[0]
    judgement = judged(same=((other, usual, usual),), noise=0.0)
    assert judgement.codes == ("IRREPRODUCIBLE",)
    assert "one seed asked 3 times gave 2 different answers" in judgement.summary
    broken = replace(other, status=500, error="broken")
    assert judged(same=((usual, usual, broken),), noise=0.0).verdict is Verdict.PASS
    assert judged(same=((broken, broken),), noise=0.0).verdict is Verdict.PASS


def test_a_pass_counts_different_answers() -> None:
    summary = judged(seeded=SOUND.seeded[:9], unseeded=SOUND.unseeded[:4]).summary
    assert "1 routes and prompts" in summary
    assert "9 of 9 seeds and 4 of 4 unseeded requests differ" in summary


def test_three_answers_of_each_kind_are_the_least() -> None:
    assert judged(seeded=SOUND.seeded[:3], unseeded=SOUND.unseeded[:3]).verdict is Verdict.PASS
    assert judged(seeded=SOUND.seeded[:2]).verdict is Verdict.INCONCLUSIVE
    assert judged(unseeded=SOUND.unseeded[:2]).verdict is Verdict.INCONCLUSIVE
    assert judged(same=()).verdict is Verdict.INCONCLUSIVE
