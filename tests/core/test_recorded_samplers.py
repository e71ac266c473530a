"""The sampler chain against the lists of a real llama-server, recorded by tests/data/samplers/record.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.samplers.record import record

from draftproof.core import chain, mirostat
from draftproof.core.law import Law
from draftproof.core.sampling import Sampling
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel

DATA = Path(__file__).parents[1] / "data"
RECORDED = json.loads((DATA / "samplers" / "answers.json").read_text())
TOLERANCE = 5e-6
"""llama.cpp computes in float32; a cut that rounding decides would show as a difference of the size of a probability."""


def sampling_of(body: dict[str, Any]) -> Sampling:
    """A request body in the words of `Sampling`."""
    fields = dict(body)
    bias = tuple((t, -np.inf if b is False else b) for t, b in fields.pop("logit_bias", []))
    breakers = tuple(tuple("abcdefgh".index(c) for c in text) for text in fields.pop("dry_sequence_breakers", []))
    if "samplers" in fields:
        fields["samplers"] = tuple(fields["samplers"])
    return Sampling(logit_bias=bias, dry_breakers=breakers, **fields)


def listed(answer: dict[str, Any]) -> Law:
    p = np.zeros(8)
    for token, value in answer["listed"].items():
        p[int(token)] = value
    return p


def check_case(case: dict[str, Any], prompts: list[dict[str, Any]]) -> None:
    sampling = sampling_of(case["body"])
    for prompt in prompts:
        p = chain.law(np.array(prompt["logits"]), prompt["tokens"], sampling, excluding=sampling.has_xtc).dense()
        message = f"{prompt['name']}: {case['body']}"
        np.testing.assert_allclose(p, listed(case["answers"][prompt["name"]]), atol=TOLERANCE, err_msg=message)


def check_chain(run: dict[str, Any]) -> None:
    sampling, context, mu = sampling_of(run["body"]), list(run["prompt"]), None
    for token, logits in zip(run["tokens"], run["logits"], strict=True):
        p = chain.law(np.array(logits), context, sampling, mu=mu)
        np.testing.assert_allclose(p.dense(), listed(token), atol=4 * TOLERANCE, err_msg=str(context))
        if sampling.mirostat:
            mu = mirostat.next_mu(mirostat.first_mu(sampling) if mu is None else mu, p, token["id"], sampling)
        context.append(token["id"])


def check_coin(run: dict[str, Any], prompts: list[dict[str, Any]]) -> None:
    """The number of exclusions is binomial; with 200 seeds four standard deviations are passed by chance once in 16,000."""
    sampling = sampling_of(run["body"])
    logits = np.array(next(p["logits"] for p in prompts if p["tokens"] == run["prompt"]))
    plain, cut = (chain.law(logits, run["prompt"], sampling, excluding=e).dense() for e in (False, True))
    fired = 0
    for answer in run["answers"]:
        near = [np.abs(listed({"listed": answer}) - law).max() < TOLERANCE for law in (plain, cut)]
        assert sum(near) == 1
        fired += near[1]
    n, share = len(run["answers"]), sampling.xtc_probability
    assert abs(fired - n * share) < 4 * np.sqrt(n * share * (1 - share))


def check_difference(case: dict[str, Any], prompts: list[dict[str, Any]]) -> None:
    flat = next(p for p in prompts if p["name"] == "flat")
    p = chain.law(np.array(flat["logits"]), flat["tokens"], sampling_of(case["body"])).dense()
    assert np.abs(p - listed(case["answer"])).max() > 0.05
    assert set(np.flatnonzero(listed(case["answer"]))) < set(np.flatnonzero(p))


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: json.dumps(case["body"]))
def test_law_equals_the_recorded_list(case: dict[str, Any]) -> None:
    check_case(case, RECORDED["prompts"])


@pytest.mark.parametrize("run", RECORDED["chains"], ids=lambda run: json.dumps(run["body"]))
def test_law_follows_the_emitted_tokens(run: dict[str, Any]) -> None:
    check_chain(run)


@pytest.mark.parametrize("run", RECORDED["coins"], ids=lambda run: json.dumps(run["body"]))
def test_xtc_is_a_mixture_of_two_laws(run: dict[str, Any]) -> None:
    check_coin(run, RECORDED["prompts"])


@pytest.mark.parametrize("case", RECORDED["differences"], ids=lambda case: case["why"])
def test_known_differences_are_still_there(case: dict[str, Any]) -> None:
    check_difference(case, RECORDED["prompts"])


@pytest.mark.real
def test_a_running_server_lists_the_same() -> None:
    with LlamaWheel(DATA / "countable-independent" / "target.gguf", options=EXACT_NUMBERS) as server:
        live = record(server.url)
    for case in live["cases"]:
        check_case(case, live["prompts"])
    for run in live["chains"]:
        check_chain(run)
    for run in live["coins"]:
        check_coin(run, live["prompts"])
    for case in live["differences"]:
        check_difference(case, live["prompts"])
