"""One request in, one answer out, as ASGI has them; and the events of a stream."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from draftproof.server.errors import Refusal
from draftproof.server.wire import EVENT_STREAM, JSON, event, read_body, to_json

MARK = "x-draftproof"
"""Header that says what the gateway did with an answer."""
EVENT_LIMIT = 64 << 20
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding")
)
_EVENT_END = re.compile(rb"\r?\n\r?\n")
_OURS = frozenset(("host", "content-length", "expect"))

HeaderList = list[tuple[bytes, bytes]]


class ClientGone(Exception):
    """The client closed its connection, or reads nothing any more."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request whose body is complete. `target`: path and query as the client wrote them."""

    method: str
    path: str
    target: str
    headers: Headers
    body: bytes

    def forwarded(self, credentials: HeaderList | None) -> HeaderList:
        """The headers for an upstream, with these credentials in place of the client's; None: with the client's."""
        dropped = _HOP_BY_HOP | _OURS | (set() if credentials is None else {"authorization", "x-api-key"})
        kept = [(name, value) for name, value in self.headers.raw if name.decode("latin-1").lower() not in dropped]
        return kept + (credentials or [])


async def read(scope: Scope, receive: Receive, limit_bytes: int) -> Incoming:
    """Raises Refusal for a body above the limit, ClientGone for a client that leaves before it has sent it all."""
    try:
        body = await read_body(scope, receive, limit_bytes)
    except ClientDisconnect as error:
        raise ClientGone from error
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope.get("query_string", b"")
    target = (path + b"?" + query if query else path).decode("latin-1")
    return Incoming(scope["method"], scope["path"], target, Headers(scope=scope), body)


def end_to_end(headers: Iterable[tuple[bytes, bytes]], *, changed: bool = False) -> HeaderList:
    """The headers of an upstream's answer that belong to the answer; of a `changed` one not those of its old body."""
    dropped = _HOP_BY_HOP | ({"content-length", "content-encoding", "etag"} if changed else set())
    return [(name, value) for name, value in headers if name.decode("latin-1").lower() not in dropped]


class Outgoing:
    """The answer to one request. `patience_s`: how long a client may take for one write before it counts as gone."""

    def __init__(self, send: Send, patience_s: float) -> None:
        self._send = send
        self._patience_s = patience_s
        self.started = False
        self.events = False

    async def start(self, status: int, headers: HeaderList) -> None:
        self.started = True
        self.events = any(n.lower() == b"content-type" and EVENT_STREAM.encode() in v for n, v in headers)
        await self._write({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, part: bytes) -> None:
        if part:
            await self._write({"type": "http.response.body", "body": part, "more_body": True})

    async def end(self, part: bytes = b"") -> None:
        await self._write({"type": "http.response.body", "body": part, "more_body": False})

    async def whole(self, status: int, body: bytes, headers: HeaderList) -> None:
        await self.start(status, [*headers, (b"content-length", str(len(body)).encode())])
        await self.end(body)

    async def json(self, status: int, value: Any, mark: str = "") -> None:
        await self.whole(status, to_json(value), [(b"content-type", JSON.encode()), *marked(mark)])

    async def refuse(self, refusal: Refusal) -> None:
        """The refusal as the answer, or as the last event of a stream that has begun."""
        if not self.started:
            await self.json(refusal.status, refusal.body, "refused")
        else:
            await self.end(event(refusal.body))

    async def _write(self, message: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._send(message)
        except (TimeoutError, OSError) as error:
            raise ClientGone from error


def marked(mark: str) -> HeaderList:
    return [(MARK.encode(), mark.encode())] if mark else []


async def events(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The whole events of a stream, each with the empty line that ends it. Raises Refusal for one beyond all measure.

    What follows the last empty line is given too, if anything does.
    """
    rest = b""
    async for part in parts:
        rest += part
        end = 0
        for match in _EVENT_END.finditer(rest):
            yield rest[end : match.end()]
            end = match.end()
        rest = rest[end:]
        if len(rest) > EVENT_LIMIT:
            raise Refusal("An event of the upstream's stream is too large.", 502, "upstream_error")
    if rest:
        yield rest


def data_of(one: bytes) -> Any:
    """The object in an event; None where there is none. Raises Refusal for what is no JSON."""
    lines = [line[5:].strip() for line in one.splitlines() if line.startswith(b"data:")]
    data = b"\n".join(lines)
    return None if not data or data == b"[DONE]" else parsed(data)


def parsed(body: bytes) -> Any:
    """Raises Refusal for an upstream's body that is no JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal("The upstream's answer is not valid JSON.", 502, "upstream_error") from error
