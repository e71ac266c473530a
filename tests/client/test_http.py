from __future__ import annotations

import itertools
import socket
import socketserver
import ssl
import threading
import time
from pathlib import Path

import pytest
from tests.client import weather
from tests.client.weather import Connection, Request, Spoil, Weather, answer_fairly

from draftproof.client import connections
from draftproof.client.connections import base_url
from draftproof.client.evidence import MemorySink
from draftproof.client.http import Http, require_listening
from draftproof.client.patience import Budget, Limits
from draftproof.core.errors import BudgetSpent, TargetError, Unreachable, UsageError

FAST = Limits(silence_s=0.3, backoff_s=0.01)
BODY = b'{"prompt": "a"}'
KEY = "sk-secret/0123456789"


def ask(spoil: Spoil, limits: Limits = FAST, api_key: str = "") -> tuple[Http, MemorySink, TargetError]:
    sink = MemorySink()
    with Weather(spoil) as server, Http(server.url, limits=limits, sink=sink, api_key=api_key) as http:
        http.get("/health")
        with pytest.raises(TargetError) as caught:
            http.post("/completion", BODY)
    return http, sink, caught.value


def test_every_request_is_recorded_with_its_timing_and_its_body() -> None:
    sink = MemorySink()
    with Weather() as server, Http(server.url, sink=sink) as http:
        exchange = http.post("/tokenize", b'{"content": "abc"}')
    assert sink.exchanges == [exchange]
    assert (exchange.number, exchange.method, exchange.path) == (1, "POST", "/tokenize")
    assert (exchange.status, exchange.request, exchange.answer) == (200, '{"content": "abc"}', '{"tokens": [0, 1, 2]}')
    (attempt,) = exchange.attempts
    assert attempt.outcome == "200"
    assert 0 < attempt.elapsed_s < 5


def test_nobody_listening_is_unreachable_and_found_out_soon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    sink = MemorySink()
    began = time.monotonic()
    with (
        Http(f"http://127.0.0.1:{port}", sink=sink) as http,
        pytest.raises(Unreachable, match=r"No connection .* Is the server running") as caught,
    ):
        http.get("/health")
    assert time.monotonic() - began < 2
    assert caught.value.exit_code == 4
    assert caught.value.exchange == 1
    assert [a.outcome[:13] for a in sink.exchanges[0].attempts] == ["no connection"] * 2


def test_an_unknown_host_is_named() -> None:
    with (
        Http("http://nowhere.invalid") as http,
        pytest.raises(Unreachable, match=r"host of http://nowhere\.invalid is not known"),
    ):
        http.get("/health")


def test_a_plain_server_asked_by_tls_says_so(tmp_path: Path) -> None:
    with (
        Weather() as server,
        Http(server.url.replace("http://", "https://")) as http,
        pytest.raises(Unreachable, match="TLS handshake"),
    ):
        http.get("/health")
    assert ssl.OPENSSL_VERSION


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080", "ftp://host", "http://", "http://host:99999", "http://host:x", "", "file:///etc"]
)
def test_a_wrong_url_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match=r"Give one like http://127\.0\.0\.1:8080"):
        Http(url)


@pytest.mark.parametrize("url", ["http://me:hunter2@host", "htp://me:hunter2@host", "http://host?key=hunter2"])
def test_a_url_with_a_secret_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Http(url)
    assert "hunter2" not in str(caught.value)


def test_short_placeholder_keys_are_not_hidden_from_answers_that_hold_the_word() -> None:
    with Weather() as server, Http(server.url, api_key="none") as http:
        assert '"speculative.types": "none"' in http.get("/props").answer


def test_a_connection_that_the_server_closed_meanwhile_costs_no_wait() -> None:
    def once(request: Request, connection: Connection) -> bool:
        answer_fairly(request, connection)
        connection.drop()
        return True

    with Weather(once) as server, Http(server.url, limits=Limits(backoff_s=30)) as http:
        assert [http.get("/health").status for _ in range(4)] == [200] * 4


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://host:1/", "http://host:1"),
        ("https://host/v1", "https://host"),
        ("http://host/proxy/v1/", "http://host/proxy"),
        ("http://[::1]:8", "http://[::1]:8"),
    ],
)
def test_urls_are_brought_to_one_form(url: str, base: str) -> None:
    assert base_url(url) == base


def test_silence_has_a_name_and_is_not_asked_again() -> None:
    _, sink, error = ask(weather.silence)
    assert "sent nothing for 0.3 s" in error.message
    assert "--timeout" in error.remedy
    assert error.exit_code == 3
    assert [a.outcome for a in sink.exchanges[-1].attempts] == ["silence for 0.3 s"]


def test_a_connection_dropped_in_the_middle_is_told_with_its_length() -> None:
    _, sink, error = ask(weather.dropped)
    assert "in the middle of an answer, after 1 bytes" in error.message
    assert len(sink.exchanges[-1].attempts) == 1
    assert sink.exchanges[-1].answer == "{"


def test_a_connection_closed_without_an_answer_is_tried_again_and_every_attempt_recorded() -> None:
    _, sink, error = ask(weather.hung_up)
    assert "closed the connection without an answer" in error.message
    assert isinstance(error, Unreachable)
    assert len(sink.exchanges[-1].attempts) == FAST.attempts


@pytest.mark.parametrize("spoil", [weather.endless_body, weather.announced_body])
def test_a_body_of_200_megabytes_is_refused_without_reading_it(spoil: Spoil) -> None:
    http, sink, error = ask(spoil, Limits(silence_s=5))
    assert "the limit is 67,108,864" in error.message
    assert len(sink.exchanges[-1].answer) <= 1 << 16
    assert http.requests == 2


def test_an_answer_that_drips_without_end_is_ended() -> None:
    def drip(request: Request, connection: Connection) -> bool:
        if request.generates:
            connection.stream(*["data: x\n\n"] * 100, pause_s=0.02)
        return request.generates

    _, _, error = ask(drip, Limits(total_s=0.2))
    assert "still answering" in error.message


def test_a_server_that_speaks_no_http_is_recognised() -> None:
    with (
        Weather(weather.no_http) as server,
        Http(server.url, limits=FAST) as http,
        pytest.raises(Unreachable, match="did not answer in HTTP"),
    ):
        http.get("/health")


def test_429_waits_as_long_as_it_is_told() -> None:
    sink = MemorySink()
    with Weather(weather.busy(2, retry_after="0")) as server, Http(server.url, sink=sink, limits=FAST) as http:
        exchange = http.post("/completion", native_body())
    # The first contact is tried twice only; the answer counts as contact.
    assert [a.outcome for a in exchange.attempts] == ["429 retry-after 0", "429 retry-after 0", "200"]


def test_429_with_an_unbearable_wait_is_not_waited_for() -> None:
    began = time.monotonic()
    with Weather(weather.too_many) as server, Http(server.url, limits=FAST) as http:
        exchange = http.post("/completion", BODY)
    assert time.monotonic() - began < 2
    assert exchange.status == 429
    assert [a.outcome for a in exchange.attempts] == ["429 retry-after 120"]


def test_retry_after_may_be_a_date() -> None:
    with (
        Weather(weather.busy(1, retry_after="Fri, 31 Dec 1999 23:59:59 GMT")) as server,
        Http(server.url, limits=FAST) as http,
    ):
        exchange = http.post("/completion", native_body())
    assert exchange.status == 200


def test_503_is_tried_again_with_growing_waits() -> None:
    with Weather(weather.busy(3, status=503)) as server, Http(server.url, limits=Limits(backoff_s=0.02)) as http:
        exchange = http.post("/completion", native_body())
    assert [a.outcome for a in exchange.attempts] == ["503", "503", "503", "200"]
    starts = [a.started_s for a in exchange.attempts]
    assert starts[3] - starts[2] > 0.07


@pytest.mark.parametrize("status", [400, 401, 404, 500, 502])
def test_other_refusals_are_answers_and_not_tried_again(status: int) -> None:
    def refuse(_request: Request, connection: Connection) -> bool:
        connection.answer(status, "no")
        return True

    with Weather(refuse) as server, Http(server.url, limits=FAST) as http:
        exchange = http.post("/completion", BODY)
        assert len(server.requests) == 1
    assert exchange.status == status


def test_a_redirect_is_not_followed() -> None:
    def away(_request: Request, connection: Connection) -> bool:
        connection.answer(307, "", Location="http://elsewhere.invalid/")
        return True

    with Weather(away) as server, Http(server.url, api_key=KEY) as http:
        assert http.get("/health").status == 307


def test_a_server_that_restarts_during_the_audit_is_waited_for() -> None:
    with Weather() as server, Http(server.url, limits=Limits(backoff_s=0.1)) as http:
        assert http.get("/health").status == 200
        server.stop()
        threading.Timer(0.4, server.start).start()
        exchange = http.get("/health")
    assert exchange.status == 200
    assert len(exchange.attempts) > 1


def test_the_api_key_is_sent_and_appears_nowhere_else() -> None:
    def echo(request: Request, connection: Connection) -> bool:
        in_json = request.headers["authorization"].replace("/", "\\/")
        connection.answer(400, f'{{"error": "got {request.headers["authorization"]} or {in_json}"}}')
        return True

    sink = MemorySink()
    with Weather(echo) as server, Http(server.url, api_key=KEY, sink=sink) as http:
        http.post("/completion", b'{"prompt": "' + KEY.encode() + b'"}')
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "secret" not in repr(sink.exchanges)
    assert sink.exchanges[0].answer.count("[api key]") == 2


def test_an_api_key_with_a_line_break_is_refused_without_repeating_it() -> None:
    with pytest.raises(UsageError) as caught:
        Http("http://127.0.0.1:1", api_key="secret\nX-Evil: 1")
    assert "secret" not in str(caught.value)


def test_bytes_that_are_not_utf8_are_noted() -> None:
    def latin(_request: Request, connection: Connection) -> bool:
        connection.answer(200, b'{"content": "caf\xe9"}')
        return True

    with Weather(latin) as server, Http(server.url) as http:
        exchange = http.get("/health")
    assert exchange.answer == '{"content": "caf�"}'
    assert exchange.attempts[0].outcome == "200, not UTF-8 at byte 16"


def test_the_reads_of_a_stream_are_timed() -> None:
    def slowly(_request: Request, connection: Connection) -> bool:
        connection.stream("data: 1\n\n", "data: 2\n\n", pause_s=0.05)
        return True

    with Weather(slowly) as server, Http(server.url) as http:
        exchange = http.get("/x")
    (first, n), (second, _) = exchange.events
    assert n == 9
    assert 0.04 < second - first < 1


def test_a_budget_of_requests_is_kept_exactly_by_many_threads() -> None:
    spent = []
    with Weather() as server, Http(server.url, budget=Budget(requests=20)) as http:

        def hammer() -> None:
            try:
                for _ in range(10):
                    http.get("/health")
            except BudgetSpent as e:
                spent.append(e)

        threads = [threading.Thread(target=hammer) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.requests) == http.requests == 20
    assert spent
    assert "budget of 20 requests" in str(spent[0])


def test_a_budget_of_seconds_is_kept() -> None:
    with Weather() as server, Http(server.url, budget=Budget(seconds=0.05)) as http:
        http.get("/health")
        time.sleep(0.06)
        with pytest.raises(BudgetSpent, match=r"0\.05 seconds"):
            http.get("/health")


def test_closing_ends_a_wait_between_attempts() -> None:
    with Weather(weather.busy(100, status=503)) as server, Http(server.url, limits=Limits(backoff_s=30)) as http:
        threading.Timer(0.1, http.close).start()
        began = time.monotonic()
        assert http.post("/completion", BODY).status == 503
        assert time.monotonic() - began < 5


def test_the_audit_is_told_of_every_request() -> None:
    told: list[int] = []
    with Weather() as server, Http(server.url, answered=lambda: told.append(1)) as http:
        http.get("/health")
        http.get("/nothing")
    assert len(told) == 2


def native_body() -> bytes:
    return (
        b'{"seed": 1, "n_predict": 1, "prompt": "a", "temperature": 1, "samplers": [], "n_probs": 0, "stream": false}'
    )


def test_https_on_a_port_of_plain_http_that_waits_names_the_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PROMPT_S", 0.1)
    monkeypatch.setattr(connections, "HANDSHAKE_S", 0.2)
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as listening:  # accepts, and waits for the end of a line as many servers do
        port = listening.getsockname()[1]
        with pytest.raises(Unreachable, match="does not speak TLS") as caught:
            require_listening(f"https://127.0.0.1:{port}")
    assert f"http://127.0.0.1:{port}" in caught.value.remedy


class WaitsForALine(socketserver.StreamRequestHandler):
    """Reads a whole head before it answers, with this status, to what is HTTP."""

    status = 404

    def handle(self) -> None:
        head = list(itertools.takewhile(lambda line: line not in (b"\r\n", b""), self.rfile))
        if head[0].startswith(b"HEAD"):
            self.wfile.write(f"HTTP/1.1 {self.status} Told\r\nContent-Length: 0\r\n\r\n".encode())


@pytest.mark.parametrize(("status", "within_s"), [(200, 2.0), (404, 2.0), (400, 60.0), (308, 60.0)])
def test_https_on_a_port_of_plain_http_that_waits_for_a_line_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, status: int, within_s: float
) -> None:
    monkeypatch.setattr(connections, "PROMPT_S", 0.1)
    monkeypatch.setattr(connections, "HANDSHAKE_S", 0.3 if within_s > 2 else 30.0)
    monkeypatch.setattr(WaitsForALine, "status", status)
    began = time.monotonic()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), WaitsForALine) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            port = server.server_address[1]
            with pytest.raises(Unreachable, match="does not speak TLS") as caught:
                require_listening(f"https://127.0.0.1:{port}")
        finally:
            server.shutdown()
    assert f"http://127.0.0.1:{port}" in caught.value.remedy
    assert (0.4 if within_s > 2 else 0.0) < time.monotonic() - began < within_s


def test_https_on_a_port_of_plain_http_that_answers_names_the_scheme() -> None:
    with Weather() as server, pytest.raises(Unreachable) as caught:
        require_listening(server.url.replace("http://", "https://"))
    assert server.url in caught.value.remedy


def test_a_host_that_accepts_no_connection_is_not_said_to_speak_http(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_args: object, **_more: object) -> socket.socket:
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", nowhere)
    with pytest.raises(Unreachable, match="did not accept a connection"):
        require_listening("https://127.0.0.1:9")


def test_listening_is_tried_without_a_request_and_once_more_for_a_restart() -> None:
    with Weather() as server:
        require_listening(server.url)
        assert server.requests == []
    with pytest.raises(Unreachable, match="No connection"):
        require_listening(server.url, FAST)
