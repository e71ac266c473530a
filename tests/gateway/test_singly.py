"""Answers made token by token, where the request has no seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from tests.gateway.test_gateway import ROUTES, entries, events, text_of
from tests.gateway.test_weather import until
from tests.gateway.upstreams import FakeServer, Faults, Seen, true_entries

from draftproof.gateway.run import Background

ASKS = {path: {k: v for k, v in ROUTES[path].items() if k != "seed"} for path in ("/completion", "/v1/completions")}
ASK = ASKS["/completion"]


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[FakeServer, str]]:
    with FakeServer() as server, Background([server.url]) as made:
        yield server, made.url


def lengths(server: FakeServer) -> list[int]:
    """How many tokens each request asked for, the trial of echo left out."""
    bodies = [json.loads(body) for path, _, body in server.seen.requests if "completion" in path]
    return [b.get("n_predict", b.get("max_tokens")) for b in bodies if not b.get("echo")]


@pytest.mark.parametrize("path", ASKS)
@pytest.mark.parametrize("stream", [False, True])
def test_each_token_is_a_request_of_its_own(pair: tuple[FakeServer, str], path: str, stream: bool) -> None:
    server, url = pair
    server.seen = Seen()
    answer = httpx2.post(url + path, json={**ASKS[path], "stream": stream})
    parts = events(answer.text) if stream else [answer.json()]
    text = "".join(map(text_of, parts))
    assert len(text) == 12
    assert [e for part in parts for e in entries(part)] == true_entries("bcdbc", text, 3)
    assert lengths(server) == [1] * 12
    assert parts[-1]["draftproof"]["requests"] == 12
    assert parts[-1]["draftproof"]["how"].startswith("made token by token")
    assert answer.headers["x-draftproof"] == "singly; upstream=upstream 1"
    assert answer.text.endswith("[DONE]\n\n") is (stream and path != "/completion")


@pytest.mark.parametrize(
    "more",
    [
        {"seed": 4},
        {"stop": ["b"]},
        {"grammar": "root ::= [a-h]+"},
        {"t_max_predict_ms": 9},
        {"n_predict": -1},
        {"n": 2},
    ],
)
def test_what_needs_the_server_for_the_whole_answer_is_re_scored(
    pair: tuple[FakeServer, str], more: dict[str, Any]
) -> None:
    server, url = pair
    server.seen = Seen()
    httpx2.post(url + "/completion", json={**ASK, **more})
    assert lengths(server)[0] != 1


def test_a_server_that_does_not_speculate_makes_the_whole_answer() -> None:
    with FakeServer(Faults(drafting=False)) as server, Background([server.url]) as made:
        answer = httpx2.post(made.url + "/completion", json=ASK).json()
        assert lengths(server) == [12]
    assert answer["draftproof"]["logprobs"] == "as the upstream gave them"
    assert "how" not in answer["draftproof"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_without_numbers_for_one_token_gives_an_error(stream: bool) -> None:
    with FakeServer(Faults(silent=True)) as server, Background([server.url]) as made:
        answer = httpx2.post(made.url + "/completion", json={**ASK, "stream": stream})
    assert answer.status_code == 502
    assert "no alternatives for a single token" in answer.json()["error"]["message"]


def test_a_server_that_is_lost_in_the_middle_ends_the_stream_in_an_error() -> None:
    server = FakeServer(Faults(step_s=0.05))
    with server, Background([server.url]) as made, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx2.post, made.url + "/v1/completions", json={**ASKS["/v1/completions"], "stream": True})
        assert until(lambda: len(server.seen.requests) > 5)
        server.stop()
        server.start()
        text = asked.result().text
    assert "[DONE]" not in text
    told = events(text)
    assert told[-1]["error"]["type"] == "upstream_error"
    assert all(e["top_logprobs"] for event in told[:-1] for e in entries(event))
