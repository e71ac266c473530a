from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tests.report.reports import made

from draftproof.checks.logprobs import placeholder
from draftproof.core.ask import Ask, Completion
from draftproof.core.sampling import GREEDY
from draftproof.core.tokens import Alternative, TokenRecord
from draftproof.report.plots.calibration import calibration, plots

LAWS = np.random.default_rng(0).dirichlet(np.full(6, 0.6), size=40)


def answer(
    seed: int | None, report: Callable[[np.ndarray], np.ndarray], tokens: int = 40, asked: int = 6
) -> Completion:
    """One answer of tokens drawn from `LAWS`; `report` is what the server makes of a law."""
    rng = np.random.default_rng(seed)
    records = []
    for law in LAWS[:tokens]:
        drawn, told = int(rng.choice(6, p=law)), np.log(report(law))
        order = np.argsort(-told)[:asked].tolist()
        listed = tuple(Alternative(i, str(i), float(told[i])) for i in order)
        records.append(TokenRecord(drawn, str(drawn), None, float(told[drawn]), listed))
    return Completion(Ask("x", tokens, asked, seed=seed), seed or 1, "/completion", 200, tokens=tuple(records))


def sharpened(law: np.ndarray) -> np.ndarray:
    squares: np.ndarray = law**2
    return np.asarray(squares / squares.sum())


def off(found: list[Completion]) -> int:
    return sum(not b.came.low <= b.reported <= b.came.high for b in calibration(found).bins)


def test_true_probabilities_are_calibrated() -> None:
    found = [answer(seed, lambda law: law) for seed in range(100)]
    read = calibration(found)
    assert (read.positions, read.n_answers) == (4000, 100)
    assert len(read.bins) == 11
    assert off(found) == 0


def test_overconfident_probabilities_are_seen() -> None:
    assert off([answer(seed, sharpened) for seed in range(100)]) >= 5


def test_placeholders_say_nothing_of_calibration_and_are_counted() -> None:
    """Their 1.0 always comes: taken at its word it would look perfectly calibrated."""
    bare = TokenRecord(3, "3", None, 0.0, ())
    whole = answer(1, lambda law: law)
    read = calibration([replace(whole, tokens=(whole.tokens[0], *[bare] * 39))])
    assert (read.positions, read.bare) == (1, 39)
    assert calibration([replace(whole, tokens=(bare,) * 5)]).bins == ()


def test_sampled_token_that_was_appended_to_the_list_is_passed_over() -> None:
    """Whether it is there depends on the draw: rare tokens would seem to come always."""

    def appended(seed: int) -> Completion:
        made = answer(seed, lambda law: law, asked=2)
        tokens = []
        for t in made.tokens:
            listed = t.alternatives or ()
            more = () if any(a.id == t.id for a in listed) else (Alternative(t.id, t.text, t.logprob),)
            tokens.append(replace(t, alternatives=(*listed, *more)))
        return replace(made, tokens=tuple(tokens))

    assert off([appended(seed) for seed in range(100)]) == 0


def test_one_answer_per_seed_counts_the_longest() -> None:
    found = [answer(5, lambda law: law, tokens=10), answer(5, lambda law: law), answer(5, lambda law: law, tokens=3)]
    assert calibration(found).positions == 40
    unseeded = [replace(a, ask=replace(a.ask, seed=None)) for a in found]
    assert calibration(unseeded).positions == 53
    assert calibration([replace(a, ask=replace(a.ask, count=8)) for a in unseeded]).positions == 0


def test_answers_under_other_samplers_are_passed_over() -> None:
    one = answer(1, lambda law: law)
    for ask in (replace(one.ask, sampling=GREEDY), replace(one.ask, grammar="g"), replace(one.ask, post_sampling=True)):
        assert calibration([replace(one, ask=ask)]).positions == 0


def test_picture_is_of_all_answers_in_the_evidence_each_once() -> None:
    found = tuple(answer(seed, lambda law: law) for seed in range(20))
    report = made()
    outcomes = tuple(replace(o, evidence=placeholder.Evidence((), found)) for o in report.outcomes[:2])
    (plot,) = plots(replace(report, outcomes=outcomes))
    assert plot.caption.startswith("800 tokens of 20 answers at temperature 1.")
    assert plot.alt.startswith("0 of 11 points are off the line")
    bare = replace(found[0], tokens=(replace(found[0].tokens[0], alternatives=()),))
    assert list(plots(replace(report, outcomes=(replace(outcomes[0], evidence=(bare,)),)))) == []
