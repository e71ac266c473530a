from __future__ import annotations

from collections.abc import Sequence

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
    coarse,
    context_learners,
    everything,
    identity,
    pooled_learners,
    ranks,
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
