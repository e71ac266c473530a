from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftproof.core.coin import SAMPLE, Coin, RngCoin, enumerate_branches
from draftproof.core.errors import InstrumentError
from draftproof.core.mt19937 import draws


class FixedCoin(RngCoin):
    """Its uniform numbers are given."""

    value = 0.0

    def uniform(self) -> float:
        return self.value


def test_a_stream_asked_for_again_repeats_itself() -> None:
    coin = RngCoin(7)
    assert [coin.at("accept", 3).uniform() for _ in range(3)] == [coin.at("accept", 3).uniform()] * 3


def test_streams_differ_by_seed_purpose_and_place() -> None:
    words = {
        RngCoin(seed).at(purpose, *place).uniform()
        for seed in (0, 1, -1, 2**63)
        for purpose in ("accept", "residual", "draft", "xtc")
        for place in ((0,), (1,), (0, 1), (1, 0), (-1,))
    }
    assert len(words) == 80


def test_draws_are_the_same_everywhere() -> None:
    """The value is part of the interface: saved seeds must keep their meaning."""
    assert RngCoin(42).at("accept", 5).uniform() == 0.7243558570699937
    assert RngCoin(42).at(SAMPLE, 5).uniform() == draws(42, 6)[5]


def test_what_the_target_samples_is_drawn_by_llama_servers_number_for_that_token_of_the_answer() -> None:
    """The first number of std::mt19937(5489) is 3499211612 by the standard's reference, its second 581869302."""
    coin = RngCoin(5489, first=7)
    assert coin.at(SAMPLE, 7).uniform() == (3499211612 + 581869302 * 2.0**32) / 2.0**64
    later = [coin.at(SAMPLE, 7 + i).uniform() for i in (100, 3, 3, 0)]
    assert later == [draws(5489, 101)[i] for i in (100, 3, 3, 0)]
    assert RngCoin(5489 + 2**32).at(SAMPLE, 0).uniform() == coin.at(SAMPLE, 7).uniform()
    assert RngCoin(-1).at(SAMPLE, 0).uniform() == draws(2**32 - 1, 1)[0]


def test_no_token_before_the_answer_is_drawn() -> None:
    coin = RngCoin(1, first=7)
    coin.at(SAMPLE, 9)
    with pytest.raises(IndexError, match="-1"):
        coin.at(SAMPLE, 6)


@pytest.mark.parametrize("streams", [(("accept", 9), ("residual", 9)), ((SAMPLE, 0), (SAMPLE, 1))])
def test_consecutive_seeds_are_independent(streams: tuple[tuple[str, int], ...]) -> None:
    """Seeds chosen for one draw must not choose another: a correlation of 5/sqrt(n) comes by chance once in 1.7 million."""
    u = np.array([[RngCoin(s).at(*stream).uniform() for stream in streams] for s in range(20_000)])
    assert abs(u.mean() - 0.5) < 5 * np.sqrt(1 / 12 / u.size)
    assert abs(np.corrcoef(u.T)[0, 1]) < 5 / np.sqrt(len(u))
    assert abs(np.corrcoef(u[:-1, 0], u[1:, 0])[0, 1]) < 5 / np.sqrt(len(u))


def test_nothing_of_probability_zero_happens_at_u_zero() -> None:
    coin = FixedCoin(0)
    assert not coin.flip(0.0)
    assert not coin.flip(0.0, 0.3)
    assert coin.pick(np.array([0.0, 0.0, 0.2, 0.8])) == 2


def test_nothing_of_probability_zero_happens_at_the_largest_u() -> None:
    coin = FixedCoin(0)
    coin.value = 1 - 2.0**-53
    assert coin.flip(1.0)
    assert coin.flip(0.4, 0.4)
    assert coin.pick(np.array([0.1] * 10 + [0.0])) == 9
    assert coin.pick(np.array([5e-324, 0.0])) == 0


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([8192, 8193, 9000, 20_480]),
    share=st.sampled_from([1.0, 0.001]),
)
def test_long_arrays_are_picked_from_like_short_ones(seed: int, size: int, share: float) -> None:
    """The place where the running sum passes u: found in blocks, to rounding, and never where the weight is 0."""
    rng = np.random.default_rng(seed)
    weights = rng.random(size) * (rng.random(size) < share)
    weights[rng.integers(size)] = 0.5
    coin = FixedCoin(0)
    for u in (0.0, float(rng.random()), 1 - 2.0**-53):
        coin.value = u
        place = coin.pick(weights)
        sums = np.cumsum(weights)
        assert weights[place] > 0
        assert sums[place] - weights[place] - 1e-9 <= u * sums[-1] <= sums[place] + 1e-9


def test_weights_of_zero_are_an_error() -> None:
    with pytest.raises(ValueError, match="every weight is 0"):
        RngCoin(1).pick(np.zeros(3))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any), st.integers(0, 4), st.integers(1, 4))
def test_enumeration_visits_every_possible_branch_once(weights: list[int], chance: int, out_of: int) -> None:
    def run(coin: Coin) -> tuple[int, bool, int]:
        first = coin.at("a", 0).pick(np.array(weights, dtype=float))
        second = coin.at("b", 0).flip(chance, out_of)
        return first, second, coin.pick(np.array([1.0, 3.0])) if second else -1

    law = dict.fromkeys((r for r, _ in enumerate_branches(run)), 0.0)
    seen = 0
    for result, probability in enumerate_branches(run):
        law[result] += probability
        seen += 1
    assert seen == len(law)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    heads = min(1.0, chance / out_of)
    for (first, second, third), probability in law.items():
        expected = weights[first] / sum(weights) * ((heads * (0.75 if third else 0.25)) if second else 1 - heads)
        assert probability == pytest.approx(expected, abs=1e-15)


def test_enumeration_refuses_one_stream_for_two_decisions() -> None:
    def run(coin: Coin) -> bool:
        return coin.at("accept", 3).flip(0.5) and coin.at("accept", 3).flip(0.5)

    with pytest.raises(InstrumentError, match="accept"):
        list(enumerate_branches(run))


def test_sampling_follows_the_weights() -> None:
    """Pearson's chi-square with 3 degrees of freedom; 30 is passed by chance once in 700,000 (seeds 0..9999)."""
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    counts = np.bincount([RngCoin(s).pick(weights) for s in range(10_000)], minlength=4)
    expected = 10_000 * weights / 10
    assert ((counts - expected) ** 2 / expected).sum() < 30
