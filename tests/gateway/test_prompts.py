"""Answers scored by one request for the logprobs of a prompt: our own server, and vLLM and SGLang by their bodies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from tests.gateway.test_gateway import ROUTES, entries, events
from tests.gateway.upstreams import FakeServer

from draftproof.auditing import AuditConfig, audit
from draftproof.core.verdict import Verdict
from draftproof.gateway.run import Background
from draftproof.liars import placeholders, prompts
from draftproof.liars.hosting import hosted
from draftproof.liars.liar import Liar
from draftproof.liars.numbers import Moment, Tell

PLACEHOLDER = next(liar for liar in placeholders.FAMILY if liar.name == "placeholder")
LAW = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}
ECHO = "one request for the logprobs of the prompt and the answer (echo)"


def lying(name: str) -> Liar:
    """Placeholders in answers, and wrong logprobs of prompts."""
    other = next(liar for liar in prompts.FAMILY if liar.name == name)
    assert PLACEHOLDER.numbers is not None
    if other.numbers is None:
        return replace(PLACEHOLDER, retell=other.retell)

    def numbers(moment: Moment, answered: Tell = PLACEHOLDER.numbers, asked: Tell = other.numbers) -> Any:
        return answered(moment) if moment.answered else asked(moment)

    return replace(PLACEHOLDER, numbers=numbers)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with hosted(PLACEHOLDER) as url:
        yield url


@pytest.fixture(scope="module")
def gateway(server: str) -> Iterator[str]:
    with Background([server]) as made:
        yield made.url


def alone(url: str, context: list[int], token: int) -> dict[str, Any]:
    """The entry of a token, asked for by itself."""
    body = {**LAW, "prompt": context, "n_predict": 1, "n_probs": 3, "logit_bias": [[token, 1000.0]]}
    (entry,) = httpx2.post(url + "/completion", json=body).json()["completion_probabilities"]
    assert isinstance(entry, dict)
    return entry


def are_those_asked_alone(url: str, found: list[dict[str, Any]]) -> None:
    context = [1, 2, 3, 1, 2]
    assert len(found) == 12
    for entry in found:
        true = alone(url, context, entry["id"])
        assert entry["logprob"] == pytest.approx(true["logprob"], abs=1e-6)
        assert [a["id"] for a in entry["top_logprobs"]] == [a["id"] for a in true["top_logprobs"]]
        values = [a["logprob"] for a in true["top_logprobs"]]
        assert [a["logprob"] for a in entry["top_logprobs"]] == pytest.approx(values, abs=1e-6)
        context.append(entry["id"])


@pytest.mark.parametrize("path", ROUTES)
def test_values_are_those_of_one_token_requests(server: str, gateway: str, path: str) -> None:
    bare = httpx2.post(server + path, json={**LAW, **ROUTES[path]}).json()
    assert [] in [e["top_logprobs"] for e in entries(bare)]
    answer = httpx2.post(gateway + path, json={**LAW, **ROUTES[path]}).json()
    are_those_asked_alone(server, entries(answer))
    assert answer["draftproof"]["how"] == ECHO
    assert answer["draftproof"]["requests"] == 2  # the prompt, and one token to compare it with
    told = events(httpx2.post(gateway + path, json={**LAW, **ROUTES[path], "stream": True}).text)
    assert [e for event in told for e in entries(event)] == entries(answer)


def test_the_older_lists_say_the_same(gateway: str) -> None:
    asked = {**LAW, **ROUTES["/v1/completions"]}
    (choice,) = httpx2.post(gateway + "/v1/completions", json=asked).json()["choices"]
    lists, content = choice["logprobs"], choice["logprobs"]["content"]
    assert lists["token_logprobs"] == [e["logprob"] for e in content]
    assert lists["top_logprobs"] == [{a["token"]: a["logprob"] for a in e["top_logprobs"]} for e in content]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("echo-zero", "two values for one token"),
        ("echo-shifted", "as part of a prompt"),
        ("echo-overwritten", "of a prompt"),
    ],
)
def test_wrong_logprobs_of_prompts_are_noticed_and_not_used(name: str, words: str) -> None:
    with hosted(lying(name)) as url, Background([url]) as made:
        answer = httpx2.post(made.url + "/completion", json={**LAW, **ROUTES["/completion"]}).json()
        are_those_asked_alone(url, entries(answer))
    assert words in answer["draftproof"]["not_believed"][0]
    assert "one-token requests" in answer["draftproof"]["how"]


def test_values_after_the_samplers_are_asked_for_token_by_token(gateway: str) -> None:
    body = {**LAW, **ROUTES["/completion"], "temperature": 0.5, "post_sampling_probs": True}
    answer = httpx2.post(gateway + "/completion", json=body).json()
    assert "one-token requests" in answer["draftproof"]["how"]
    assert all(e["top_probs"] for e in entries(answer))


def test_a_server_that_does_not_echo_is_tried_once_and_once_more_after_a_restart() -> None:
    with FakeServer() as server, Background([server.url]) as made:

        def tries() -> int:
            for _ in range(3):
                httpx2.post(made.url + "/completion", json=ROUTES["/completion"])
            return sum(b'"echo":true' in body for _, _, body in server.seen.requests)

        assert tries() == 1
        server.stop()
        httpx2.post(made.url + "/completion", json=ROUTES["/completion"])
        server.start()
        assert tries() == 2


def test_an_audit_finds_nothing_wrong(gateway: str) -> None:
    report = audit(AuditConfig(gateway, seed=20, samples=400))
    verdicts = {o.check: o.judgement.verdict for o in report.outcomes}
    assert Verdict.FAIL not in verdicts.values()
    assert verdicts["logprobs/placeholder"] is verdicts["logprobs/rescored"] is Verdict.PASS
