"""Servers that refuse, break off or talk nonsense, met with the real client: message, remedy, exit code, evidence."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from draftproof.cli.main import cli

KEY = "sk-very-secret-key"


class Weather(ThreadingHTTPServer):
    """Gives every request the same answer, or none."""

    status = 200
    body = b""
    promised = 0
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def answer(self) -> None:
        server = self.server
        assert isinstance(server, Weather)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(server.status)
        body = server.body.replace(b"KEY", self.headers.get("Authorization", "").encode())
        self.send_header("Content-Length", str(server.promised or len(body)))
        for name, value in server.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Weather]:
    weather = Weather(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=weather.serve_forever, args=(0.01,))
    thread.start()
    yield weather
    weather.shutdown()
    thread.join()
    weather.server_close()


def check(server: Weather, *args: str) -> Result:
    return CliRunner().invoke(cli, ["check", server.url, *args], env={"LLM_KEY": KEY})


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, b'{"error": "no key"}', "--api-key-env"),
        (404, b"", "not like an LLM server"),
        (500, b"<html><h1>Oops \x1b[2J</h1></html>", "not like an LLM server"),
        (200, b"", "not like an LLM server"),
        (200, b"[NaN]", "not like an LLM server"),
        (200, b'{"data": [', "not like an LLM server"),
    ],
)
def test_server_that_is_none_ends_with_3_and_a_remedy(
    server: Weather, tmp_path: Path, status: int, body: bytes, message: str
) -> None:
    server.status, server.body = status, body
    path = tmp_path / "e.jsonl.gz"
    result = check(server, "--out", str(path))
    assert result.exit_code == 3
    assert message in result.stderr
    assert f"What was exchanged is in {path}" in result.stderr
    assert "Traceback" not in result.output
    assert "\x1b" not in result.output
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert {r["kind"] for r in records} == {"header", "exchange"}


def test_answer_that_breaks_off_is_told(server: Weather, tmp_path: Path) -> None:
    server.body, server.promised = b'{"half', 1000
    result = check(server, "--out", str(tmp_path / "e.gz"), "--timeout", "0.5")
    assert result.exit_code in {3, 4}
    assert "Traceback" not in result.output
    assert len(result.stderr.splitlines()) == 2


def test_key_is_never_written_even_when_the_server_echoes_it(server: Weather, tmp_path: Path) -> None:
    server.status, server.body = 401, b'{"error": {"message": "wrong key: KEY"}}'
    path = tmp_path / "e.jsonl.gz"
    result = check(server, "--api-key-env", "LLM_KEY", "--out", str(path), "--json", "-", "-v")
    assert result.exit_code == 3
    assert KEY not in result.output + gzip.decompress(path.read_bytes()).decode()
    assert json.loads(result.stdout)["exit_code"] == 3


def test_key_that_is_not_set_is_wrong_usage_before_the_first_request(server: Weather, tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl.gz"
    result = check(server, "--api-key-env", "NO_SUCH_KEY", "--out", str(path))
    assert result.exit_code == 2
    assert "'NO_SUCH_KEY' is not set" in result.stderr
    assert not path.exists()


def test_nobody_there_ends_with_4(server: Weather, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["check", "http://127.0.0.1:9"])
    assert result.exit_code == 4
    assert "Is the server running" in result.stderr


def test_evidence_in_a_folder_that_is_not_there_is_wrong_usage(server: Weather) -> None:
    result = check(server, "--out", "/no/such/folder/e.gz")
    assert result.exit_code == 2
    assert "/no/such/folder/e.gz" in result.stderr


def test_spent_budget_ends_with_3(server: Weather, tmp_path: Path) -> None:
    result = check(server, "--budget", "requests=2", "--out", str(tmp_path / "e.gz"))
    assert result.exit_code == 3
    assert "--budget" in result.stderr
