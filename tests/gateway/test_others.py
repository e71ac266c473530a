"""vLLM and SGLang behind the gateway, by their bodies."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.gateway.others import FakeSGLang, FakeVLLM
from tests.gateway.test_gateway import ROUTES, entries, events
from tests.gateway.upstreams import Faults, true_entries

from draftproof.gateway.run import Background

COMPLETIONS, CHAT = (ROUTES[path] for path in ("/v1/completions", "/v1/chat/completions"))
NATIVE: dict[str, Any] = {
    "text": "bcdbc",
    "sampling_params": {"max_new_tokens": 12, "temperature": 1.0},
    "return_logprob": True,
    "top_logprobs_num": 3,
}


def without_ids(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in e.items() if k not in ("id", "top_logprobs")}
        | {"top_logprobs": [{k: v for k, v in a.items() if k != "id"} for a in e["top_logprobs"]]}
        for e in found
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_vllms_completions(stream: bool) -> None:
    with FakeVLLM() as server, Background([server.url]) as made:
        answer = httpx2.post(made.url + "/v1/completions", json={**COMPLETIONS, "stream": stream})
        parts = events(answer.text) if stream else [answer.json()]
        assert sum("prompt_logprobs" in body.decode() for _, _, body in server.seen.requests) == 1
    choices = [c for part in parts for c in part["choices"]]
    true = true_entries("bcdbc", "".join(c["text"] for c in choices), 3)
    logprobs = [c["logprobs"] for c in choices if c["logprobs"]]
    assert [v for one in logprobs for v in one["token_logprobs"]] == [e["logprob"] for e in true]
    tops = [{e["token"]: e["logprob"]} | {a["token"]: a["logprob"] for a in e["top_logprobs"]} for e in true]
    assert [v for one in logprobs for v in one["top_logprobs"]] == tops
    assert parts[-1]["draftproof"]["answers"] == [{"index": 0, "rescored": [[1, 10]]}]
    assert "prompt_logprobs" in parts[-1]["draftproof"]["how"]
    assert "token_ids" not in answer.text


@pytest.mark.parametrize("stream", [False, True])
def test_vllms_chat(stream: bool) -> None:
    with FakeVLLM() as server, Background([server.url]) as made:
        answer = httpx2.post(made.url + "/v1/chat/completions", json={**CHAT, "stream": stream})
    parts = events(answer.text) if stream else [answer.json()]
    found = [e for part in parts for e in entries(part)]
    assert found == without_ids(true_entries("bcdbc", "".join(e["token"] for e in found), 3))
    assert "token_ids" not in answer.text


@pytest.mark.parametrize(
    ("kind", "path", "body"),
    [
        (FakeVLLM, "/v1/chat/completions", {**CHAT, "top_logprobs": 0}),
        (FakeSGLang, "/generate", {**NATIVE, "top_logprobs_num": 0}),
    ],
)
def test_without_alternatives_only_the_tokens_own_values_are_given(
    kind: type[FakeVLLM], path: str, body: dict[str, Any]
) -> None:
    with kind() as server, Background([server.url]) as made:
        answer = httpx2.post(made.url + path, json=body).json()
    if kind is FakeVLLM:
        values = [e["logprob"] for e in entries(answer)]
        assert not any(e["top_logprobs"] for e in entries(answer))
        text = answer["choices"][0]["message"]["content"]
    else:
        values = [v for v, _, _ in answer["meta_info"]["output_token_logprobs"]]
        assert "output_top_logprobs" not in answer["meta_info"]
        text = answer["text"]
    assert values == [e["logprob"] for e in true_entries("bcdbc", text, 3)]


@pytest.mark.parametrize("stream", [False, True])
def test_sglangs_native_route(stream: bool) -> None:
    with FakeSGLang() as server, Background([server.url]) as made:
        answer = httpx2.post(made.url + "/generate", json={**NATIVE, "stream": stream})
    (told,) = events(answer.text) if stream else [answer.json()]
    true = true_entries("bcdbc", told["text"], 3)
    meta = told["meta_info"]
    assert [v for v, _, _ in meta["output_token_logprobs"]] == [e["logprob"] for e in true]
    tops = [[[a["logprob"], a["id"], a["token"]] for a in e["top_logprobs"]] for e in true]
    assert meta["output_top_logprobs"] == tops
    assert told["draftproof"]["answers"] == [{"index": 0, "rescored": [[1, 10]]}]


@pytest.mark.parametrize(
    ("params", "words"),
    [({"temperature": 0.7}, "at a temperature other than 1"), ({"frequency_penalty": 1.0}, "after frequency_penalty")],
)
def test_values_that_a_prompt_has_not_are_refused(params: dict[str, float], words: str) -> None:
    body = {**NATIVE, "sampling_params": NATIVE["sampling_params"] | params}
    with FakeSGLang() as server, Background([server.url]) as made:
        answer = httpx2.post(made.url + "/generate", json=body)
    assert answer.status_code == 502
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("kind", "path", "body"), [(FakeVLLM, "/v1/completions", COMPLETIONS), (FakeSGLang, "/generate", NATIVE)]
)
def test_prompt_logprobs_that_differ_from_the_answers_are_an_error(
    kind: type[FakeVLLM], path: str, body: dict[str, Any]
) -> None:
    with kind(Faults(shifted=True)) as server, Background([server.url]) as made:
        answer = httpx2.post(made.url + path, json=body)
    assert answer.status_code == 502
    assert "as part of a prompt" in answer.json()["error"]["message"]
