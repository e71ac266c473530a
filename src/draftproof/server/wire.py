"""Bytes in and out: bodies with a limit, strict JSON, server-sent events."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from starlette.requests import Request
from starlette.responses import Response

from draftproof.server.errors import Refusal, too_large

JSON = "application/json; charset=utf-8"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


async def read_json(request: Request, limit_bytes: int) -> Any:
    """The body, whatever its content type says. Raises Refusal for one that is too large or no JSON."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit_bytes:
            raise too_large(limit_bytes)
        parts.append(part)
    try:
        return json.loads(b"".join(parts).decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise Refusal(f"The body is not valid UTF-8 (byte {error.start}).") from error
    except RecursionError as error:
        raise Refusal("The body is not valid JSON: it is nested too deeply.") from error
    except ValueError as error:
        raise Refusal(f"The body is not valid JSON: {error}.") from error


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
