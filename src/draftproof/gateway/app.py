"""The gateway as an ASGI application: which way each request takes, and errors in the API's form."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from draftproof.gateway.asks import NATIVE, Unscorable, Wanted, wanted
from draftproof.gateway.mending import Mender
from draftproof.gateway.passing import pass_checked, pass_on
from draftproof.gateway.reports import answer_props
from draftproof.gateway.singly import answer_singly
from draftproof.gateway.stream import answer_stream
from draftproof.gateway.upstream import Fleet, Lost, Upstream
from draftproof.gateway.whole import answer_whole
from draftproof.gateway.wire import ClientGone, Incoming, Outgoing, read
from draftproof.server.errors import Refusal
from draftproof.server.guard import Guard

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """keys: of its own, which clients must send; empty: theirs go on to the upstream. lanes: see `mending.Mender`.

    patience_s: how long a client may take for one write.
    """

    keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    body_limit: int = 16 << 20
    lanes: int = 1
    patience_s: float = 120.0


class Gateway:
    """`fleet` answers; requests for logprobs go to `plain`, servers without speculation, if there are any."""

    def __init__(self, fleet: Fleet, plain: Fleet | None, options: Options) -> None:
        self._fleet = fleet
        self._plain = plain
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        fleets = [fleet for fleet in (self._fleet, self._plain) if fleet is not None]
        await receive()
        watching = [asyncio.create_task(fleet.watch()) for fleet in fleets]
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in watching:
            task.cancel()
        for fleet in fleets:
            await fleet.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        out = Outgoing(send, self._options.patience_s)
        try:
            incoming = await read(scope, receive, self._options.body_limit)
        except ClientGone:
            return
        except Refusal as refusal:
            await out.refuse(refusal)
            return
        work = asyncio.create_task(self._answer(incoming, out))
        gone = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not work.done():  # the client has left: so does the request to the upstream
                work.cancel()
            with contextlib.suppress(asyncio.CancelledError, ClientGone):
                await work

    async def _answer(self, incoming: Incoming, out: Outgoing) -> None:
        try:
            try:
                await self._on_one(incoming, out)
            except Refusal as refusal:
                if isinstance(refusal, Lost):
                    log.warning("A request failed: %s", refusal.message)
                if out.started and not out.events:
                    raise  # only a closed connection still says that the answer is not whole
                await out.refuse(refusal)
        except (ClientGone, Refusal):
            raise
        except Exception as error:
            log.exception("A request failed.")
            if out.started and not out.events:
                raise
            await out.refuse(Refusal(f"The gateway failed: {type(error).__name__}.", 500, "server_error"))

    async def _on_one(self, incoming: Incoming, out: Outgoing) -> None:
        """One upstream for the whole request: the first that can be reached. Raises Refusal, Lost."""
        fleet, ask, mark = self._fleet, None, "passed"
        try:
            ask = wanted(incoming)
            if ask is not None and self._plain is not None:
                fleet = self._plain
        except Unscorable:
            if self._plain is None:
                raise
            fleet, mark = self._plain, "plain"
        order = fleet.order()
        for n, upstream in enumerate(order):
            try:
                await self._on(upstream, ask, incoming, out, mark)
            except Lost as lost:
                if lost.status != 503 or out.started or n == len(order) - 1:
                    raise
            else:
                return

    async def _on(self, upstream: Upstream, ask: Wanted | None, incoming: Incoming, out: Outgoing, mark: str) -> None:
        if ask is None:
            if incoming.method == "GET" and incoming.path == "/props":
                await answer_props(upstream, incoming, out)
            else:
                await pass_on(upstream, incoming, out, mark)
            return
        if self._plain is not None and ask.stream:
            await pass_checked(upstream, ask, incoming, out)
            return
        headers = incoming.forwarded(upstream.credentials)
        scoring = [(k, v) for k, v in headers if k.lower() in (b"authorization", b"x-api-key")]
        scoring.append((b"content-type", b"application/json"))
        async with Mender(upstream, scoring, ask, self._options.lanes) as mender:
            if self._plain is None and await answer_singly(mender, out):
                return
            if ask.stream and (ask.route == NATIVE or await mender.retells()):
                await answer_stream(mender, incoming, out)
            else:
                await answer_whole(mender, incoming, out)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def create_app(fleet: Fleet, plain: Fleet | None, options: Options) -> ASGIApp:
    """The gateway behind its guard."""
    return Guard(Gateway(fleet, plain, options), options.keys, options.origins)
