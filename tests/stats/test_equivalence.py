from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import beta

from draftproof.core.distribution import Law, total_variation
from draftproof.stats.equivalence import mean_tv_upper, tv_upper, two_sample_tv_upper
from draftproof.stats.intervals import beta_binomial_upper, clopper_pearson_upper, mean_upper

P = np.array([0.345, 0.452, 0.203])


def test_bound_is_the_largest_over_all_sets() -> None:
    counts, n, error = np.array([30, 55, 15]), 100, 0.01
    by_hand = max(
        float(clopper_pearson_upper(counts[list(a)].sum(), n, error)) - P[list(a)].sum()
        for a in ([0], [1], [2], [0, 1], [0, 2], [1, 2])
    )
    bound = tv_upper(counts, P, error)
    assert bound.bound == pytest.approx(by_hand)
    assert bound.estimate == pytest.approx(total_variation(counts / n, P))
    assert bound.n == n
    assert bound.error == error


def test_anytime_bound_is_the_largest_over_all_sets() -> None:
    counts, n, error = np.array([30, 55, 15]), 100, 0.01
    by_hand = max(
        float(beta_binomial_upper(counts[list(a)].sum(), n, error, 200 * m, 200 * (1 - m))) - m
        for a in ([0], [1], [2], [0, 1], [0, 2], [1, 2])
        for m in [float(P[list(a)].sum())]
    )
    assert tv_upper(counts, P, error, anytime=True).bound == pytest.approx(by_hand)


def test_pooled_bound_covers_every_choice_of_sets_and_little_more() -> None:
    rng = np.random.default_rng(1)
    for fixed, upper in ((True, clopper_pearson_upper), (False, mean_upper)):
        p = rng.dirichlet(np.ones(4), size=2)
        counts = np.stack([rng.multinomial(300, p[0]), rng.multinomial(100, p[1])])
        exact = 0.0
        for chosen in product([0, 1], repeat=8):
            sets = np.array(chosen).reshape(2, 4)
            mass = (counts.sum(axis=1) / 400 * (sets * p).sum(axis=1)).sum()
            exact = max(exact, float(upper((sets * counts).sum(), 400, 0.01)) - mass)
        bound = mean_tv_upper(counts, p, 0.01, fixed_visits=fixed).bound
        assert exact - 1e-12 <= bound <= exact + 0.01


def test_many_cells_use_a_bound_that_is_never_smaller() -> None:
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(12))
    counts = rng.multinomial(2000, p)
    padded = np.r_[counts, 0], np.r_[p, 0.0]
    for anytime in (False, True):
        few, many = tv_upper(counts, p, 0.01, anytime), tv_upper(*padded, 0.01, anytime)
        assert many.bound >= few.bound - 1e-9
        assert many.bound <= 1.6 * few.bound
        assert many.estimate == pytest.approx(few.estimate)


@pytest.mark.parametrize("anytime", [False, True])
@pytest.mark.parametrize("shift", [0.0, 0.03, 0.2])
def test_bound_covers_the_true_distance(shift: float, anytime: bool) -> None:
    """1000 samples of 400 at 5 %: a miss rate of exactly 5 % exceeds 86 with probability 1e-6."""
    rng = np.random.default_rng(3)
    r = P + shift * np.array([1, -0.5, -0.5])
    missed = sum(
        tv_upper(counts, P, 0.05, anytime).bound < total_variation(P, r)
        for counts in rng.multinomial(400, r, size=1000)
    )
    assert missed <= 86


def test_mean_bound_covers_when_contexts_depend_on_earlier_tokens() -> None:
    """1000 walks of 300 tokens at 5 %, each token choosing the next context: more than 86 misses have probability 1e-6."""
    rng = np.random.default_rng(4)
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
    r = np.array([[0.55, 0.25, 0.2], [0.1, 0.6, 0.3], [0.1, 0.3, 0.6]])
    distance = 0.5 * np.abs(p - r).sum(axis=1)
    walks, steps = 1000, 300
    state, visits, counts = np.zeros(walks, dtype=int), np.zeros((walks, 3)), np.zeros((walks, 3, 3))
    every = np.arange(walks)
    for _ in range(steps):
        x = (rng.random(walks)[:, None] > np.cumsum(r[state], axis=1)).sum(axis=1)
        visits[every, state] += 1
        counts[every, state, x] += 1
        state = x
    missed = sum(mean_tv_upper(c, p, 0.05).bound < (v @ distance) / steps for c, v in zip(counts, visits, strict=True))
    assert missed <= 86


def expected_bound(p: Law, n: int, error: float, anytime: bool = False) -> float:
    rng = np.random.default_rng(5)
    return float(np.mean([tv_upper(c, p, error, anytime).bound for c in rng.multinomial(n, p, size=200)]))


def test_width_at_an_exact_server() -> None:
    assert expected_bound(P, 1000, 0.05) == pytest.approx(0.042, abs=0.002)
    assert expected_bound(P, 10_000, 0.001) == pytest.approx(0.020, abs=0.001)
    assert expected_bound(P, 1000, 0.001, anytime=True) < 1.35 * expected_bound(P, 1000, 0.001)


def test_nothing_seen_bounds_nothing() -> None:
    assert tv_upper([0, 0, 0], P, 0.05).bound == 1
    assert mean_tv_upper(np.zeros((2, 3)), np.stack([P, P]), 0.05).bound == 1
    assert mean_tv_upper(np.zeros((2, 3)), np.stack([P, P]), 0.05).estimate == 0


def test_an_impossible_token_leaves_no_small_bound() -> None:
    assert tv_upper([0, 50, 50], [0.5, 0.5, 0.0], 0.01).bound > 0.5


@pytest.mark.parametrize(
    ("counts", "p", "message"),
    [([1, 2], [0.5, 0.25, 0.25], "shape"), ([-1, 2], [0.5, 0.5], "nonnegative"), ([1, 2], [0.5, 0.6], "sum to 1")],
)
def test_bad_input_is_refused(counts: list[int], p: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tv_upper(counts, p, 0.05)


def test_statement_carries_what_it_rests_on() -> None:
    bound = mean_tv_upper([[50, 50], [20, 30]], [[0.5, 0.5], [0.4, 0.6]], 0.001)
    said = bound.statement("tokens and the target's law")
    assert said.n == 150
    assert said.error_probability == 0.001
    assert said.values["contexts"] == 2
    assert "anytime-valid" in said.method
    assert "tokens and the target's law" in said.text


def test_the_bound_by_two_samples_holds_for_laws_that_are_far_apart() -> None:
    """500 pairs of samples from laws 0.2 apart: the bound is below that in at most 1 of 100, as stated (seeded)."""
    rng = np.random.default_rng(8)
    p, r = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.4, 0.3])
    wrong = sum(
        two_sample_tv_upper(rng.multinomial(80, p), rng.multinomial(120, r), 0.01).bound < 0.2 for _ in range(500)
    )
    assert wrong <= 5


def test_the_bound_by_two_samples_falls_with_their_size() -> None:
    small, large = (two_sample_tv_upper([n // 2, n // 2], [n // 2, n // 2], 1e-3).bound for n in (100, 10_000))
    assert 0.2 < small < 0.6
    assert large < 0.05


def test_tokens_that_were_not_seen_count_too() -> None:
    bound = two_sample_tv_upper([50], [50], 0.01).bound
    assert bound == pytest.approx(1 - 0.005 ** (1 / 50))


@pytest.mark.parametrize(("first", "second"), [([1, 2], [1]), ([-1, 2], [1, 2]), ([1] * 12, [1] * 12)])
def test_counts_that_cannot_be_are_refused(first: list[int], second: list[int]) -> None:
    with pytest.raises(ValueError, match=r"counts|cells"):
        two_sample_tv_upper(first, second, 0.01)


def test_an_empty_sample_bounds_nothing() -> None:
    assert two_sample_tv_upper([0, 0], [3, 4], 0.01).bound == 1.0


def upper_by_hand(count: float, n: int, error: float) -> float:
    """Clopper and Pearson's, never below (count + 1)/n."""
    return 1.0 if count >= n else min(1.0, max(float(beta.ppf(1 - error, count + 1, n - count)), (count + 1) / n))


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [([60, 40], [50, 70], 0.01), ([30, 20, 10], [5, 50, 25], 0.001), ([200, 90, 9, 1], [190, 99, 0, 11], 0.05)],
)
def test_the_bound_of_two_samples_is_the_largest_over_all_sets_at_half_the_error_each(
    first: list[int], second: list[int], error: float
) -> None:
    n, m = sum(first), sum(second)
    cells = range(len(first) + 1)  # the last stands for all tokens that did not come
    a, b = [*first, 0], [*second, 0]
    largest = max(
        upper_by_hand(sum(b[i] for i in chosen), m, error / 2)
        - (1 - upper_by_hand(n - sum(a[i] for i in chosen), n, error / 2))
        for size in range(1, len(a))
        for chosen in combinations(cells, size)
    )
    found = two_sample_tv_upper(first, second, error)
    assert found.bound == pytest.approx(min(largest, 1.0))
    assert found.estimate == pytest.approx(sum(abs(x / n - y / m) for x, y in zip(first, second, strict=True)) / 2)
    assert (found.n, found.contexts, found.error) == (n + m, 1, error)


def test_one_empty_sample_bounds_nothing() -> None:
    for first, second in (([0, 0], [3, 4]), ([3, 4], [0, 0])):
        found = two_sample_tv_upper(first, second, 0.05)
        assert (found.bound, found.estimate, found.n, found.contexts) == (1.0, 0.0, 7, 1)


def test_two_samples_of_eleven_tokens_are_the_most() -> None:
    assert two_sample_tv_upper([30] * 11, [30] * 11, 0.05).bound < 1
    with pytest.raises(ValueError, match="12 cells are too many, the most are 11"):
        two_sample_tv_upper([3] * 12, [3] * 12, 0.05)


def test_up_to_twelve_cells_every_set_is_tried() -> None:
    for cells, method in ((12, "all sets"), (13, "relaxed")):
        found = tv_upper([10] * cells, np.ones(cells) / cells, 0.05)
        assert method in found.method
        assert found.contexts == 1


def relaxed_by_hand(counts: np.ndarray, p: np.ndarray, error: float) -> float:
    """Cells by rising mass per hit; the least mass that holds s hits, the last cell in part."""
    n = int(counts.sum())
    cells: list[tuple[float, float]] = sorted(
        (float(p[c, x] * counts[c].sum() / n / counts[c, x]), float(counts[c, x]))
        for c, x in np.ndindex(counts.shape)
        if counts[c, x]
    )
    best = 0.0
    for s in range(n + 1):
        mass, left = 0.0, float(s)
        for per_hit, hits in cells:
            taken = min(left, hits)
            mass, left = mass + taken * per_hit, left - taken
        best = max(best, upper_by_hand(s, n, error) - mass)
    return min(best, 1.0)


@pytest.mark.parametrize(
    ("counts", "p"),
    [
        ([[30, 1, 9], [4, 40, 0]], [[0.7, 0.1, 0.2], [0.3, 0.6, 0.1]]),
        ([[1, 1, 1], [0, 0, 0]], [[0.2, 0.2, 0.6], [0.3, 0.6, 0.1]]),
        ([[25, 25]], [[0.5, 0.5]]),
        ([[1, 0]], [[0.5, 0.5]]),
        ([[1, 0], [5, 5]], [[0.5, 0.5], [0.4, 0.6]]),
        ([[0, 12, 1, 0], [3, 0, 0, 1], [1, 1, 1, 1]], [[0.1, 0.7, 0.1, 0.1]] * 3),
    ],
)
def test_the_bound_over_contexts_is_that_of_the_cheapest_cells(counts: list[list[int]], p: list[list[float]]) -> None:
    seen, law = np.array(counts), np.array(p)
    found = mean_tv_upper(seen, law, 0.05, fixed_visits=True)
    assert found.bound == pytest.approx(relaxed_by_hand(seen, law, 0.05))
    visits = seen.sum(axis=1)
    assert found.contexts == (visits > 0).sum()
    off = sum(abs(seen[c] - visits[c] * law[c]).sum() for c in range(len(seen)))
    assert found.estimate == pytest.approx(off / visits.sum() / 2)
    if len(seen) == 2 and visits.sum() > 20:
        assert mean_tv_upper(seen, law, 0.05).bound > found.bound, "at every n at once costs width"
