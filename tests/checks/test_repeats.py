"""What numerical noise may explain, and when requests had company."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from draftproof.checks.examples import answer, placeholder, true_token
from draftproof.checks.randomness.company import Timed, company
from draftproof.checks.randomness.repeats import (
    FLIPS_PER_NOISE,
    Repeat,
    difference,
    drift,
    emitted,
    flips_by_noise,
    weigh,
)
from draftproof.core.ask import Completion
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import GREEDY


@pytest.mark.parametrize("tokens", [2, 20, 400])
def test_the_bound_on_flipped_draws_holds_for_laws_of_many_tokens(tokens: int) -> None:
    """Seeded: inverse sampling from a flat law, its logprobs moved by independent noise."""
    rng = np.random.default_rng(5)
    noise, trials = 1e-3, 400
    flipped = 0.0
    for _ in range(trials):
        law = np.full(tokens, 1 / tokens)
        moved = law * np.exp(rng.normal(0, noise, tokens))
        edges = np.abs(np.cumsum(law) - np.cumsum(moved / moved.sum()))
        flipped += edges.sum() / trials
    assert flipped < FLIPS_PER_NOISE * noise


def test_one_flip_is_likely_with_much_noise_and_not_with_none() -> None:
    assert flips_by_noise(1, 32, 0.05) > 0.9
    assert flips_by_noise(1, 32, 0.0) == 0.0
    assert flips_by_noise(3, 96, 1e-6) < 1e-9 < flips_by_noise(1, 96, 1e-6)


def _greedy(ids: tuple[int, ...]) -> Completion:
    return answer([true_token(i) for i in ids], sampling=GREEDY)


def _row(gap: float) -> OracleRow:
    return OracleRow((0, 1), ("a", "b"), (-0.5, -0.5 - gap), 1)


@pytest.mark.parametrize(("gap", "found"), [(1e-4, "ties"), (0.02, "unclear"), (0.5, "faults")])
def test_greedy_answers_may_differ_at_a_near_tie(gap: float, found: str) -> None:
    repeat = Repeat("again", _greedy((2, 0, 3)), _greedy((2, 1, 4)), _row(gap))
    weighed = weigh("again", [repeat], 1e-6)
    assert {name for name in ("ties", "unclear", "faults") if getattr(weighed, name)} == {found}


def test_without_a_measured_noise_nothing_is_a_fault() -> None:
    repeat = Repeat("again", _greedy((2, 0, 3)), _greedy((2, 1, 4)), _row(0.5))
    assert weigh("again", [repeat], None).undecided
    assert not weigh("again", [repeat], None).failed


def test_drift_is_of_the_same_tokens_only() -> None:
    assert drift(Repeat("again", _greedy((2, 0)), _greedy((2, 1)))) == 0.0


def test_company_is_the_share_of_time_that_others_were_there_too() -> None:
    nobody = answer(())
    timed = [Timed(nobody, 0, 10), Timed(nobody, -5, 2), Timed(nobody, 1, 3), Timed(nobody, 8, 20)]
    assert company(timed, 0) == pytest.approx(0.5)
    assert company(timed[:1], 0) == 0.0


@pytest.mark.parametrize(
    ("gap", "noise", "found"),
    [
        (0.0009, 1e-6, "ties"),
        (0.0011, 1e-6, "unclear"),
        (0.045, 1e-6, "unclear"),
        (0.055, 1e-6, "faults"),
        (0.42, 0.1, "ties"),
        (0.43, 0.1, "unclear"),
        (0.84, 0.1, "unclear"),
        (0.86, 0.1, "faults"),
    ],
)
def test_a_gap_is_held_against_the_noise_of_two_values(gap: float, noise: float, found: str) -> None:
    """Three and six times sqrt(2) .1 are .424 and .849."""
    weighed = weigh("again", [Repeat("again", _greedy((2, 0, 3)), _greedy((2, 1, 4)), _row(gap))], noise)
    assert {name for name in ("ties", "unclear", "faults") if getattr(weighed, name)} == {found}


@pytest.mark.parametrize(
    ("moved", "noise", "found"),
    [
        (0.0, 0.0, "small"),
        (0.019, 0.0, "small"),
        (0.021, 0.0, "unclear"),
        (0.049, 0.0, "unclear"),
        (0.051, 0.0, "large"),
        (0.79, 0.1, "small"),
        (0.81, 0.1, "unclear"),
        (1.99, 0.1, "unclear"),
        (2.01, 0.1, "large"),
        (2.01, None, "unclear"),
    ],
)
def test_drift_is_held_against_noise(moved: float, noise: float | None, found: str) -> None:
    first = _greedy((2, 0, 3))
    tokens = [replace(t, logprob=(t.logprob or 0.0) - moved * (n == 1)) for n, t in enumerate(first.tokens)]
    weighed = weigh("again", [Repeat("again", first, replace(first, tokens=tuple(tokens)))], noise)
    assert weighed.drift == pytest.approx(moved)
    assert weighed.drift_is == found
    assert weighed.failed is (found == "large")
    assert weighed.undecided is (found == "unclear")


def test_drift_is_none_where_no_token_has_two_values() -> None:
    first = answer([true_token(0), placeholder(1), true_token(2)])
    again = answer([placeholder(0), true_token(1), replace(true_token(2), logprob=None)])
    assert drift(Repeat("again", first, again)) is None
    assert weigh("again", [Repeat("again", first, again)], 0.1).drift_is == "none"


def test_answers_are_ids_or_else_texts_or_else_characters() -> None:
    whole = answer([true_token(0), true_token(1)])
    assert emitted(whole) == (0, 1)
    assert emitted(replace(whole, token_ids=None)) == ("a", "b")
    assert emitted(replace(whole, token_ids=None, tokens=(), text="xyz")) == ("x", "y", "z")


def test_the_first_difference_may_be_where_the_shorter_answer_ends() -> None:
    assert difference(_greedy((0, 1)), _greedy((0, 1, 2))) == 2
    assert difference(_greedy((0, 1, 2)), _greedy((0,))) == 1
    assert difference(_greedy((0, 1)), _greedy((0, 1))) is None


def test_a_difference_of_length_has_no_gap() -> None:
    """One answer ends where the other goes on: the oracle's row says nothing of an end."""
    weighed = weigh("again", [Repeat("again", _greedy((2,)), _greedy((2, 1)), _row(0.5))], 1e-6)
    assert len(weighed.unclear) == 1


def test_a_row_by_text_is_read_by_text() -> None:
    row = OracleRow((-1, -1), ("a", "b"), (-0.5, -1.5), 1)
    assert weigh("again", [Repeat("again", _greedy((2, 0)), _greedy((2, 1)), row)], 1e-6).faults
    near = OracleRow((-1, -1), ("a", "b"), (-0.5, -0.5001), 1)
    assert weigh("again", [Repeat("again", _greedy((2, 0)), _greedy((2, 1)), near)], 1e-6).ties


def test_a_difference_without_a_row_is_unclear() -> None:
    assert weigh("again", [Repeat("again", _greedy((2, 0)), _greedy((2, 1)))], 1e-6).unclear


def _drawn(*ids: int) -> Completion:
    return answer([true_token(i) for i in ids])


def test_differing_draws_are_counted_against_the_tokens_that_were_compared() -> None:
    """Two equal answers of 4 tokens each, and one that differs at its third: 4 + 4 + 3 tokens."""
    same = Repeat("again", _drawn(0, 1, 2, 3), _drawn(0, 1, 2, 3))
    other = Repeat("again", _drawn(0, 1, 2, 3), _drawn(0, 1, 0, 3))
    weighed = weigh("again", [same, same, other], 1e-3)
    assert weighed.chance == pytest.approx(flips_by_noise(1, 11, 1e-3))
    assert flips_by_noise(1, 11, 1e-3) == pytest.approx(1 - np.exp(-10 * 1e-3 * 11))
    assert weigh("again", [same], 1e-3).chance == 1.0
    assert flips_by_noise(1, 11, None) == 1.0


def test_draws_that_noise_hardly_explains_are_faults() -> None:
    """Poisson of mean 1.1e-9 and 9e-10: one or more differ with just these probabilities."""
    other = Repeat("again", _drawn(*[0] * 10), _drawn(*[0] * 9, 1))
    assert weigh("again", [other], 1.1e-11).unclear
    assert weigh("again", [other], 0.9e-11).faults


def test_company_counts_time_once_and_only_while_both_were_there() -> None:
    nobody = answer(())
    me = Timed(nobody, 10, 20)
    assert company([me, Timed(nobody, 12, 14), Timed(nobody, 13, 16)], 0) == pytest.approx(0.4)
    assert company([me, Timed(nobody, 0, 5), Timed(nobody, 25, 30)], 0) == 0.0
    assert company([me, Timed(nobody, 20, 30)], 0) == 0.0
    assert company([Timed(nobody, 10, 10), Timed(nobody, 0, 30)], 0) == 0.0
