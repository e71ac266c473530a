"""The token that a setting must give, against the sampler chain itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from draftproof.checks.sampling.settings import BY_NAME, SETTINGS, Kind, Setting, banning, shortfalls
from draftproof.core.distribution import log_softmax, shape
from draftproof.core.sampling import Sampling

VOCABULARY = 12
CONTEXT = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 1, 4, 1)


def logits(seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(scale=2.0, size=VOCABULARY)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
@pytest.mark.parametrize("seed", range(20))
def test_the_choice_is_the_only_token_that_the_chain_leaves(setting: Setting, seed: int) -> None:
    sampling = banning(1) if setting.kind is Kind.BAN else setting.sampling
    law = shape(logits(seed), CONTEXT, sampling)
    short = shortfalls(logits(seed), CONTEXT, sampling)
    assert np.flatnonzero(law > 1e-9).tolist() == [int(np.argmin(short))]
    assert short.min() == 0


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.kind is not Kind.BAN], ids=lambda s: s.name)
def test_log_probabilities_do_for_every_setting_but_a_repeat_penalty(setting: Setting) -> None:
    shifted = shortfalls(logits(1) - 7.0, CONTEXT, setting.sampling)
    same = np.allclose(shifted, shortfalls(logits(1), CONTEXT, setting.sampling))
    assert same is (setting.name != "repeat_penalty")


def test_a_near_tie_of_a_penalty_is_as_near_as_its_penalised_logits() -> None:
    x = np.full(VOCABULARY, -9.0)
    x[[7, 5]] = 1.0, 1.0 + 2.0 + 0.01  # 5 stands in the window once or more, 7 does not
    sampling = replace(BY_NAME["presence_penalty"].sampling, repeat_last_n=64)
    short = shortfalls(x, CONTEXT, sampling)
    assert int(np.argmin(short)) == 5
    assert short[7] == pytest.approx(0.01)


def test_xtc_near_its_threshold_is_a_near_tie() -> None:
    law = np.array([0.5, 0.301, 0.0999, 0.0991])  # the threshold is .1: the third is just below it
    short = shortfalls(np.log(law / law.sum()), (), BY_NAME["xtc_probability"].sampling)
    assert int(np.argmin(short)) == 1
    assert 0 < short[2] < 0.01 < short[0]


def test_xtc_moves_a_token_past_each_of_those_that_stand_below_it() -> None:
    """All four are above the threshold of .1, so that the last one is left; another must lose every rival below it."""
    law = np.array([0.4, 0.3, 0.18, 0.12])
    short = shortfalls(np.log(law), (), BY_NAME["xtc_probability"].sampling)
    np.testing.assert_allclose(short[1:], [np.log(0.3 / 0.18), np.log(0.12 / 0.1), 0.0], atol=1e-9)


@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_a_truncation_leaves_the_likeliest_at_any_temperature(temperature: float) -> None:
    short = shortfalls(logits(2), CONTEXT, Sampling(temperature=temperature, top_k=1))
    logprobs = log_softmax(logits(2))
    np.testing.assert_allclose(short, logprobs.max() - logprobs)
