from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.core.distribution import Law, total_variation
from draftproof.stats.faults import FAULTS, SOUND, Needs, Rule
from draftproof.stats.verification import Step

BY_NAME = {rule.name: rule for rule in (*FAULTS, *SOUND)}
P = np.array([0.345, 0.452, 0.203])
Q = np.array([0.60, 0.25, 0.15])

weights = st.lists(st.sampled_from([0.0, 0.001, 0.1, 0.3, 1.0, 2.5, 7.0]), min_size=4, max_size=4).filter(any)


def law_of(values: list[float]) -> Law:
    return np.array(values) / sum(values)


def ranked(law: Law) -> list[int]:
    return sorted(range(len(law)), key=lambda x: (-law[x], x))


def normal(w: list[float], p: Law) -> list[float]:
    return [v / sum(w) for v in w] if sum(w) > 0 else p.tolist()


def residual(p: Law, q: Law) -> list[float]:
    return normal([max(p[x] - q[x], 0.0) for x in range(len(p))], p)


def rank_residual(p: Law, q: Law) -> list[float]:
    w = [0.0] * len(p)
    for token, other in zip(ranked(p), ranked(q), strict=True):
        w[token] = max(p[token] - q[other], 0.0)
    return normal(w, p)


def index_residual(p: Law, q: Law) -> list[float]:
    mine, other = [x for x in range(len(p)) if p[x] > 0], [x for x in range(len(q)) if q[x] > 0]
    w = [0.0] * len(p)
    for i, token in enumerate(mine):
        w[token] = max(p[token] - (q[other[i]] if i < len(other) else 0.0), 0.0)
    return normal(w, p)


def one_hot(n: int, x: int) -> list[float]:
    return [float(y == x) for y in range(n)]


def enumerated(
    proposal: Law | list[float], accept: Callable[[int], float], replacement: Callable[[int], list[float]]
) -> Law:
    """Every proposed token, kept or replaced: the rule in words, one branch after the other."""
    out = np.zeros(len(proposal))
    for x, chance in enumerate(proposal):
        out[x] += chance * accept(x)
        for y, share in enumerate(replacement(x)):
            out[y] += chance * (1 - accept(x)) * share
    return out


def expected(name: str, p: Law, q: Law) -> Law | None:
    n = len(p)
    best, drafted = ranked(p)[0], ranked(q)[0]

    def usual(x: int) -> float:
        return min(1.0, p[x] / q[x]) if q[x] > 0 else 1.0

    def tempered(law: Law, t: float) -> Law:
        return np.array(normal([v ** (1 / t) for v in law.tolist()], law))

    entropy = -sum(v * np.log(v) for v in p if v > 0)
    simple: dict[str, tuple[Law | list[float], Callable[[int], float], Callable[[int], list[float]]]] = {
        "rejection": (q, usual, lambda _: residual(p, q)),
        "exact_match": (q, lambda x: p[x], lambda x: [0.0 if y == x else p[y] / (1 - p[x] or 1) for y in range(n)]),
        "draft_top": (one_hot(n, drafted), lambda _: 1.0, lambda _: [0.0] * n),
        "draft_top_softmax": (one_hot(n, drafted), usual, lambda _: residual(p, q)),
        "draft_top_rank_residual": (one_hot(n, drafted), usual, lambda _: rank_residual(p, q)),
        "draft_top_index_residual": (one_hot(n, drafted), usual, lambda _: index_residual(p, q)),
        "greedy": (one_hot(n, best), lambda _: 1.0, lambda _: [0.0] * n),
        "greedy_acceptance": (q, lambda x: float(x == best), lambda _: p.tolist()),
        "redraw_on_mismatch": (q, lambda x: p[x], lambda _: p.tolist()),
        "rank_residual": (q, usual, lambda _: rank_residual(p, q)),
        "no_residual": (q, usual, lambda _: p.tolist()),
        "reject_to_target_top": (q, usual, lambda _: one_hot(n, best)),
        "reject_to_residual_top": (q, usual, lambda _: one_hot(n, ranked(np.array(residual(p, q)))[0])),
        "one_token_residual": (q, usual, lambda x: normal([0.0 if y == x else p[y] for y in range(n)], p)),
        "typical_acceptance": (q, lambda x: float(p[x] >= min(0.09, 0.3 * np.exp(-entropy))), lambda _: p.tolist()),
        "threshold_acceptance": (q, lambda x: float(p[x] >= 0.25), lambda _: p.tolist()),
    }
    if name in simple:
        return enumerated(*simple[name])
    family, _, value = name.rpartition("_")
    number = float(value) if value.replace(".", "").isdigit() else 0.0
    if family == "draft_temperature":
        return enumerated(tempered(q, number), usual, lambda _: residual(p, q))
    if family == "lenient_ratio":
        return enumerated(q, lambda x: min(1.0, p[x] / (number * q[x])) if q[x] > 0 else 1.0, lambda _: residual(p, q))
    if family == "coin_toss_acceptance":
        return enumerated(q, lambda _: number, lambda _: p.tolist())
    if family == "temperature":
        return tempered(p, number)
    return None


@settings(max_examples=150, deadline=None, derandomize=True)
@given(weights, weights)
def test_every_law_equals_the_enumeration_of_its_rule(w: list[float], v: list[float]) -> None:
    p, q = law_of(w), law_of(v)
    compared = 0
    for rule in BY_NAME.values():
        by_hand = expected(rule.name, p, q)
        if by_hand is not None:
            np.testing.assert_allclose(rule.law(Step(p, q)), by_hand, atol=1e-12, err_msg=rule.name)
            compared += 1
    assert compared == 30


@settings(max_examples=100, deadline=None, derandomize=True)
@given(weights, weights, st.lists(st.floats(0.25, 1.0), min_size=4, max_size=4))
def test_laws_are_laws_and_sound_rules_leave_p(w: list[float], v: list[float], tops: list[float]) -> None:
    step = Step(law_of(w), law_of(v), np.array(tops))
    for rule in BY_NAME.values():
        for outcome in (rule.outcome(step), rule.later(step)):
            assert (outcome.accepted >= -1e-15).all()
            assert (outcome.instead >= -1e-15).all()
            assert outcome.law.sum() == pytest.approx(1, abs=1e-12), rule.name
    for rule in SOUND:
        np.testing.assert_allclose(rule.law(step), step.p, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "law", "distance"),
    [
        ("draft_top", [1, 0, 0], 0.655),
        ("draft_top_softmax", [0.575, 0.337, 0.088], 0.230),
        ("greedy", [0, 1, 0], 0.548),
        ("greedy_acceptance", [0.259, 0.589, 0.152], 0.137),
        ("redraw_on_mismatch", [0.431, 0.407, 0.162], 0.086),
        ("rank_residual", [0.509, 0.250, 0.241], 0.202),
        ("no_residual", [0.433, 0.365, 0.202], 0.088),
        ("reject_to_target_top", [0.345, 0.505, 0.150], 0.053),
        ("typical_acceptance", [0.600, 0.250, 0.150], 0.255),
        ("threshold_acceptance", [0.652, 0.318, 0.031], 0.307),
        ("coin_toss_acceptance_0.5", [0.473, 0.351, 0.177], 0.128),
        ("shared_gumbel", [0.345, 0.465, 0.190], 0.013),
    ],
)
def test_laws_of_the_reported_context(name: str, law: list[float], distance: float) -> None:
    r = BY_NAME[name].law(Step(P, Q))
    np.testing.assert_allclose(r, law, atol=6e-4)
    assert total_variation(P, r) == pytest.approx(distance, abs=6e-4)


def within_chance(counts: Law, law: Law, z: float = 5.5) -> None:
    """Each cell within z standard deviations: false-alarm probability below 4e-8 per cell."""
    n = counts.sum()
    np.testing.assert_array_less(np.abs(counts - n * law), z * np.sqrt(n * law * (1 - law)) + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_shared_gumbel_law_against_shared_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    noise = rng.gumbel(size=(200_000, 6))
    x = np.argmax(np.log(q) + noise, axis=1)
    with np.errstate(divide="ignore"):
        y = np.argmax(np.log(np.array(residual(p, q))) + noise, axis=1)
    kept = rng.random(len(x)) < np.minimum(1, p[x] / q[x])
    counts = np.bincount(np.where(kept, x, y), minlength=6).astype(np.float64)
    within_chance(counts, BY_NAME["shared_gumbel"].law(Step(p, q)))


@pytest.mark.parametrize("seed", range(4))
def test_one_uniform_law_against_one_number_for_both_decisions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    x = rng.choice(6, size=200_000, p=q)
    u = rng.random(len(x))
    y = np.searchsorted(np.cumsum(residual(p, q)), u, side="right").clip(max=5)
    counts = np.bincount(np.where(u * q[x] < p[x], x, y), minlength=6).astype(np.float64)
    law = BY_NAME["one_uniform"].law(Step(p, q))
    within_chance(counts, law)
    assert total_variation(p, law) > 0.01


def test_short_drafts_dropped_by_enumeration() -> None:
    rng = np.random.default_rng(3)
    p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5) / 2)
    after = rng.dirichlet(np.ones(5) / 2, size=5)
    for rule in (r for r in FAULTS if r.p_min > 0):
        law = np.zeros(5)
        for x in range(5):
            if q.max() < rule.p_min or after[x].max() < rule.p_min:
                law += q[x] * p
            else:
                keep = min(1.0, p[x] / q[x])
                law[x] += q[x] * keep
                law += q[x] * (1 - keep) * np.array(residual(p, q))
        np.testing.assert_allclose(rule.law(Step(p, q, after.max(axis=1))), law, atol=1e-12)


def test_short_drafts_dropped_keeps_a_draft_that_is_exactly_sure_enough() -> None:
    rule = BY_NAME["short_drafts_dropped_0.75"]
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.75, 0.125, 0.125])
    drafted = Step(p, q, np.array([0.75, 0.75, 0.75]))
    np.testing.assert_allclose(rule.outcome(drafted).accepted, BY_NAME["rejection"].outcome(drafted).accepted)
    assert rule.outcome(Step(p, q, np.array([0.75, 0.7, 0.7]))).accepted.tolist() == [0.5, 0.0, 0.0]


def test_later_tokens_of_a_short_draft_are_verified_exactly_where_it_goes_on_and_drawn_where_it_ended() -> None:
    rule, exact = BY_NAME["short_drafts_dropped_0.75"], BY_NAME["rejection"]
    p = np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]])
    q = np.array([[0.75, 0.125, 0.125], [0.5, 0.375, 0.125]])
    later = rule.later(Step(p, q, np.ones_like(p)))
    np.testing.assert_array_equal(later.accepted[0], exact.outcome(Step(p, q)).accepted[0])
    np.testing.assert_array_equal(later.instead[0], exact.outcome(Step(p, q)).instead[0])
    np.testing.assert_array_equal(later.accepted[1], 0.0)
    np.testing.assert_array_equal(later.instead[1], p[1])


def test_rules_without_a_minimum_are_the_same_at_every_token_of_a_draft() -> None:
    for rule in (r for r in BY_NAME.values() if r.p_min == 0):
        step = Step(P, Q, Q)
        np.testing.assert_array_equal(rule.later(step).accepted, rule.outcome(step).accepted, err_msg=rule.name)
        np.testing.assert_array_equal(rule.later(step).instead, rule.outcome(step).instead, err_msg=rule.name)


def test_what_is_typical_depends_on_how_uncertain_the_target_is() -> None:
    """16 equally likely tokens have exp(-entropy) = 1/16, so .3/16 is enough; of an almost certain law it takes .09."""
    typical = BY_NAME["typical_acceptance"]
    unsure = np.full(17, 0.98 / 16)
    unsure[16] = 0.02
    q = np.eye(17)[16]
    assert typical.outcome(Step(unsure, q)).accepted[16] == 1.0
    for rare, accepted in ((0.01, 0.0), (0.08, 0.0), (0.1, 1.0)):
        sure = np.array([1 - rare, rare])
        assert typical.outcome(Step(sure, np.array([0.0, 1.0]))).accepted[1] == accepted
    spread = np.array([*[0.98 / 32] * 32, 0.02])
    assert typical.outcome(Step(spread, np.eye(33)[32])).accepted[32] == 1.0
    few = np.array([*[0.96 / 8] * 8, 0.04])
    assert typical.outcome(Step(few, np.eye(9)[8])).accepted[8] == 1.0
    assert typical.outcome(Step(np.array([*[0.97 / 8] * 8, 0.03]), np.eye(9)[8])).accepted[8] == 0.0


def test_min_p_is_a_share_of_the_top_token() -> None:
    law = np.array([0.4, 0.4, 0.149, 0.03, 0.021])
    np.testing.assert_allclose(BY_NAME["min_p_0.05"].law(Step(law)), law)
    law = np.array([0.5, 0.465, 0.02, 0.015])
    np.testing.assert_allclose(BY_NAME["min_p_0.05"].law(Step(law)), np.array([0.5, 0.465, 0, 0]) / 0.965)


def test_rows_are_independent() -> None:
    rng = np.random.default_rng(5)
    p, q, tops = (rng.dirichlet(np.ones(7), size=(3, 4)) for _ in range(3))
    for rule in BY_NAME.values():
        together = rule.law(Step(p, q, 7 * tops))
        for i in np.ndindex(3, 4):
            np.testing.assert_allclose(together[i], rule.law(Step(p[i], q[i], 7 * tops[i])), atol=1e-12)


def test_rules_that_need_the_target_only_work_without_a_draft() -> None:
    target_only = [rule for rule in FAULTS if rule.needs is Needs.TARGET]
    assert {"greedy", "threshold_acceptance", "temperature_0.7"} <= {rule.name for rule in target_only}
    for rule in target_only:
        assert rule.law(Step(P)).sum() == pytest.approx(1)
    np.testing.assert_allclose(BY_NAME["temperature_0.5"].law(Step(P)), P**2 / (P**2).sum())


def test_a_missing_draft_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the draft's law"):
        BY_NAME["no_residual"].law(Step(P))
    with pytest.raises(ValueError, match="after each token"):
        BY_NAME["short_drafts_dropped_0.45"].law(Step(P, Q))


def test_truncations_keep_the_most_likely_tokens() -> None:
    p = np.array([0.5, 0.3, 0.16, 0.02, 0.02])
    kept = np.array([0.5, 0.3, 0.16, 0, 0]) / 0.96
    np.testing.assert_allclose(BY_NAME["top_p_0.95"].law(Step(p)), kept)
    np.testing.assert_allclose(BY_NAME["min_p_0.05"].law(Step(p)), kept)


def test_names_are_unique_and_descriptions_are_sentences() -> None:
    names = [rule.name for rule in (*FAULTS, *SOUND)]
    assert len(names) == len(set(names))
    assert all(rule.description[0].islower() and not rule.description.endswith(".") for rule in FAULTS)


def test_a_rule_is_one_entry() -> None:
    mine = Rule(
        "stuck", "emits token 0", Needs.TARGET, lambda s: BY_NAME["greedy"].outcome(Step(np.eye(3)[0] + 0 * s.p))
    )
    np.testing.assert_array_equal(mine.law(Step(P)), [1, 0, 0])
