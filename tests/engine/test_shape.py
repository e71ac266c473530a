from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.models import model_drafter, noisy, random_table

from draftproof.core.coin import Coin, RngCoin, enumerate_branches
from draftproof.core.distribution import Law, shape
from draftproof.core.law import Ids
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.engine.backends.table import TableBackend
from draftproof.engine.generate import Job, generate
from draftproof.engine.shape import Shaper
from draftproof.engine.verify import match, rejection
from draftproof.engine.verify.rule import Rule

ROW = np.log([0.4, 0.3, 0.2, 0.1])


class Only:
    """Allows some tokens, always."""

    def __init__(self, *tokens: int) -> None:
        self.tokens = tokens

    def allowed(self, ids: Ids) -> NDArray[np.bool_]:
        return np.isin(ids, self.tokens)

    def advance(self, token: int) -> None:
        assert token in self.tokens


def law(sampling: Sampling, *allowed: int) -> Law:
    """The law of the next token with a constraint, all coins of the samplers included."""
    out = np.zeros(4)
    for p, probability in enumerate_branches(lambda coin: Shaper(sampling, coin, [0], Only(*allowed)).law(ROW)):
        out += probability * p.dense()
    return out


def test_a_constraint_leaves_the_allowed_tokens_in_their_proportions() -> None:
    assert law(NEUTRAL, 1, 3) == pytest.approx([0, 0.75, 0, 0.25], abs=1e-12)
    assert law(NEUTRAL, 0, 1, 2, 3) == pytest.approx([0.4, 0.3, 0.2, 0.1], abs=1e-12)


def test_a_constraint_and_a_truncation_are_llama_cpps_mixture() -> None:
    """top-k 2 keeps tokens 0 and 1. Token 0 is refused 4 times in 7, and then the two best of the allowed ones are drawn."""
    expected = np.array([0, 3 / 7, 0, 0]) + 4 / 7 * np.array([0, 0.3, 0.2, 0]) / 0.5
    assert law(Sampling(top_k=2), 1, 2, 3) == pytest.approx(expected, abs=1e-12)


def test_a_second_attempt_has_a_coin_of_its_own() -> None:
    sampling = Sampling(xtc_probability=0.5, xtc_threshold=0.25)
    cut = np.array([0, 0.3, 0.2, 0.1]) / 0.6
    again = 0.5 * np.array([0, 0.6, 0.4, 0]) + 0.5 * np.array([0, 0, 1, 0])
    plain = np.exp(ROW)
    expected = sum(0.5 * (np.where(np.isin(range(4), (1, 2)), p, 0) + p[[0, 3]].sum() * again) for p in (plain, cut))
    assert law(sampling, 1, 2) == pytest.approx(expected, abs=1e-12)


def test_nothing_allowed_is_an_error() -> None:
    with pytest.raises(ValueError, match="no token is left"):
        Shaper(NEUTRAL, RngCoin(1), [0], Only()).law(ROW)


@pytest.mark.parametrize("rule", [rejection.RULE, match.RULE])
def test_speculation_under_a_constraint_is_exact(rule: Rule) -> None:
    """Every branch of whole answers of three tokens, against the law of a run without drafts."""
    target = random_table(3, vocab=4, order=1)
    draft = noisy(target, 4)
    sampling = Sampling(top_k=3)

    class NoRepeat:
        def __init__(self) -> None:
            self.last = 0

        def allowed(self, ids: Ids) -> NDArray[np.bool_]:
            fits: NDArray[np.bool_] = ids != self.last
            return fits

        def advance(self, token: int) -> None:
            self.last = token

    def joint(k: int) -> Law:
        def one(coin: Coin) -> tuple[int, ...]:
            job = Job((0,), 3, sampling)
            drafter = model_drafter(draft, k, sampling) if k else None
            return tuple(
                e.token for e in generate(target, job, drafter=drafter, rule=rule, coin=coin, constraint=NoRepeat())
            )

        out = np.zeros((4, 4, 4))
        for tokens, probability in enumerate_branches(one):
            out[tokens] += probability
        return out

    np.testing.assert_allclose(joint(2), joint(0), atol=1e-12)


def test_xtc_falls_alike_at_the_same_position_and_seed() -> None:
    sampling = Sampling(xtc_probability=0.5, xtc_threshold=0.2)
    laws = [Shaper(sampling, RngCoin(seed), [0] * n).law(ROW).dense() for seed in range(40) for n in (1, 1, 2)]
    assert all((a == b).all() for a, b in zip(laws[::3], laws[1::3], strict=True))
    assert any((a != b).any() for a, b in zip(laws[::3], laws[2::3], strict=True))
    mean = np.mean([Shaper(sampling, RngCoin(s), [0]).law(ROW).dense() for s in range(2000)], axis=0)
    np.testing.assert_allclose(mean, shape(ROW, [0], sampling), atol=0.03)


def test_the_law_is_that_of_a_table() -> None:
    target = TableBackend(ROW)
    assert Shaper(NEUTRAL, RngCoin(1), [0]).law(target.row([0])).dense() == pytest.approx(np.exp(ROW), abs=1e-7)
