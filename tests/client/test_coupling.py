from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.recorded import recorded

from draftproof.client.coupling import predict, predict_for, predict_sorted
from draftproof.client.dialects.llama_server import DIALECT
from draftproof.core.ask import Completion
from draftproof.core.mt19937 import draws, draws_of
from draftproof.core.sampling import NEUTRAL, Sampling


def completion(mode: str) -> Completion:
    ask, answer = recorded(f"{mode}/completion_t1_stream0_post0")
    return DIALECT.parse(ask, answer)[0]


def recorded_laws() -> np.ndarray:
    """float64[12, 8]: the law after top-k 3 at every position of the recorded plain answer."""
    laws = np.zeros((12, 8))
    for law, token in zip(laws, completion("plain").tokens, strict=True):
        for alternative in token.alternatives or ():
            assert alternative.id is not None
            assert alternative.logprob is not None
            law[alternative.id] = np.exp(alternative.logprob)
    return laws


def test_the_draws_of_std_mt19937_with_its_default_seed() -> None:
    # The standard fixes the 10,000th word of mt19937(5489) at 4123659995; the first two are 3499211612 and 581869302.
    assert draws(5489, 1)[0] == (3499211612 + 581869302 * 2**32) / 2**64
    assert draws(5489, 5000)[-1] == pytest.approx(4123659995 * 2**32 / 2**64, abs=2.0**-32)


def test_many_seeds_at_once_are_the_same_draws() -> None:
    seeds = range(2**32 - 5, 2**32)
    rows = draws_of(seeds, 7)
    assert rows.shape == (5, 7)
    for row, seed in zip(rows, seeds, strict=True):
        assert np.array_equal(row, draws(seed, 7))


def test_draws_lie_in_the_half_open_unit_interval_and_look_uniform() -> None:
    u = draws_of(range(2000), 3).ravel()
    assert u.min() >= 0
    assert u.max() < 1
    # Six standard deviations of the mean of 6000 uniforms: false alarm 2e-9, and the seeds are fixed.
    assert abs(u.mean() - 0.5) < 6 * np.sqrt(1 / 12 / u.size)


def test_every_token_of_a_recorded_answer_is_the_one_that_its_seed_selects() -> None:
    plain = completion("plain")
    predicted = predict_sorted(recorded_laws(), draws(plain.ask.seed or 0, 12))
    assert predicted.tokens.tolist() == [t.id for t in plain.tokens]


def test_speculation_by_exact_match_gives_the_tokens_of_the_seed_too() -> None:
    assert completion("draft-simple").text == completion("plain").text


@pytest.mark.parametrize("mode", ["draft-simple-prob", "synth-len-2.5"])
def test_other_verification_leaves_the_draws_after_the_first_token(mode: str) -> None:
    texts = completion(mode).text, completion("plain").text
    assert texts[0][0] == texts[1][0]
    assert texts[0] != texts[1]


def test_the_first_token_whose_cumulative_probability_exceeds_the_draw_is_taken() -> None:
    law = np.array([0.25, 0.25, 0.0, 0.5])
    found = predict(law, np.array([0.0, 0.2499, 0.25, 0.4, 0.5, 0.9999]))
    assert found.tokens.tolist() == [0, 0, 1, 1, 3, 3]
    assert found.edges == pytest.approx([0.25, 0.0001, 0.0, 0.1, 0.0, 0.4999])


def test_after_top_k_candidates_stand_by_falling_probability() -> None:
    law = np.array([0.1, 0.6, 0.3])
    assert predict_sorted(law, np.array([0.0, 0.59, 0.61, 0.95])).tokens.tolist() == [1, 1, 2, 0]
    assert predict_for(Sampling(top_k=2), law, 0.05).tokens == 1
    assert predict_for(NEUTRAL, law, 0.05).tokens == 0


def test_equally_likely_tokens_keep_the_order_of_their_ids() -> None:
    assert predict_sorted(np.array([0.25, 0.25, 0.5]), np.array([0.6, 0.8])).tokens.tolist() == [0, 1]


def test_laws_need_not_be_normalised_and_may_be_one_per_draw() -> None:
    laws = np.array([[1.0, 3.0], [3.0, 1.0]])
    assert predict(laws, np.array([0.5, 0.5])).tokens.tolist() == [1, 0]


def test_a_law_of_one_token_is_always_decided() -> None:
    found = predict(np.array([1.0]), 0.3)
    assert (int(found.tokens), float(found.edges)) == (0, 1.0)


@pytest.mark.parametrize("law", [[], [0.0, 0.0], [float("nan"), 1.0]])
def test_a_law_without_a_token_is_refused(law: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        predict(np.array(law), 0.5)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda p: sum(p) > 1e-3),
    st.floats(0, 1, exclude_max=True),
)
def test_an_impossible_token_is_never_predicted(law: list[float], u: float) -> None:
    for found in (predict(np.array(law), u), predict_sorted(np.array(law), u)):
        assert law[int(found.tokens)] > 0
        assert found.edges >= 0
