"""Bad weather: clients that leave, dawdle or send too much, a full queue, an end in the middle. No slot is lost."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from tests.server.loopback import DRAFT, NONE, PROMPT, Client, serving

from draftproof.engine.backends.law import LawBackend
from draftproof.server.app import Access

LONG = {"prompt": PROMPT, "n_predict": 4000, "n_probs": 3}


@pytest.fixture
def one_slot() -> Iterator[Client]:
    access = Access(body_limit=4096)
    with serving(DRAFT, slots=1, waiting=2, context=4096, access=access, pause_s=0.002) as (client, _):
        yield client


def is_idle(client: Client, seconds: float = 3) -> bool:
    """Whether every slot is free before long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(slot["is_processing"] for slot in client.get("/slots").json()):
            return True
        time.sleep(0.01)
    return False


def wait_busy(client: Client) -> None:
    wait_for(lambda: bool(client.get("/slots").json()[0]["is_processing"]))


def wait_deferred(client: Client, count: int) -> None:
    wait_for(lambda: f"requests_deferred {count}\n" in client.get("/metrics").text)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def raw(client: Client, body: dict[str, Any]) -> socket.socket:
    """A connection over which a request was sent; little of the answer fits into its buffers."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**15)
    connection.connect((client.base_url.host, client.base_url.port or 80))
    content = json.dumps(body).encode()
    head = f"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n"
    connection.sendall(head.encode() + content)
    return connection


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_slot(one_slot: Client, stream: bool) -> None:
    connection = raw(one_slot, {**LONG, "stream": stream})
    wait_busy(one_slot)
    connection.close()
    assert is_idle(one_slot, 1)
    assert one_slot.ask(prompt=PROMPT, n_predict=3)["tokens_predicted"] == 3


def test_a_client_that_leaves_the_queue_is_forgotten(one_slot: Client) -> None:
    first = raw(one_slot, LONG)
    wait_busy(one_slot)
    second = raw(one_slot, LONG)
    wait_deferred(one_slot, 1)
    second.close()
    wait_deferred(one_slot, 0)
    first.close()
    assert is_idle(one_slot, 1)


def test_a_slow_reader_holds_no_slot(one_slot: Client) -> None:
    connection = raw(one_slot, {**LONG, "n_predict": 1000, "stream": True})
    assert is_idle(one_slot, 10)
    received = b""
    connection.settimeout(10)
    while b'"stop":true' not in received[-4000:]:
        part = connection.recv(65536)
        assert part
        received += part
    assert len(received) > 2**18
    assert received.count(b"data: ") == 1001
    connection.close()


def test_a_full_queue_says_so(one_slot: Client) -> None:
    crowd = [raw(one_slot, LONG)]
    wait_busy(one_slot)
    crowd += [raw(one_slot, LONG) for _ in range(3)]
    wait_deferred(one_slot, 3)
    assert "waiting" in one_slot.refused(status=503, prompt=PROMPT, n_predict=1)
    for connection in crowd:
        connection.close()
    assert is_idle(one_slot)


def test_nobody_waits_for_a_request_of_many_choices() -> None:
    with serving(slots=1, pause_s=0.001) as (client, _):
        order: list[str] = []

        def ask(name: str, **body: Any) -> None:
            client.ask(prompt=PROMPT, n_predict=20, **body)
            order.append(name)

        many = threading.Thread(target=ask, args=("many",), kwargs={"n_cmpl": 20})
        many.start()
        wait_busy(client)
        ask("one")
        many.join()
        assert order == ["one", "many"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{nope", "not valid JSON"),
        (b'{"prompt":"\xff"}', "not valid UTF-8"),
        (b"[]", "must be a JSON object"),
        (b"", "not valid JSON"),
        (b'{"prompt":"a","temperature":NaN}', "NaN is not JSON"),
        (b'{"prompt":"a","top_p":Infinity}', "not JSON"),
        (b'{"prompt":' + 1500 * b"[" + 1500 * b"]" + b"}", ""),
    ],
    ids=["syntax", "utf-8", "list", "empty", "nan", "infinity", "deep"],
)
def test_what_is_no_request_is_refused(one_slot: Client, content: bytes, words: str) -> None:
    answer = one_slot.post("/completion", content=content)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"prompt": ""}, "at least one token"),
        ({"prompt": []}, "must not be empty"),
        ({"prompt": [1, 2, 8]}, "ids are 0 to 7"),
        ({"prompt": [1, -1]}, "ids are 0 to 7"),
        ({"prompt": "a", "temperature": "hot"}, "temperature"),
        ({"prompt": "a", "samplers": ["nonsense"]}, "unknown sampler nonsense"),
        ({"prompt": "a", "samplers": "kz"}, "unknown sampler letters"),
        ({"prompt": "a", "stop": ["x"] * 100}, "at most 64"),
        ({"prompt": "a", "n_predict": -5}, "between -1 and"),
        ({"prompt": "a", "id_slot": 9}, "no slot 9"),
        ({"prompt": "a", "logit_bias": [[99, 1]]}, "ids are 0 to 7"),
    ],
)
def test_values_that_cannot_be_served_are_refused(plain: Client, body: dict[str, Any], words: str) -> None:
    assert words in plain.post("/completion", content=json.dumps(body)).json()["error"]["message"]


def test_more_alternatives_than_the_vocabulary_has_are_all_of_them(plain: Client) -> None:
    (entry,) = plain.ask(prompt=PROMPT, n_predict=1, n_probs=50)["completion_probabilities"]
    assert len(entry["top_logprobs"]) == 8


def test_a_temperature_below_zero_is_zero_as_for_llama_server(plain: Client) -> None:
    answers = [plain.ask(prompt=PROMPT, n_predict=9, temperature=t)["content"] for t in (-1, 0)]
    assert answers[0] == answers[1]


def test_a_body_that_is_too_large_is_refused(one_slot: Client) -> None:
    answer = one_slot.post("/completion", content=b'{"prompt":"' + 5000 * b"a" + b'"}')
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, 413)


@pytest.mark.parametrize("body", [bytes(2**25), itertools.repeat(bytes(2**16), 2**9)], ids=["whole", "chunked"])
def test_a_client_that_reads_no_answer_while_it_writes_learns_that_its_body_is_too_large(
    one_slot: Client, body: bytes | Iterable[bytes]
) -> None:
    request = urllib.request.Request(str(one_slot.base_url.join("/completion")), data=body)
    with pytest.raises(urllib.error.HTTPError, match="413"):
        urllib.request.urlopen(request, timeout=30)


def test_a_client_that_asks_before_it_sends_a_body_that_is_too_large_is_told_at_once(one_slot: Client) -> None:
    with socket.create_connection((one_slot.base_url.host, one_slot.base_url.port or 80), timeout=30) as connection:
        head = "Host: x\r\nExpect: 100-continue\r\nContent-Length: 5000"
        connection.sendall(f"POST /completion HTTP/1.1\r\n{head}\r\n\r\n".encode())
        assert connection.recv(2**16).startswith(b"HTTP/1.1 413")


def test_a_client_that_stops_sending_a_body_that_is_too_large_is_told_all_the_same(one_slot: Client) -> None:
    with socket.create_connection((one_slot.base_url.host, one_slot.base_url.port or 80), timeout=30) as connection:
        connection.sendall(b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + bytes(100))
        assert connection.recv(2**16).startswith(b"HTTP/1.1 413")


def test_a_prompt_that_does_not_fit_gets_llama_servers_error(plain: Client) -> None:
    error = plain.post("/completion", json={"prompt": 600 * "a"}).json()["error"]
    assert (error["type"], error["n_prompt_tokens"], error["n_ctx"]) == ("exceed_context_size_error", 600, 512)
    assert plain.ask(prompt=511 * "a", n_predict=5)["tokens_predicted"] == 2


def test_a_vocabulary_that_is_banned_whole_is_an_error_of_the_request(one_slot: Client) -> None:
    said = one_slot.refused(prompt=PROMPT, n_predict=3, logit_bias=[[i, False] for i in range(8)])
    assert "no token is left" in said
    assert is_idle(one_slot, 1)
    assert one_slot.ask(prompt=PROMPT, n_predict=3)["tokens_predicted"] == 3


def test_a_request_for_too_many_answers_is_refused(plain: Client) -> None:
    assert "1152 answers" in plain.refused(prompt=["a"] * 9, n=128)


def test_a_mark_of_byte_order_is_passed_over(plain: Client) -> None:
    assert plain.post("/completion", content=b'\xef\xbb\xbf{"prompt": "b", "n_predict": 1}').status_code == 200


def test_unknown_routes_and_methods_get_llama_servers_error(plain: Client) -> None:
    slashed = plain.post("/completion/", json={"prompt": PROMPT}), plain.get("/health/")
    for answer in (plain.get("/nope"), plain.get("/completion"), plain.post("/health"), *slashed):
        assert answer.status_code == 404
        assert answer.json() == {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}


def test_a_stop_in_the_middle_ends_streams_with_an_error_and_frees_everything() -> None:
    with serving(DRAFT, slots=1, context=4096, pause_s=0.002) as (client, server):
        with client.stream("POST", "/completion", json={**LONG, "stream": True}) as stream:
            lines = stream.iter_lines()
            next(lines)
            server.worker.stop()
            last = [line for line in lines if line][-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == 503
        assert "shutting down" in client.refused(status=503, prompt=PROMPT)
        assert client.get("/health").status_code == 503


def test_many_who_come_and_go(one_slot: Client) -> None:
    for i in range(30):
        connection = raw(one_slot, {**LONG, "stream": bool(i % 2)})
        if i % 3:
            time.sleep(0.003)
        connection.close()
    assert is_idle(one_slot)
    assert "requests_deferred 0" in one_slot.get("/metrics").text
    with pytest.raises(httpx2.TimeoutException):
        one_slot.post("/completion", json=LONG, timeout=0.02)
    assert is_idle(one_slot, 1)


def test_others_are_served_while_a_request_waits_for_what_has_to_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, measured = threading.Event(), threading.Event()

    def measure(_: LawBackend) -> int:
        asked.set()
        assert measured.wait(10)
        return 64

    monkeypatch.setattr(LawBackend, "max_rows_exact", property(measure))
    with serving(NONE) as (client, _), ThreadPoolExecutor(1) as pool:
        answer = pool.submit(
            client.ask, prompt=PROMPT, n_predict=8, temperature=0, speculative={"type": "ngram-simple"}
        )
        assert asked.wait(10)
        assert client.get("/health").status_code == 200
        assert not answer.done()
        measured.set()
        assert len(answer.result(10)["tokens"] or answer.result()["content"]) == 8
