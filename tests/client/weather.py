"""A small server on loopback that looks like llama-server and can be told to misbehave.

`Weather()` is fair: eight letters, all equally likely, text determined by the seed. `Weather(spoil)` lets `spoil` answer first: it
gets every request with its connection and returns True when it has dealt with it. Ready-made bad weather is at the end.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self, TypeAlias

LETTERS = "abcdefgh"
GENERATING = ("/completion", "/v1/completions", "/v1/chat/completions")


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.body) if self.body else {}
        return parsed

    @property
    def generates(self) -> bool:
        return self.path in GENERATING


class Connection:
    """Writes raw bytes; `drop` closes without a farewell."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.open = True

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def answer(self, status: int, body: str | bytes, content_type: str = "application/json", **headers: str) -> None:
        raw = body.encode() if isinstance(body, str) else body
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"Content-Type: {content_type}",
            f"Content-Length: {len(raw)}",
        ]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.raw("\r\n".join([*lines, "", ""]).encode() + raw)

    def stream(self, *events: str, end: bool = True, pause_s: float = 0.0) -> None:
        """A chunked event stream; without `end` the connection closes where it stands."""
        self.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in events:
            chunk = event.encode()
            self.raw(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            time.sleep(pause_s)
        if end:
            self.raw(b"0\r\n\r\n")
        else:
            self.drop()

    def raw_then_drop(self, data: bytes) -> None:
        self.raw(data)
        self.drop()

    def drop(self) -> None:
        self.open = False
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            self.sock.shutdown(socket.SHUT_RDWR)  # the reader still holds the socket: close alone would not end it
        self.sock.close()


Spoil: TypeAlias = Callable[[Request, Connection], bool]


def fair(_request: Request, _connection: Connection) -> bool:
    return False


class Weather:
    """`with Weather(spoil) as server: server.url`. `requests` are all that came; `slots` what /props claims."""

    def __init__(self, spoil: Spoil = fair, *, slots: int = 4, port: int = 0) -> None:
        self.spoil = spoil
        self.slots = slots
        self.requests: list[Request] = []
        self.connections: list[Connection] = []
        self.port = port
        self._listener: socket.socket | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        self._listener = listener = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.port = listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Drops every connection, as a crash does; `start` listens on the same port again."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in self.connections:
            connection.drop()
        self.connections.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(sock)
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with contextlib.suppress(OSError, ValueError), connection.sock.makefile("rb") as reader:
            while connection.open:
                head = reader.readline().decode().split()
                if len(head) != 3:
                    break
                headers: dict[str, str] = {}
                while line := reader.readline().decode().strip():
                    name, _, value = line.partition(":")
                    headers[name.strip().lower()] = value.strip()
                length = int(headers.get("content-length", "0"))
                body = reader.read(length)
                if len(body) < length:  # the client went away
                    break
                request = Request(head[0], head[1], headers, body)
                self.requests.append(request)
                if not self.spoil(request, connection):
                    answer_fairly(request, connection, self.slots)
        connection.sock.close()


def answer_fairly(request: Request, connection: Connection, slots: int = 4) -> None:
    simple: dict[str, Any] = {
        "/health": {"status": "ok"},
        "/props": {
            "default_generation_settings": {"n_ctx": 512, "params": {"speculative.types": "none"}},
            "total_slots": slots,
        },
        "/slots": [{"id": i, "n_ctx": 512, "speculative": False} for i in range(slots)],
        "/v1/models": {"data": [{"id": "letters", "owned_by": "llamacpp", "meta": {"n_vocab": 8}}]},
    }
    if request.method == "GET":
        known = request.path in simple
        connection.answer(
            200 if known else 404, json.dumps(simple.get(request.path, {"error": {"message": "File Not Found"}}))
        )
    elif request.path == "/tokenize":
        connection.answer(
            200, json.dumps({"tokens": [LETTERS.index(c) for c in request.json["content"] if c in LETTERS]})
        )
    elif request.path == "/completion":
        native(request.json, connection)
    elif request.generates:
        openai(request, connection)
    else:
        connection.answer(404, json.dumps({"error": {"message": "File Not Found"}}))


def letters(seed: int, n: int) -> list[int]:
    """The fair server's text for a seed, as ids."""
    generator = random.Random(seed)
    return [generator.randrange(8) for _ in range(n)]


def entry(token: int, alternatives: int) -> dict[str, Any]:
    def one(t: int) -> dict[str, Any]:
        return {"id": t, "token": LETTERS[t], "bytes": [ord(LETTERS[t])], "logprob": -math.log(8)}

    return {**one(token), "top_logprobs": [one(t) for t in range(min(alternatives, 8))]}


def native_answer(body: Mapping[str, Any], index: int = 0) -> dict[str, Any]:
    ids = letters(body["seed"] + index, body["n_predict"])
    answer = {
        "index": index,
        "content": "".join(LETTERS[t] for t in ids),
        "tokens": ids,
        "stop": True,
        "stop_type": "limit",
        "tokens_predicted": len(ids),
        "tokens_evaluated": len(body["prompt"]),
        "generation_settings": {
            "seed": body["seed"] + index,
            "temperature": body["temperature"],
            "samplers": body["samplers"],
        },
        "timings": {},
    }
    if body["n_probs"]:
        answer["completion_probabilities"] = [entry(t, body["n_probs"]) for t in ids]
    return answer


def native(body: Mapping[str, Any], connection: Connection) -> None:
    answers = [native_answer(body, i) for i in range(body.get("n_cmpl", 1))]
    if not body["stream"]:
        connection.answer(200, json.dumps(answers if len(answers) > 1 else answers[0]))
        return
    events = []
    for answer in answers:
        probabilities = answer.pop("completion_probabilities", [None] * len(answer["tokens"]))
        for token, probability in zip(answer["tokens"], probabilities, strict=True):
            event = {"index": answer["index"], "content": LETTERS[token], "tokens": [token], "stop": False}
            events.append(event | ({"completion_probabilities": [probability]} if probability else {}))
        events.append({**answer, "content": "", "tokens": []})
    connection.stream(*(f"data: {json.dumps(event)}\n\n" for event in events))


def openai(request: Request, connection: Connection) -> None:
    body = request.json
    chat = "messages" in body
    k = int(body.get("top_logprobs" if chat else "logprobs") or 0)
    choices = []
    for i in range(body.get("n", 1)):
        ids = letters(body.get("seed", 0) + i, body["max_tokens"])
        text = "".join(LETTERS[t] for t in ids)
        choice: dict[str, Any] = {"index": i, "finish_reason": "length"}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        choice["logprobs"] = {"content": [entry(t, k) for t in ids]} if k else None
        choices.append(choice)
    connection.answer(200, json.dumps({"choices": choices, "model": "letters"}))


# Bad weather. Each spoils generation only, so that a server is recognised before the storm, unless it says otherwise.


def _generating(action: Callable[[Request, Connection], None]) -> Spoil:
    def spoil(request: Request, connection: Connection) -> bool:
        if request.generates:
            action(request, connection)
        return request.generates

    return spoil


def _everything(action: Callable[[Request, Connection], None]) -> Spoil:
    def spoil(request: Request, connection: Connection) -> bool:
        action(request, connection)
        return True

    return spoil


_DEFAULTS: dict[str, Any] = {"seed": 0, "n_predict": 1, "prompt": [0], "temperature": 1, "samplers": [], "n_probs": 0}
HTML = (
    "<html><head><title>500</title><style>b {}</style></head><body><h1>Internal &amp; Server Error</h1></body></html>"
)

unauthorized = _everything(lambda _r, c: c.answer(401, '{"error": {"message": "Invalid API Key", "code": 401}}'))
unauthorized_generation = _generating(
    lambda _r, c: c.answer(401, '{"error": {"message": "Invalid API Key", "code": 401}}')
)
not_found = _everything(lambda _r, c: c.answer(404, "<h1>Not Found</h1>", "text/html"))
too_many = _generating(lambda _r, c: c.answer(429, '{"error": "slow down"}', Retry_After="120"))
html_500 = _generating(lambda _r, c: c.answer(500, HTML, "text/html"))
empty_body = _generating(lambda _r, c: c.answer(200, ""))
truncated_json = _generating(lambda r, c: c.answer(200, json.dumps(native_answer(_DEFAULTS | r.json))[:200]))
nan_in_json = _generating(lambda _r, c: c.answer(200, '{"content": "a", "tokens": [0], "x": NaN}'))
silence = _generating(lambda _r, _c: time.sleep(2.0))
dropped = _generating(lambda _r, c: c.raw_then_drop(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"))
hung_up = _generating(lambda _r, c: c.drop())
truncated_sse = _generating(
    lambda _r, c: c.stream('data: {"content": "a", "tokens": [0], "stop": false}\n\n', 'data: {"con')
)
no_http = _everything(lambda _r, c: c.raw_then_drop(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"))
no_llm = _everything(lambda _r, c: c.answer(200, "<h1>Welcome to nginx!</h1>", "text/html"))
key_echo = _generating(
    lambda r, c: c.answer(400, json.dumps({"error": {"message": f"bad header {r.headers.get('authorization')}"}}))
)


@_generating
def endless_body(_request: Request, connection: Connection) -> None:
    """200 MB, announced by no length."""
    connection.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(200):
        connection.raw(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
    connection.raw(b"0\r\n\r\n")


@_generating
def announced_body(_request: Request, connection: Connection) -> None:
    """200 MB, announced and never sent."""
    connection.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 209715200\r\n\r\n{")
    time.sleep(0.5)


@_generating
def eos_at_once(request: Request, connection: Connection) -> None:
    answer = native_answer({**_DEFAULTS, **request.json, "n_predict": 0}) | {"stop_type": "eos"}
    connection.answer(200, json.dumps(answer))


def busy(times: int, status: int = 429, retry_after: str = "0") -> Spoil:
    """Refuses to generate so many times, then is fair."""
    left = [times]
    lock = threading.Lock()

    def spoil(request: Request, connection: Connection) -> bool:
        with lock:
            refuse = request.generates and left[0] > 0
            left[0] -= refuse
        if refuse:
            connection.answer(
                status, '{"error": {"message": "busy"}}', **({"Retry_After": retry_after} if status == 429 else {})
            )
        return refuse

    return spoil


def few_alternatives(most: int) -> Spoil:
    """Refuses more than `most` alternatives, as OpenAI does."""

    def spoil(request: Request, connection: Connection) -> bool:
        body = request.json
        asked = body.get("n_probs") or body.get("top_logprobs") or body.get("logprobs") or 0
        refuse = request.generates and asked > most
        if refuse:
            connection.answer(400, json.dumps({"error": {"message": f"top_logprobs must be at most {most}"}}))
        return refuse

    return spoil
