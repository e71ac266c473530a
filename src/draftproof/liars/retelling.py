"""Answers told otherwise on their way to the client: whole bodies, events of streams, texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from draftproof.server.errors import Refusal
from draftproof.server.wire import EVENT_STREAM, answer


@dataclass(slots=True)
class Telling:
    """One body, or one event of a stream, about to be sent.

    `asked` is the request's body, {} without one; `told` the object, or the text where it is no JSON. `before` are the events
    of this stream so far, as they would have been; `kept` outlives requests.
    """

    path: str
    asked: dict[str, Any]
    told: Any
    before: list[Any] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    follows: bool = False

    @property
    def event(self) -> bool:
        """Whether this is an event of a stream."""
        return bool(self.asked.get("stream"))


Retell: TypeAlias = Callable[[Telling], Any]
"""What is sent in place of `told`; None: nothing. Raises Failure for an error of the server."""


Reask: TypeAlias = Callable[[str, dict[str, Any]], dict[str, Any]]
"""(path, body) to the body that is served in its place. Raises Refusal."""


Join: TypeAlias = Callable[[list[Any]], list[Any]]
"""Events of a stream that became known at once, to those that are told."""


class Failure(Exception):
    """An answer of status 500."""


class Retelling:
    """The application, with `reask` before it and `retell` between it and the client. `join` comes before `retell`.

    paths: our route for one of the client's; "": it is not there.
    """

    def __init__(self, app: ASGIApp, retell: Retell, reask: Reask, join: Join, paths: Mapping[str, str]) -> None:
        self._app = app
        self._retell = retell
        self._reask = reask
        self._join = join
        self._paths = paths
        self._kept: dict[str, Any] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        body = await _whole(receive)
        asked = _asked(body)
        if asked:
            try:
                body = _to_json(self._reask(path, dict(asked)))
            except Refusal as refused:
                await answer(refused.body, refused.status)(scope, receive, send)
                return
        sent = False

        async def again() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        ours = {**scope, "path": self._paths.get(path, path) or "/there-is-no-such-route"}
        await self._app(
            ours, again, _Sender(send, self._retell, self._join, Telling(path, asked, None, kept=self._kept))
        )


class _Sender:
    """Holds a body back until it is complete; events go out as they come."""

    def __init__(self, send: Send, retell: Retell, join: Join, telling: Telling) -> None:
        self._send = send
        self._retell = retell
        self._join = join
        self._telling = telling
        self._start: MutableMapping[str, Any] = {}
        self._kind = ""
        self._held = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = dict(message)
            self._kind = dict(message["headers"]).get(b"content-type", b"").decode()
            if self._streams:
                await self._send(message)
            return
        self._held += message.get("body", b"")
        more = message.get("more_body", False)
        if self._streams:
            *events, self._held = self._held.split(b"\n\n")
            await self._send({"type": "http.response.body", "body": self._told(events), "more_body": more})
        elif not more:
            told = self._all()
            headers = [(name, value) for name, value in self._start["headers"] if name != b"content-length"]
            length = (b"content-length", str(len(told)).encode())
            await self._send({**self._start, "headers": [*headers, length]})
            await self._send({"type": "http.response.body", "body": told, "more_body": False})

    @property
    def _streams(self) -> bool:
        return self._kind.startswith(EVENT_STREAM)

    def _all(self) -> bytes:
        if self._start["status"] != 200:
            return self._held
        text = self._held.decode()
        told = json.loads(text) if "json" in self._kind else text
        try:
            new = self._tell(told)
        except Failure as failure:
            self._start["status"] = 500
            new = {"error": {"code": 500, "message": str(failure), "type": "server_error"}}
        return str(new).encode() if isinstance(new, str) else _to_json(new)

    def _told(self, events: list[bytes]) -> bytes:
        """Events that became known at once; what is no object, the sign that nothing follows, comes last."""
        data = [event.removeprefix(b"data: ") for event in events]
        objects = self._join([json.loads(event) for event in data if event.startswith(b"{")])
        others = [event for event, what in zip(events, data, strict=True) if not what.startswith(b"{")]
        told = []
        for n, event in enumerate(objects):
            self._telling.follows = n + 1 < len(objects)
            new = self._tell(event)
            self._telling.before.append(event)
            told += [] if new is None else [b"data: " + _to_json(new)]
        return b"".join(event + b"\n\n" for event in (*told, *others))

    def _tell(self, told: Any) -> Any:
        self._telling.told = json.loads(json.dumps(told))
        return self._retell(self._telling)


async def _whole(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if not message.get("more_body", False):
            return body


def _asked(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body) if body else {}
    except ValueError:
        return {}
    return asked if isinstance(asked, dict) else {}


def _to_json(value: Any) -> bytes:
    text: str = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")
