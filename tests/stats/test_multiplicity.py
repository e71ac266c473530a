from __future__ import annotations

from math import exp, inf, log

import numpy as np
import pytest

from draftproof.stats.multiplicity import ErrorBudget


def test_shares_follow_the_weights_and_sum_to_alpha() -> None:
    budget = ErrorBudget(1e-6, {"distribution": 3.0, "seeds": 1.0})
    assert budget.share("distribution") == pytest.approx(0.75e-6)
    assert budget.share("distribution") + budget.share("seeds") == pytest.approx(1e-6)
    assert budget.log_threshold("seeds") == pytest.approx(log(4e6))


def test_eight_equal_checks_cost_two_nats() -> None:
    budget = ErrorBudget.equal(1e-6, tuple("abcdefgh"))
    assert budget.log_threshold("a") == pytest.approx(15.9, abs=0.05)
    assert budget.rejects("a", 15.91)
    assert budget.rejects("a", budget.log_threshold("a")), "1/alpha itself is enough (Ville)"
    assert not budget.rejects("a", 15.8)


def test_total_is_the_weighted_mean_of_e_values() -> None:
    budget = ErrorBudget(0.01, {"a": 1.0, "b": 3.0})
    assert exp(budget.log_e_total({"a": log(20.0)})) == pytest.approx(0.25 * 20 + 0.75)
    assert budget.log_e_total({"a": -inf, "b": -inf}) == -inf
    assert budget.log_e_total({"a": 2000.0}) == pytest.approx(2000 - log(4))


def test_false_alarms_of_dependent_checks_stay_within_alpha() -> None:
    """Four checks that all see the same e-value 1/u: 20,000 audits at 5 % give more than 1150 alarms with probability 1e-6."""
    budget = ErrorBudget.equal(0.05, tuple("abcd"))
    log_e = -np.log(np.random.default_rng(1).random(20_000))
    alarms = sum(any(budget.rejects(c, e) for c in "abcd") for e in log_e)
    assert alarms <= 1150


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"a": 1.0, "b": -1.0}, {"a": float("nan")}])
def test_weights_must_be_positive(weights: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="positive weight"):
        ErrorBudget(0.05, weights)


@pytest.mark.parametrize("alpha", [-0.1, 0.0, 1.0, 1.5])
def test_alpha_must_be_a_probability(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        ErrorBudget(alpha, {"a": 1.0})


def test_unknown_checks_are_refused() -> None:
    budget = ErrorBudget.equal(0.05, ("a",))
    with pytest.raises(KeyError):
        budget.share("b")
    with pytest.raises(KeyError, match="no weight"):
        budget.log_e_total({"b": 1.0})


def test_weights_cannot_change_after_the_first_request() -> None:
    weights = {"a": 1.0}
    budget = ErrorBudget(0.05, weights)
    weights["a"] = 9.0
    assert budget.weights["a"] == 1.0
    with pytest.raises(TypeError):
        budget.weights["a"] = 2.0  # type: ignore[index]
