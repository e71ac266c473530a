"""What numerical noise may explain, and when requests had company."""

from __future__ import annotations

import numpy as np
import pytest

from draftproof.checks.examples import answer, true_token
from draftproof.checks.randomness.company import Timed, company
from draftproof.checks.randomness.repeats import FLIPS_PER_NOISE, Repeat, drift, flips_by_noise, weigh
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
