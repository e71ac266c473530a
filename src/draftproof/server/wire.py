"""Bytes in and out: bodies with a limit, strict JSON, server-sent events."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from draftproof.server.errors import Refusal, too_large

JSON = "application/json; charset=utf-8"
MOST_DRAINED_BYTES = 64 << 20
SILENCE_S = 1.0


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


async def read_json(request: Request, limit_bytes: int) -> Any:
    """The body, whatever its content type says. Raises Refusal for one that is too large or no JSON."""
    body = await read_body(request.scope, request.receive, limit_bytes)
    try:
        return json.loads(body.decode("utf-8-sig"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise Refusal(f"The body is not valid UTF-8 (byte {error.start}).") from error
    except RecursionError as error:
        raise Refusal("The body is not valid JSON: it is nested too deeply.") from error
    except ValueError as error:
        raise Refusal(f"The body is not valid JSON: {error}.") from error


async def read_body(scope: Scope, receive: Receive, limit_bytes: int) -> bytes:
    """Raises Refusal for a body above the limit, ClientDisconnect for a client that leaves before it has sent it all."""
    said = Headers(scope=scope).get("content-length", "")
    if said.isdecimal() and int(said) > limit_bytes:
        await drain(scope, receive)
        raise too_large(limit_bytes)
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > limit_bytes:
            if more:
                await drain(scope, receive)
            raise too_large(limit_bytes)
    return b"".join(parts)


async def drain(scope: Scope, receive: Receive) -> None:
    """Reads the rest of a body that is refused: many a client reads no answer while it writes, and its connection would be reset.

    Not of a client that waits to be told to send it, and no more than `MOST_DRAINED_BYTES`, nor longer than it comes at once.
    """
    left = 0 if "expect" in Headers(scope=scope) else MOST_DRAINED_BYTES
    while left > 0:
        try:
            message = await asyncio.wait_for(receive(), SILENCE_S)
        except TimeoutError:
            return
        left -= len(message.get("body", b""))
        if not message.get("more_body", False):
            return


def to_json(value: Any) -> bytes:
    """Compact JSON. Lone surrogates, which UTF-8 cannot hold, become question marks."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def answer(value: Any, status: int = 200) -> Response:
    """A JSON response."""
    return Response(to_json(value), status, media_type=JSON)


def event(value: Any) -> bytes:
    """One server-sent event, in one line of data."""
    return b"data: " + to_json(value) + b"\n\n"


DONE = b"data: [DONE]\n\n"
EVENT_STREAM = "text/event-stream"
STREAM_HEADERS = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
