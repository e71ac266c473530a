from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftproof.core.coin import Coin, RngCoin, enumerate_branches
from draftproof.core.law import Law, TokenLaw
from draftproof.engine.verify import RULES, match, rejection, rule
from draftproof.engine.verify.rule import Decision


class AtZero(RngCoin):
    """Every uniform number is 0."""

    def uniform(self) -> float:
        return 0.0


laws = st.lists(st.integers(0, 6), min_size=4, max_size=4).filter(any).map(lambda w: np.array(w) / sum(w))


def sparse(p: Law) -> TokenLaw:
    ids = np.flatnonzero(p)
    return TokenLaw(ids, p[ids], len(p))


def emitted_law(p: TokenLaw, q: TokenLaw, decide: object = rejection.decide) -> Law:
    """Law of the emitted token when the draft is drawn from q, by enumeration."""
    assert callable(decide)

    def one(coin: Coin) -> Decision:
        x = int(q.ids[coin.at("draft", 0, 0).pick(q.p)])
        decision = decide(p, x, q, coin, 7)
        assert isinstance(decision, Decision)
        return decision

    out = np.zeros(p.vocab)
    for decision, probability in enumerate_branches(one):
        out[decision.token] += probability
    return out


@given(p=laws, q=laws, p_sparse=st.booleans(), q_sparse=st.booleans())
def test_rejection_emits_p_whatever_q_is_and_however_laws_are_stored(
    p: Law, q: Law, p_sparse: bool, q_sparse: bool
) -> None:
    stored_p = sparse(p) if p_sparse else TokenLaw.of(p)
    stored_q = sparse(q) if q_sparse else TokenLaw.of(q)
    np.testing.assert_allclose(emitted_law(stored_p, stored_q), p, atol=1e-12)
    np.testing.assert_allclose(emitted_law(stored_p, stored_q, match.decide), p, atol=1e-12)


@given(p=laws, q=laws)
def test_acceptance_is_one_minus_total_variation(p: Law, q: Law) -> None:
    accepted = 0.0
    law = sparse(q)

    def one(coin: Coin) -> bool:
        x = int(law.ids[coin.at("draft").pick(law.p)])
        return rejection.accept(sparse(p), x, law, coin, 0)

    accepted = sum(probability for yes, probability in enumerate_branches(one) if yes)
    assert accepted == pytest.approx(np.minimum(p, q).sum(), abs=1e-12)


@given(p=laws, x=st.integers(0, 3))
def test_a_draft_that_was_not_drawn_is_one_hot(p: Law, x: int) -> None:
    """Accepted with probability p(x); the residual is p without x."""
    out = np.zeros(4)
    for decision, probability in enumerate_branches(lambda coin: rejection.decide(TokenLaw.of(p), x, None, coin, 0)):
        assert decision.accepted == (decision.token == x)
        out[decision.token] += probability
    np.testing.assert_allclose(out, p, atol=1e-12)


def test_u_zero_accepts_no_token_of_probability_zero() -> None:
    """The trap of `p / q >= u`."""
    p, q = TokenLaw.of(np.array([0.0, 1.0])), TokenLaw.of(np.array([0.5, 0.5]))
    assert rejection.decide(p, 0, q, AtZero(1), 0) == Decision(1, accepted=False)
    assert rejection.decide(p, 0, None, AtZero(1), 0) == Decision(1, accepted=False)


def test_a_residual_without_mass_falls_back_to_p() -> None:
    """p = q up to rounding: a rejection cannot happen, but if it does the token comes from p, not from NaN or index 0."""
    p = TokenLaw.of(np.array([0.0, 0.25, 0.75]))
    coins = [RngCoin(seed) for seed in range(200)]
    tokens = [rejection.recover(p, 1, p, coin, 0) for coin in coins]
    assert set(tokens) == {1, 2}
    assert {rejection.recover(TokenLaw.one_hot(2, 3), 2, None, coin, 0) for coin in coins} == {2}


def test_laws_are_paired_by_id_and_a_missing_token_has_probability_zero() -> None:
    p = TokenLaw(np.array([2, 5]), np.array([0.5, 0.5]), 8)
    q = TokenLaw(np.array([5, 7]), np.array([0.9, 0.1]), 8)
    np.testing.assert_allclose(emitted_law(p, q), p.dense(), atol=1e-15)
    assert {rejection.recover(p, 7, q, RngCoin(s), 0) for s in range(50)} == {2}


def test_acceptance_and_residual_use_words_of_their_own() -> None:
    """Over 4000 seeds the rejected ones must draw from the residual evenly; 5 standard deviations, once in 1.7 million."""
    p, q = TokenLaw.of(np.array([0.4, 0.4, 0.2])), TokenLaw.of(np.array([0.0, 0.0, 1.0]))
    decisions = [rejection.decide(p, 2, q, RngCoin(seed), 3) for seed in range(4000)]
    rejected = [d.token for d in decisions if not d.accepted]
    assert abs(len(rejected) - 3200) < 5 * np.sqrt(4000 * 0.16)
    assert abs(rejected.count(0) - len(rejected) / 2) < 5 * np.sqrt(len(rejected) / 4)


def test_every_rule_is_found_by_its_name() -> None:
    assert [rule(r.name) for r in RULES] == list(RULES)
    with pytest.raises(Exception, match="typical"):
        rule("typical")
