"""The gateway in bad weather: upstreams that die, clients that leave or read slowly, many at once."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.gateway.test_gateway import ASK, ROUTES, entries, events, text_of
from tests.gateway.upstreams import FakeServer, Faults, true_entries

from draftproof.gateway.run import Background

LONG: dict[str, Any] = {"prompt": "bcdbc", "n_predict": 2000, "seed": 4, "stream": True}


def until(condition: object, seconds: float = 5.0) -> bool:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(condition())


def test_nobody_behind_it_is_an_error_in_the_apis_form() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with Background([f"http://127.0.0.1:{taken.getsockname()[1]}"]) as made:
            for body in ({"prompt": "b"}, ASK):
                answer = httpx2.post(made.url + "/completion", json=body)
                assert answer.status_code == 503
                assert answer.json()["error"]["type"] == "upstream_error"


@pytest.mark.parametrize("n_probs", [0, 3])
def test_a_stream_that_breaks_off_ends_in_an_error(n_probs: int) -> None:
    faults = Faults(break_at=5)
    with FakeServer(faults) as server, Background([server.url]) as made:
        told = events(httpx2.post(made.url + "/completion", json={**ASK, "n_probs": n_probs, "stream": True}).text)
        assert told[-1]["error"]["code"] == 502
        assert len(told) <= 6
        assert all(e["top_logprobs"] for event in told[:-1] for e in entries(event))
        faults.break_at = None
        again = httpx2.post(made.url + "/completion", json=ASK).json()
    assert entries(again) == true_entries("bcdbc", text_of(again), 3)


def test_it_recovers_by_itself_when_the_server_comes_back() -> None:
    server = FakeServer()
    with server, Background([server.url]) as made:
        assert httpx2.post(made.url + "/completion", json=ASK).status_code == 200
        server.stop()
        refused = httpx2.post(made.url + "/completion", json=ASK)
        assert refused.status_code in (502, 503)
        assert refused.json()["error"]["message"]
        server.start()
        assert httpx2.post(made.url + "/completion", json=ASK).status_code == 200


def test_scores_of_a_server_that_was_restarted_meanwhile_are_not_used() -> None:
    server = FakeServer(Faults(step_s=0.05))
    with server, Background([server.url]) as made, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx2.post, made.url + "/completion", json={**ASK, "n_predict": 40, "stream": True})
        assert until(lambda: server.seen.sent > 5)
        server.stop()
        server.start()
        told = events(asked.result().text)
    assert "error" in told[-1]
    assert all(e["top_logprobs"] for event in told[:-1] for e in entries(event))


def test_another_upstream_takes_over_what_had_not_begun() -> None:
    one, other = FakeServer(), FakeServer()
    with one, other, Background([one.url, other.url]) as made:
        one.stop()
        answers = [httpx2.post(made.url + "/completion", json=ASK) for _ in range(6)]
        one.start()
    assert {a.status_code for a in answers} == {200}
    assert {a.json()["draftproof"]["upstream"] for a in answers} == {"upstream 2"}


def test_requests_are_shared_out_and_each_stays_where_it_began() -> None:
    with FakeServer() as one, FakeServer() as other, Background([one.url, other.url]) as made:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: httpx2.post(made.url + "/completion", json=ASK).json(), range(8)))
        per_request = 1 + 1 + 11  # the answer, its prompt, the first token and ten placeholders
    assert {a["draftproof"]["upstream"] for a in answers} == {"upstream 1", "upstream 2"}
    for server in (one, other):
        assert len(server.seen.requests) % per_request == 1  # it was tried out once whether it scores prompts


def test_a_client_that_leaves_cancels_the_request_behind_it() -> None:
    with FakeServer(Faults(step_s=0.01)) as server, Background([server.url]) as made:
        for body in (LONG, {**LONG, "n_probs": 3}):
            with httpx2.stream("POST", made.url + "/completion", json=body) as answer:
                next(answer.iter_raw())
            sent = server.seen.sent
            assert until(lambda: server.seen.cancelled > 0)
            assert server.seen.sent < sent + 200
            server.seen.cancelled = 0


def test_a_slow_reader_slows_the_upstream_down_and_not_the_others() -> None:
    faults = Faults(padding=60_000)  # 120 MB: more than Linux lets the sockets of both connections hold, 36 MB each
    with FakeServer(faults) as server, Background([server.url]) as made:
        parts = urlsplit(made.url)
        body = json.dumps(LONG).encode()
        head = f"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((parts.hostname or "", parts.port or 0)) as slow:
            slow.sendall(head.encode() + body)
            held = [-1]

            def stands_still() -> bool:
                time.sleep(0.3)
                held.append(server.seen.sent)
                return held[-1] == held[-2] > 0

            assert until(stands_still, 20)
            assert server.seen.sent < LONG["n_predict"]
            assert httpx2.post(made.url + "/completion", json=ASK).status_code == 200


def test_many_clients_at_once_get_each_their_own_numbers() -> None:
    paths = [*ROUTES] * 22
    with (
        FakeServer() as server,
        Background([server.url]) as made,
        ThreadPoolExecutor(64) as pool,
        httpx2.Client(base_url=made.url, timeout=60) as client,
    ):
        barrier = threading.Barrier(64)

        def ask(n: int) -> bool:
            path = paths[n]
            length = "n_predict" if path == "/completion" else "max_tokens"
            barrier.wait()
            answer = client.post(path, json={**ROUTES[path], length: 5, "seed": n}).json()
            return bool(entries(answer) == true_entries("bcdbc", text_of(answer), 3))

        assert all(pool.map(ask, range(64)))


@pytest.mark.parametrize("seed", [{}, {"seed": 4}])
def test_not_more_answers_than_slots_are_asked_for_token_by_token_at_once(seed: dict[str, int]) -> None:
    """More would take each other's cached contexts."""
    prompts = [a + b + "c" for a in "abcd" for b in "abcd"]
    with FakeServer() as server, Background([server.url]) as made, ThreadPoolExecutor(len(prompts)) as pool:
        bodies = [{"prompt": prompt, "n_predict": 6, "n_probs": 3, **seed} for prompt in prompts]
        answers = list(pool.map(lambda body: httpx2.post(made.url + "/completion", json=body, timeout=60), bodies))
        asked = [json.loads(body) for path, _, body in server.seen.requests if path == "/completion"]
    for prompt, answer in zip(prompts, answers, strict=True):
        assert entries(answer.json()) == true_entries(prompt, text_of(answer.json()), 3)
    # the first token of a re-scored answer is asked for before its turn, for comparison
    single = [tuple(b["prompt"][:3]) for b in asked if b["n_predict"] == 1 and len(b["prompt"]) > 3]
    ends = {who: n for n, who in enumerate(single)}
    begins = {who: len(single) - 1 - n for n, who in enumerate(reversed(single))}
    assert len(ends) == len(prompts)
    assert max(sum(begins[who] <= n <= ends[who] for who in ends) for n in range(len(single))) <= 4
