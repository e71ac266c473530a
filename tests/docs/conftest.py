"""Real servers for the pages that show one, by the name that a page gives its blocks."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from draftproof.countable.files import write_pair
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel, Option

KEY = "correct-horse-battery"
OPTIONS: dict[str, dict[str, Option]] = {"broken": {"speculative.synth_len": 2.5}, "key": {"api_keys": [KEY]}}
DRAFTING = ("draft", "broken", "own")


class Servers:
    """Starts each server when it is first asked for."""

    def __init__(self, stack: ExitStack, pair: Path) -> None:
        self._stack, self._pair, self._urls = stack, pair, dict[str, str]()

    def url(self, mode: str, folder: Path) -> str:
        """Where the server of that mode listens; mode "own" serves the pair that the page wrote to `folder`/mine."""
        if mode == "own":
            return self._start(mode, folder / "mine")
        if mode not in self._urls:
            self._urls[mode] = self._start(mode, self._pair)
        return self._urls[mode]

    def _start(self, mode: str, pair: Path) -> str:
        if mode == "openai":
            return self._stack.enter_context(openai_only(self.url("plain", pair)))
        drafting = mode in DRAFTING
        server = LlamaWheel(
            pair / "target.gguf",
            draft=pair / "draft.gguf" if drafting else None,
            types=["draft-simple"] if drafting else [],
            options={**EXACT_NUMBERS, **OPTIONS.get(mode, {})},
        )
        return self._stack.enter_context(server).url


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    pair = tmp_path_factory.mktemp("pair")
    write_pair(pair)
    with ExitStack() as stack:
        yield Servers(stack, pair)


class OpenAIOnly(BaseHTTPRequestHandler):
    """Hands on what is under /v1/, hides the rest, and does not tell that it is llama.cpp."""

    protocol_version = "HTTP/1.1"
    upstream = ""

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, kind, answer = self._asked(body) if self.path.startswith("/v1/") else (404, "text/plain", b"")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.replace(b'"llamacpp"', b'"somebody"'))

    def _asked(self, body: bytes) -> tuple[int, str, bytes]:
        request = urllib.request.Request(self.upstream + self.path, body or None, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read()

    do_GET = do_POST = answer  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def openai_only(url: str) -> Iterator[str]:
    handler = type("Handler", (OpenAIOnly,), {"upstream": url})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
