from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.randomness.company import Timed
from draftproof.checks.randomness.concurrency import SEED, Evidence, judge
from draftproof.checks.randomness.repeats import Repeat
from draftproof.core.ask import Completion
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

MINE = tuple(n * n % 5 for n in range(20))
THEIRS = tuple((n * n + n // 3) % 5 for n in range(20))


def answer(ids: Sequence[int], seed: int = 0, prompt: tuple[int, ...] | str = made.PROMPT) -> Completion:
    whole = made.answer([made.true_token(i) for i in ids], seed=SEED + seed, drafted=9, accepted=3)
    return replace(whole, ask=replace(whole.ask, prompt=prompt))


ALONE = (answer(MINE), answer(THEIRS, 1))


def judged(
    *got: Completion,
    alone: Sequence[Completion] = ALONE,
    markers: tuple[str, ...] = ("", "", ""),
    again: Completion | None = None,
    times: Sequence[tuple[float, float]] = ((0.0, 1.0),) * 3,
    noise: float | None = 0.0,
) -> Judgement:
    repeats = [Repeat(f"{len(got)} at once", a, b) for a, b in zip(alone, got, strict=True)]
    if again is not None:
        repeats.append(Repeat("alone", alone[0], again))
    rounds = (tuple(Timed(a, *when) for a, when in zip(got, times, strict=False)),)
    return judge(Evidence(made.LIVE_ON, tuple(alone), rounds, tuple(repeats), markers, noise), Terms())


def run(n: int) -> tuple[int, ...]:
    """Four tokens of mine, then n of the other's, then something of nobody's."""
    return (*MINE[:4], *THEIRS[4 : 4 + n], *[(THEIRS[4 + n] + 1) % 5] * (16 - n))


def test_twelve_tokens_in_a_row_of_another_request_are_foreign_and_eleven_are_not() -> None:
    assert "FOREIGN" in judged(answer(run(12)), ALONE[1]).codes
    assert "FOREIGN" not in judged(answer(run(11)), ALONE[1]).codes


def test_a_run_at_the_end_counts_from_twelve_tokens_on_too() -> None:
    theirs = tuple((n * n + n // 3) % 5 for n in range(40))
    alone = (answer(MINE), answer(theirs[:20], 1))
    for n, foreign in ((12, True), (11, False), (8, False)):
        filler = (theirs[19 - n] + 1) % 5
        ids = (*[filler] * (20 - n), *theirs[20 - n : 20])
        assert ("FOREIGN" in judged(answer(ids), alone[1], alone=alone).codes) is foreign


def test_answers_that_all_failed_compare_nothing() -> None:
    failed = [replace(a, status=500, error="broken") for a in ALONE]
    assert judged(*failed).summary == "no answers to compare"


def test_a_run_of_few_letters_belongs_to_nobody() -> None:
    four, three = (tuple(n * 7 % k for n in range(20)) for k in (4, 3))
    for ids, foreign in ((four, True), (three, False)):
        alone = (answer(MINE), answer(ids, 1))
        codes = judged(answer((*MINE[:2], *ids[:18])), alone[1], alone=alone).codes
        assert ("FOREIGN" in codes) is foreign


def test_the_prompt_of_another_request_is_foreign_too() -> None:
    prompt = tuple((3 * n + n // 2) % 5 for n in range(16))
    alone = (answer(MINE), answer(THEIRS, 1, prompt))
    assert "FOREIGN" in judged(answer((*MINE[:3], *prompt)), alone[1], alone=alone).codes
    texts = (answer(MINE), answer(THEIRS, 1, "a text of more than twelve letters"))
    assert "FOREIGN" not in judged(answer((*MINE[:3], *[4] * 17)), texts[1], alone=texts).codes


def test_a_private_word_is_foreign_unless_it_came_alone_too() -> None:
    other = replace(answer((*MINE[:16], 4, 4, 4, 4)), text="the word is plum")
    assert "FOREIGN" in judged(other, ALONE[1], markers=("fig", "plum")).codes
    assert "FOREIGN" not in judged(other, ALONE[1], markers=("plum", "fig")).codes, "its own word"
    guessed = (replace(ALONE[0], text="plum, I guess"), ALONE[1])
    assert "FOREIGN" not in judged(other, ALONE[1], alone=guessed, markers=("fig", "plum")).codes
    assert "FOREIGN" in judged(other, ALONE[1], markers=("fig", "plum"), again=answer((*MINE[:9], *[0] * 11))).codes


def test_runs_accuse_nobody_whose_answer_is_another_one_alone_too() -> None:
    swapped = judged(answer(THEIRS), ALONE[1], again=answer((*MINE[:9], *[0] * 11)))
    assert "FOREIGN" not in swapped.codes


def test_every_answer_of_a_round_is_looked_at() -> None:
    third = answer(tuple((2 * n * n + n) % 5 for n in range(20)), 2)
    alone = (*ALONE, third)
    judgement = judged(ALONE[0], replace(ALONE[1], error="broken", status=500), answer(THEIRS, 2), alone=alone)
    assert "request 3 of 3 at once got text of request 2" in judgement.summary


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        (((0.0, 10.0), (0.0, 5.0)), Verdict.PASS),
        (((0.0, 10.0), (6.0, 20.0)), Verdict.INCONCLUSIVE),
        (((0.0, 10.0), (9.0, 10.0)), Verdict.PASS),
        (((0.0, 10.0), (5.0, 15.0)), Verdict.PASS),
    ],
)
def test_one_request_in_company_for_half_of_its_time_is_enough(
    times: tuple[tuple[float, float], ...], verdict: Verdict
) -> None:
    assert judged(*ALONE, times=times).verdict is verdict


def test_every_number_of_requests_at_once_needs_company_and_the_least_is_told() -> None:
    """Two at once had company all of the time, three 40 % at most: that decides, in the better of their two rounds."""
    alone = (*ALONE, answer(MINE, 2))
    repeats = tuple(Repeat(f"{n} at once", a, a) for n in (2, 3, 3) for a in alone[:n])

    def round_(*times: tuple[float, float]) -> tuple[Timed, ...]:
        return tuple(Timed(a, *when) for a, when in zip(alone, times, strict=False))

    together, apart = round_((0, 10), (0, 10)), round_((0, 10), (6, 16), (20, 30))
    less = round_((0, 10), (9, 19), (20, 30))

    def judged_of(*rounds: tuple[Timed, ...]) -> Judgement:
        return judge(Evidence(made.LIVE_ON, alone, rounds, repeats, ("", "", ""), 0.0), Terms())

    for rounds in ((together, apart, less), (less, apart, together)):
        judgement = judged_of(*rounds)
        assert judgement.verdict is Verdict.INCONCLUSIVE
        assert judgement.measured["requests at once"] == 3
        assert judgement.measured["share of time in company"] == pytest.approx(0.4)
        told = "3 at once: none of the requests had company for more than 40% of its time, 50% are needed"
        assert judgement.summary == told
    assert judged_of(together, round_((0, 10), (0, 10), (20, 30)), less).verdict is Verdict.PASS


def test_what_was_measured_is_told() -> None:
    moved = [replace(t, logprob=(t.logprob or 0.0) - 0.01) for t in ALONE[0].tokens]
    got = (replace(ALONE[0], tokens=tuple(moved), drafted=8, accepted=2), ALONE[1])
    judgement = judged(*got, times=((0.0, 10.0), (4.0, 14.0)))
    assert judgement.measured["requests at once"] == 2
    assert judgement.measured["share of time in company"] == pytest.approx(0.6)
    assert judgement.measured["largest logprob drift (nat)"] == pytest.approx(0.01)
    assert judgement.measured["acceptance alone"] == pytest.approx(6 / 18)
    assert judgement.measured["acceptance in company"] == pytest.approx(5 / 17)
    silent = replace(ALONE[1], drafted=None, accepted=None)
    some = judged(ALONE[0], silent, alone=(ALONE[0], silent))
    assert some.measured["acceptance alone"] == pytest.approx(3 / 9)
    counting = replace(ALONE[1], accepted=None)
    assert judged(*ALONE, alone=(ALONE[0], counting)).measured["acceptance alone"] == pytest.approx(3 / 18)
    assert judgement.summary.endswith("logprobs within 1.0e-02 nat")
    nothing = judge(Evidence(made.LIVE_ON, (), (), (), ()), Terms())
    assert nothing.measured["requests at once"] == 0
    assert nothing.measured["share of time in company"] == 0.0
    assert nothing.measured["acceptance alone"] is None


def test_drift_is_the_largest_of_all_rounds_that_had_values() -> None:
    bare = tuple(replace(a, tokens=()) for a in ALONE)
    near = replace(ALONE[0], tokens=tuple(replace(t, logprob=(t.logprob or 0.0) - 0.002) for t in ALONE[0].tokens))
    far = replace(ALONE[0], tokens=tuple(replace(t, logprob=(t.logprob or 0.0) - 0.015) for t in ALONE[0].tokens))
    repeats = [
        Repeat("2 at once", ALONE[0], near),
        Repeat("3 at once", ALONE[0], far),
        Repeat("4 at once", bare[0], bare[0]),
    ]
    rounds = ((Timed(near, 0.0, 1.0), Timed(ALONE[1], 0.0, 1.0)), (Timed(far, 0.0, 1.0), Timed(ALONE[1], 0.0, 1.0)))
    judgement = judge(Evidence(made.LIVE_ON, ALONE, rounds, tuple(repeats), ("", "")), Terms())
    assert judgement.measured["largest logprob drift (nat)"] == pytest.approx(0.015)
    assert judgement.measured["requests at once"] == 2
    assert judgement.summary.endswith("logprobs within 1.5e-02 nat")
    assert judgement.verdict is Verdict.PASS


def test_an_unclear_answer_in_one_round_leaves_all_undecided() -> None:
    late = answer((*MINE[:16], *(4 - i for i in MINE[16:])))
    judgement = judged(late, ALONE[1], noise=0.05)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "1 answers differ from those alone" in judgement.summary
    repeats = (Repeat("2 at once", ALONE[0], late), Repeat("3 at once", ALONE[0], ALONE[0]))
    rounds = ((Timed(late, 0.0, 1.0), Timed(ALONE[1], 0.0, 1.0)),) * 2
    one = judge(Evidence(made.LIVE_ON, ALONE, rounds, repeats, ("", ""), 0.05), Terms())
    assert one.verdict is Verdict.INCONCLUSIVE
    unstable = judged(late, ALONE[1], again=late, noise=0.05)
    assert "asked again alone" in unstable.summary
