"""What every request has to pass: the key, and the question whether a foreign web page sent it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from draftproof.server.errors import Refusal, unauthorised
from draftproof.server.wire import answer, drain

PUBLIC = frozenset({"/", "/health", "/v1/health"})
"""Served without a key."""


class Guard:
    """ASGI middleware. `keys`: one of them must come as Bearer token or X-Api-Key, if there are any.

    `origins`: web pages from there may use the server ("*": from anywhere). Any other page is refused, for a browser would carry
    its requests to a server on loopback without asking anybody.
    """

    def __init__(self, app: ASGIApp, keys: Sequence[str] = (), origins: Sequence[str] = ()) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        allowed = origin is not None and ("*" in self._origins or origin in self._origins)
        if origin is not None and allowed:
            send = _with_origin(send, origin)  # refusals too, or the page could not read them
        refused = self._refusal(scope, headers, foreign=not allowed and _is_foreign(origin, headers.get("host", "")))
        if refused is not None:
            await drain(scope, receive)
            await answer(refused.body, refused.status)(scope, receive, send)
        elif allowed and scope["method"] == "OPTIONS":
            await _preflight(headers)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers, *, foreign: bool) -> Refusal | None:
        if foreign:
            return Refusal("Web pages of other origins are not served; see --cors-origin.", 403, "permission_error")
        if not self._keys or scope["path"] in PUBLIC or scope["method"] == "OPTIONS":
            return None
        said = headers.get("authorization", "")
        given = said[len("Bearer ") :] if said.startswith("Bearer ") else headers.get("x-api-key", "")
        matches = [secrets.compare_digest(given.encode(), key) for key in self._keys]
        return None if any(matches) else unauthorised()


def _is_foreign(origin: str | None, host: str) -> bool:
    return origin is not None and urlsplit(origin).netloc.lower() != host.lower()


def _preflight(asked: Headers) -> Response:
    """What an allowed page may send; "*" for the headers would leave Authorization out (Fetch standard, CORS protocol)."""
    preflight = answer({})
    wanted = asked.get("access-control-request-headers", "*")
    preflight.headers.update({"Access-Control-Allow-Methods": "GET, POST", "Access-Control-Allow-Headers": wanted})
    return preflight


def _with_origin(send: Send, origin: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message["headers"],
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"vary", b"Origin"),
            ]
        await send(message)

    return sending
