"""The gateway before a small server with placeholders: numbers, shapes, and what passes untouched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.gateway.upstreams import FakeServer, Faults, Seen, true_entries

from draftproof.gateway.app import Options
from draftproof.gateway.run import Background

ASK: dict[str, Any] = {"prompt": "bcdbc", "n_predict": 12, "n_probs": 3, "seed": 4}
ROUTES: dict[str, dict[str, Any]] = {
    "/completion": ASK,
    "/v1/completions": {"prompt": "bcdbc", "max_tokens": 12, "logprobs": 3, "seed": 4},
    "/v1/chat/completions": {
        "messages": [{"role": "user", "content": "bcdbc"}],
        "max_tokens": 12,
        "logprobs": True,
        "top_logprobs": 3,
        "seed": 4,
    },
}


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[FakeServer, httpx2.Client]]:
    with (
        FakeServer() as server,
        Background([server.url]) as made,
        httpx2.Client(base_url=made.url, timeout=20) as client,
    ):
        yield server, client


@pytest.fixture
def server(pair: tuple[FakeServer, httpx2.Client]) -> FakeServer:
    """Without faults, and as if it had not been asked yet."""
    made, _ = pair
    made.faults, made.seen = Faults(), Seen()
    return made


@pytest.fixture
def gateway(pair: tuple[FakeServer, httpx2.Client], server: FakeServer) -> httpx2.Client:
    """Before `server`."""
    return pair[1]


def entries(body: Any) -> list[Any]:
    """The logprob entries of an answer or of one event."""
    found = list(body.get("completion_probabilities") or [])
    for choice in body.get("choices") or []:
        found += (choice.get("logprobs") or {}).get("content") or []
    return found


def events(text: str) -> list[Any]:
    return [json.loads(e.removeprefix("data: ")) for e in text.split("\n\n") if e and e != "data: [DONE]"]


def text_of(body: Any) -> str:
    if "choices" not in body:
        return str(body["content"])
    parts = (c.get("text") or (c.get("message") or c.get("delta") or {}).get("content") for c in body["choices"])
    return "".join(p or "" for p in parts)


@pytest.mark.parametrize("path", ROUTES)
def test_every_token_has_its_true_logprob(server: FakeServer, gateway: httpx2.Client, path: str) -> None:
    bare = httpx2.post(server.url + path, json=ROUTES[path]).json()
    assert [e["top_logprobs"] == [] for e in entries(bare)] == [False, *[True] * 10, False]
    answer = gateway.post(path, json=ROUTES[path])
    assert answer.status_code == 200
    assert text_of(answer.json()) == text_of(bare)
    assert entries(answer.json()) == true_entries("bcdbc", text_of(bare), 3)
    assert answer.json()["draftproof"]["answers"] == [{"index": 0, "rescored": [[1, 10]]}]
    assert answer.headers["x-draftproof"] == "rescored; tokens=10; upstream=upstream 1"


@pytest.mark.parametrize("path", ROUTES)
def test_a_stream_tells_the_same_token_by_token(gateway: httpx2.Client, path: str) -> None:
    whole = gateway.post(path, json=ROUTES[path]).json()
    answer = gateway.post(path, json={**ROUTES[path], "stream": True})
    told = events(answer.text)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [len(entries(e)) for e in told if text_of(e)] == [1] * 12
    assert [e for event in told for e in entries(event)] == entries(whole)
    assert "".join(map(text_of, told)) == text_of(whole)
    assert told[-1]["draftproof"]["answers"] == [{"index": 0, "rescored": [[1, 10]]}]
    assert answer.text.endswith("data: [DONE]\n\n") is (path != "/completion")


@pytest.mark.parametrize("path", ["/completion", "/v1/completions"])
def test_a_token_is_told_before_the_next_ones_are_made(path: str) -> None:
    ask = {**ROUTES[path], "stream": True}
    with (
        FakeServer(Faults(step_s=0.05)) as server,
        Background([server.url]) as made,
        httpx2.stream("POST", made.url + path, json=ask) as answer,
    ):
        parts = answer.iter_text()
        text = next(parts)
        assert server.seen.sent < 12
        text += "".join(parts)
    assert len([e for event in events(text) for e in entries(event)]) == 12


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/completion", b'{"prompt": "bcd", "n_predict": 5,   "seed": 1}'),
        ("POST", "/completion", b'{"prompt": "bcd", "n_predict": 5, "seed": 1, "stream": true}'),
        ("POST", "/anything?of=it", b"\x00\xff no JSON \\u"),
        ("POST", "/anything", b'{"logprobs": false, "n_probs": 0}'),
        ("GET", "/anything", b""),
        ("DELETE", "/anything/else", b""),
    ],
)
def test_the_rest_passes_byte_for_byte(
    server: FakeServer, gateway: httpx2.Client, method: str, path: str, body: bytes
) -> None:
    direct = httpx2.request(method, server.url + path, content=body)
    through = gateway.request(method, path, content=body)
    assert (through.status_code, through.content) == (direct.status_code, direct.content)
    assert direct.headers.get("x-own") == through.headers.get("x-own")
    assert direct.headers.get("content-type") == through.headers.get("content-type")
    if server.seen.requests:
        assert server.seen.requests[-1][2] == body


def test_the_client_sees_token_ids_only_if_it_asked_for_them(gateway: httpx2.Client) -> None:
    assert gateway.post("/completion", json=ASK).json()["tokens"] == []
    assert len(gateway.post("/completion", json={**ASK, "return_tokens": True}).json()["tokens"]) == 12


def test_a_server_that_drafts_nothing_is_asked_nothing_more(server: FakeServer, gateway: httpx2.Client) -> None:
    server.faults.drafting = False
    answer = gateway.post("/completion", json=ASK).json()
    assert answer["draftproof"]["logprobs"] == "as the upstream gave them"
    assert len(server.seen.requests) == 1


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        (Faults(shifted=True), "another context"),
        (Faults(silent=True), "no alternatives for a single token either"),
        (Faults(prompt_tokens=1), "counts 6 tokens of the prompt"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_re_scored_is_an_error_and_no_number(faults: Faults, words: str, stream: bool) -> None:
    with FakeServer(faults) as server, Background([server.url]) as made:
        answer = httpx2.post(made.url + "/completion", json={**ASK, "stream": stream})
    if not stream:
        assert answer.status_code == 502
        assert words in answer.json()["error"]["message"]
        return
    told = events(answer.text)
    assert words in told[-1]["error"]["message"]
    assert all(entry["top_logprobs"] for event in told[:-1] for entry in entries(event))


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/completion", {**ASK, "post_sampling_probs": True, "grammar": "root ::= [a-h]+"}, "grammar"),
        ("/completion", {**ASK, "prompt": {"prompt_string": "b"}}, "neither text"),
        (
            "/v1/chat/completions",
            {**ROUTES["/v1/chat/completions"], "messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "images",
        ),
        ("/infill", {"n_probs": 2}, "/infill gives no token ids"),
        ("/v1/responses", {"include": ["message.output_text.logprobs"]}, "/v1/responses gives no"),
    ],
)
def test_what_could_not_be_re_scored_is_refused_before_anything_is_made(
    server: FakeServer, gateway: httpx2.Client, path: str, body: dict[str, Any], words: str
) -> None:
    answer = gateway.post(path, json=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert not server.seen.requests


@pytest.mark.parametrize("path", ROUTES)
def test_plain_servers_get_the_requests_for_logprobs(server: FakeServer, path: str) -> None:
    with FakeServer(Faults(drafting=False)) as plain, Background([server.url], [plain.url]) as made:
        answer = httpx2.post(made.url + path, json=ROUTES[path])
        httpx2.post(made.url + "/completion", json={"prompt": "b", "n_predict": 2})
    assert entries(answer.json()) == true_entries("bcdbc", text_of(answer.json()), 3)
    assert answer.headers["x-draftproof"] == "upstream=plain 1"
    assert len(plain.seen.requests) == len(server.seen.requests) == 1


def test_plain_servers_get_what_cannot_be_re_scored(server: FakeServer) -> None:
    with FakeServer() as plain, Background([server.url], [plain.url]) as made:
        answer = httpx2.post(made.url + "/infill", json={"n_probs": 2})
    assert (answer.status_code, answer.json()) == (203, {"n_probs": 2})
    assert answer.headers["x-draftproof"] == "plain; upstream=plain 1"


def test_a_plain_server_that_speculates_all_the_same_is_found_out(server: FakeServer) -> None:
    with Background([server.url], [server.url]) as made:
        told = events(httpx2.post(made.url + "/completion", json={**ASK, "stream": True}).text)
    assert "named as one without speculation" in told[-1]["error"]["message"]
    assert len(told) == 2


def test_a_description_is_corrected_only_where_it_is_known_to_be_wrong(
    server: FakeServer, gateway: httpx2.Client
) -> None:
    props = gateway.get("/props").json()
    assert props["default_generation_settings"]["params"]["speculative.types"] == "draft-simple"
    assert props["draftproof"]["corrected"][0]["upstream"] == "none"
    server.faults.drafting = False
    with Background([server.url]) as other:
        assert httpx2.get(other.url + "/props").content == httpx2.get(server.url + "/props").content


def test_its_own_keys_go_no_further_and_foreign_ones_do(server: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    key = {"authorization": "Bearer secret-of-mine"}
    with Background([server.url]) as made:
        httpx2.post(made.url + "/completion", json=ASK, headers=key)
    assert {h.get("authorization") for _, h, _ in server.seen.requests} == {key["authorization"]}
    server.seen.requests.clear()
    with Background([server.url], options=Options(keys=("own",)), credentials=[]) as made:
        assert httpx2.post(made.url + "/completion", json=ASK, headers=key).status_code == 401
        httpx2.post(made.url + "/completion", json=ASK, headers={"authorization": "Bearer own"})
    assert server.seen.requests
    assert {h.get("authorization") for _, h, _ in server.seen.requests} == {None}
    assert "secret-of-mine" not in caplog.text


def test_a_body_that_is_too_large_is_refused(server: FakeServer) -> None:
    with Background([server.url], options=Options(body_limit=1000)) as made:
        answer = httpx2.post(made.url + "/completion", content=b"x" * 1001)
    assert answer.status_code == 413
    assert not server.seen.requests
