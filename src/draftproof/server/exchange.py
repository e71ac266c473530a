"""One request for text from its ticket to its answer: whole or streamed, given up when the client leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from draftproof.server.jobs import Choice, Event, Ticket
from draftproof.server.wire import STREAM_HEADERS, answer, event
from draftproof.server.worker import Worker

NOBODY = 499
"""Status for a client that left: nobody reads it, logs do."""


class Form(Protocol):
    """How a route words its answers."""

    def whole(self, ticket: Ticket) -> Any:
        """The body of an answer that is not streamed."""
        ...

    def opening(self, choice: Choice) -> Any | None:
        """The first event of a choice, if it has one of its own."""
        ...

    def parts(self, event: Event, now_s: float) -> Iterator[Any]:
        """Events for tokens."""
        ...

    def closing(self, choice: Choice) -> Any:
        """The last event of a choice."""
        ...

    def ending(self, ticket: Ticket) -> Iterator[bytes]:
        """What comes after the last event of the last choice."""
        ...


async def respond(request: Request, worker: Worker, ticket: Ticket, form: Form) -> Response:
    """Raises Refusal when the request cannot be served; a stream that has begun ends with an event that says so."""
    worker.submit(ticket)
    if not ticket.settings.stream:
        return await _whole(request, worker, ticket, form)
    try:
        first = await _next(request, ticket)
        if first is None:
            worker.cancel(ticket)
            return Response(status_code=NOBODY)
        if first.error is not None:
            raise first.error
    except BaseException:
        worker.cancel(ticket)
        raise
    events = _events(worker, ticket, form, first)
    return StreamingResponse(events, headers=dict(STREAM_HEADERS))


async def _whole(request: Request, worker: Worker, ticket: Ticket, form: Form) -> Response:
    unfinished = len(ticket.choices)
    try:
        while unfinished:
            got = await _next(request, ticket)
            if got is None:
                return Response(status_code=NOBODY)
            if got.error is not None:
                raise got.error
            unfinished -= got.done
        return answer(form.whole(ticket))
    finally:
        if unfinished:
            worker.cancel(ticket)


async def _next(request: Request, ticket: Ticket) -> Event | None:
    """The next event; None when the client left before it came."""
    if not ticket.events.empty():
        return ticket.events.get_nowait()
    coming = asyncio.ensure_future(ticket.events.get())
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({coming, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        coming.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(worker: Worker, ticket: Ticket, form: Form, first: Event) -> AsyncIterator[bytes]:
    """The bytes of a stream, in pieces as large as what became known at once."""
    unfinished = len(ticket.choices)
    try:
        for choice in ticket.choices:
            if (opening := form.opening(choice)) is not None:
                yield event(opening)
        got = first
        while True:
            if got.error is not None:
                yield event(got.error.body)
                return
            chunks = [event(part) for part in form.parts(got, time.perf_counter())]
            if got.done:
                unfinished -= 1
                chunks.append(event(form.closing(got.choice)))
            if chunks:
                yield b"".join(chunks)
            if not unfinished:
                break
            got = await ticket.events.get()
        for chunk in form.ending(ticket):
            yield chunk
    finally:
        if unfinished:
            worker.cancel(ticket)
