"""The rules on plain arrays, and the proof of somebody else's rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from draftproof.core.errors import UsageError
from draftproof.core.law import Law, total_variation
from draftproof.verify import distance, law_of, target_law, verify

RNG = np.random.default_rng(3)
TARGET, DRAFT = RNG.dirichlet(np.ones(4), size=(2, 4))


def exact(p: Law, draft: Sequence[int], q: Law, coin: Any) -> list[int]:
    """Rejection sampling, written once more."""
    out: list[int] = []
    for i, token in enumerate(draft):
        if not coin.flip(p[i, token] / q[i, token]):
            return [*out, coin.pick(np.maximum(p[i] - q[i], 0))]
        out.append(token)
    return [*out, coin.pick(p[len(draft)])]


def no_residual(p: Law, draft: Sequence[int], q: Law, coin: Any) -> list[int]:
    out: list[int] = []
    for i, token in enumerate(draft):
        if not coin.flip(p[i, token] / q[i, token]):
            return [*out, coin.pick(p[i])]
        out.append(token)
    return [*out, coin.pick(p[len(draft)])]


def test_an_exact_rule_has_the_law_of_the_target() -> None:
    for k in (1, 2, 3):
        assert distance(exact, TARGET, DRAFT, k=k, m=3) < 1e-12


def test_a_rule_without_a_residual_is_off_by_what_can_be_computed() -> None:
    """P(y) = min(p, q)(y) + (1 - sum min(p, q)) p(y)."""
    p, q = TARGET[0], DRAFT[0]
    common = np.minimum(p, q)
    computed = common + (1 - common.sum()) * p
    assert law_of(no_residual, TARGET, DRAFT, k=1, m=1) == pytest.approx(computed)
    assert distance(no_residual, TARGET, DRAFT) > 0.01


def test_the_law_of_the_target_is_a_product_along_the_chain() -> None:
    law = target_law(TARGET, m=3, start=1)
    assert law[2, 0, 3] == pytest.approx(TARGET[1, 2] * TARGET[2, 0] * TARGET[0, 3])
    assert law.sum() == pytest.approx(1)


@pytest.mark.parametrize("with_q", [True, False])
def test_verified_tokens_follow_the_target(with_q: bool) -> None:
    """4,000 seeds: total variation of the first token's frequencies below 0.05; by chance above that less than 1 in 1e5."""
    p, q = TARGET[:2], DRAFT[:1]
    draws = np.random.default_rng(4).choice(4, p=q[0] if with_q else None, size=4000)
    seen = Counter(verify(p, [int(x)], q if with_q else None, seed=s).tokens[0] for s, x in enumerate(draws))
    assert total_variation(np.array([seen[t] / 4000 for t in range(4)]), p[0]) < 0.05


def test_what_was_accepted_is_told() -> None:
    sure = np.eye(4)
    assert verify(sure[[1, 2]], [1], sure[[1]]) == ((1, 2), 1)
    assert verify(sure[[1, 2]], [3], sure[[3]]) == ((1,), 0)
    assert verify(sure[[1]], []) == ((1,), 0)
    assert verify(sure[[1, 2]], [1], rule="greedy") == ((1, 2), 1)


def test_the_same_seed_gives_the_same_tokens() -> None:
    assert len({verify(TARGET[:3], [0, 1], DRAFT[:2], seed=5) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ("p", "draft", "q", "told"),
    [
        (TARGET[:1], [0], DRAFT[:1], "2 are needed"),
        (TARGET[:2], [0], DRAFT[:2], "1 are needed"),
        (TARGET[:2] * 2, [0], DRAFT[:1], "no law"),
        (TARGET[:2], [0], np.array([[0.5, 0.5]]), "over 2"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(p: Law, draft: list[int], q: Law, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        verify(p, draft, q)


def test_an_unknown_rule_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        verify(TARGET[:1], [], rule="typical")
    assert "rejection" in caught.value.remedy


def test_a_step_must_emit() -> None:
    with pytest.raises(ValueError, match="emits 1 to 3"):
        law_of(lambda *_: [], TARGET, DRAFT)


def test_tables_must_be_square() -> None:
    with pytest.raises(ValueError, match=r"rows|square"):
        law_of(exact, TARGET[:2], DRAFT[:2])
