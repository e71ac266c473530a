from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import pytest
from scipy.stats import dirichlet_multinomial, multinomial

from draftproof.core.distribution import Law
from draftproof.stats.learners import (
    KAPPAS,
    MAX_CELLS,
    Context,
    Ints,
    Learner,
    Rows,
    certainty_ahead,
    coarse,
    context_learners,
    draft_rank,
    draft_ratio,
    everything,
    identity,
    last,
    pooled_learners,
    rank_pair,
    ranks,
    residual_rank,
    surprise,
    target_rank,
    whole,
)


def rows_of(
    p: Law, x: Ints, q: Law | None = None, contexts: Sequence[Context] | None = None, streams: Ints | None = None
) -> Rows:
    n = len(x)
    return Rows(
        p,
        x,
        q,
        None,
        [()] * n if contexts is None else contexts,
        np.zeros(n, dtype=np.int64) if streams is None else streams,
    )


def random_rows(n: int, vocabulary: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(vocabulary), size=(2, n))
    x = np.array([rng.choice(vocabulary, p=law) for law in p])
    contexts = [tuple(rng.integers(0, 2, size=rng.integers(1, 5)).tolist()) for _ in range(n)]
    return rows_of(p, x, q, contexts, rng.integers(0, 3, size=n))


def test_one_law_and_one_group_is_the_dirichlet_mixture() -> None:
    p = np.array([0.5, 0.3, 0.2])
    x = np.random.default_rng(1).choice(3, size=60, p=[0.2, 0.3, 0.5])
    learner = Learner("token", identity, everything, 3)
    wealth = learner.log_factors(rows_of(np.tile(p, (60, 1)), x), 0.0).sum(axis=0)
    counts = np.bincount(x, minlength=3)
    theirs = [
        dirichlet_multinomial(kappa * p, [60]).logpmf(counts).item() - multinomial.logpmf(counts, 60, p)
        for kappa in KAPPAS
    ]
    np.testing.assert_allclose(wealth, theirs)


@pytest.mark.parametrize("vocabulary", [5, 100])
def test_rows_together_are_rows_one_after_the_other(vocabulary: int) -> None:
    rows = random_rows(60, vocabulary, 2)
    pairs = [pooled_learners(vocabulary, True) + context_learners(vocabulary) for _ in range(2)]
    for together, single in zip(*pairs, strict=True):
        at_once = together.log_factors(rows, 0.1)
        for i in range(60):
            one = rows_of(
                rows.p[i : i + 1],
                rows.x[i : i + 1],
                None if rows.q is None else rows.q[i : i + 1],
                rows.contexts[i : i + 1],
                rows.streams[i : i + 1],
            )
            np.testing.assert_allclose(single.log_factors(one, 0.1)[0], at_once[i], atol=1e-9)


def test_groups_and_streams_learn_alone() -> None:
    p = np.tile([0.5, 0.5], (40, 1))
    x = np.zeros(40, dtype=np.int64)
    learner = Learner("token", identity, whole, 2)
    contexts: list[Context] = [(i % 2,) for i in range(40)]
    streams = np.repeat([0, 1], 20)
    factors = learner.log_factors(rows_of(p, x, None, contexts, streams), 0.0)[:, 0].reshape(2, 10, 2)
    for stream in range(2):
        for group in range(2):
            np.testing.assert_allclose(factors[stream, :, group], factors[0, :, 0])
    assert factors[0, 0, 0] == 0
    assert (np.diff(factors[0, :, 0]) > 0).all()


@pytest.mark.parametrize("vocabulary", [2, 8, 64, 65, 50_000])
def test_cells_stay_few(vocabulary: int) -> None:
    law = np.random.default_rng(3).dirichlet(np.ones(vocabulary), size=2)
    rows = rows_of(law, np.zeros(2, dtype=np.int64), law[::-1], [(1, 2), (3,)])
    for learner in [*pooled_learners(vocabulary, True), *context_learners(vocabulary)]:
        cells = learner.cells(rows)
        assert cells.shape == law.shape
        assert 0 <= cells.min() <= cells.max() < learner.cell_count <= MAX_CELLS, learner.name
        assert len(learner.groups(rows)) == 2


def test_ranks_break_ties_by_the_lower_id() -> None:
    assert ranks(np.array([[0.25, 0.4, 0.25, 0.1]])).tolist() == [[1, 0, 2, 3]]
    assert coarse(np.array([0, 15, 16, 31, 32, 63, 64])).tolist() == [0, 15, 16, 16, 17, 17, 18]


def test_without_a_draft_no_learner_looks_at_it() -> None:
    rows = random_rows(20, 6, 4)
    blind = Rows(rows.p, rows.x, None, None, rows.contexts, rows.streams)
    for learner in pooled_learners(6, False):
        assert np.isfinite(learner.log_factors(blind, 0.0)).all()


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_every_bet_is_a_law_and_pays_for_noise(noise: float) -> None:
    """The factors of all tokens that could come are b/p of one law b, each divided by 1 + noise sqrt(chi2(b, p))."""
    before, row = random_rows(40, 6, 7), random_rows(1, 6, 8)
    for learner in [*pooled_learners(6, True), *context_learners(6)]:
        learner.log_factors(before, 0.0)

        def factors(noise: float, learner: Learner = learner) -> Law:
            rows = [Rows(row.p, np.array([x]), row.q, None, row.contexts, row.streams) for x in range(6)]
            return np.exp([deepcopy(learner).log_factors(r, noise)[0] for r in rows])

        fair = factors(0.0)
        np.testing.assert_allclose(row.p[0] @ fair, 1.0, err_msg=learner.name)
        chi2 = row.p[0] @ fair**2 - 1
        np.testing.assert_allclose(factors(noise), fair / (1 + noise * np.sqrt(np.maximum(chi2, 0))), atol=1e-9)


def test_a_group_remembers_what_came_in_calls_before() -> None:
    """Two calls of two rows each in two groups, then one more: as all five at once."""
    p = np.tile([0.5, 0.3, 0.2], (5, 1))
    x, contexts = np.array([0, 2, 0, 1, 0]), [(0,), (1,), (0,), (1,), (0,)]
    at_once = Learner("token", identity, whole, 3).log_factors(rows_of(p, x, None, contexts), 0.0)
    split = Learner("token", identity, whole, 3)
    parts = [split.log_factors(rows_of(p[a:b], x[a:b], None, contexts[a:b]), 0.0) for a, b in ((0, 2), (2, 4), (4, 5))]
    np.testing.assert_allclose(np.concatenate(parts), at_once)


def test_cells_are_what_their_names_say() -> None:
    p, q = np.array([[0.5, 0.3, 0.15, 0.05]]), np.array([[0.1, 0.3, 0.2, 0.4]])
    rows = Rows(p, np.array([0]), q, np.array([[0.95, 0.0, 0.1, 1.0]]), [()], np.array([0]))
    assert target_rank(rows).tolist() == [[0, 1, 2, 3]]
    assert draft_rank(rows).tolist() == [[3, 1, 2, 0]]
    assert draft_rank(Rows(p, rows.x, None, None, [()], rows.streams)).tolist() == [[0, 1, 2, 3]]
    assert rank_pair(rows).tolist() == [[3, 8 + 1, 16 + 2, 24]]
    assert residual_rank(rows).tolist() == [[0, 1, 2, 3]]
    assert certainty_ahead(rows).tolist() == [[9, 0, 1, 9]]
    assert certainty_ahead(Rows(p, rows.x, q, None, [()], rows.streams)).tolist() == [[0, 0, 0, 0]]
    log_ratio = np.log(q / p)[0]
    edges = [-2, -1, -0.5, -0.2, 0, 0.2, 0.5, 1, 2]
    assert draft_ratio(rows).tolist() == [[sum(r > e for e in edges) for r in log_ratio]]
    assert surprise(rows).tolist() == [[3, 4, 5, 6]], (
        "-log p is .69, 1.20, 1.90 and 3.00, the edges are .5, 1, 1.5, 2, 3"
    )


def test_a_group_is_as_many_of_the_last_tokens_as_it_says() -> None:
    rows = rows_of(np.ones((2, 1)), np.zeros(2, dtype=np.int64), None, [(1, 2, 3, 4), (5,)])
    assert [last(n)(rows) for n in (1, 2, 3)] == [[(4,), (5,)], [(3, 4), (5,)], [(2, 3, 4), (5,)]]
    depths = {learner.name: learner.groups(rows)[0] for learner in context_learners(4)}
    assert list(depths.values())[1:] == [(4,), (3, 4), (2, 3, 4), (1, 2, 3, 4)]


def test_a_vocabulary_of_64_is_still_told_token_by_token() -> None:
    law = np.random.default_rng(3).dirichlet(np.ones(64), size=1)
    assert identity(rows_of(law, np.zeros(1, dtype=np.int64))).tolist() == [list(range(64))]
    assert coarse(np.array([2**60])).tolist() == [60 - 4 + 16 if 60 - 4 + 16 < 64 else 63]
