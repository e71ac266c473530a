"""What passes: bytes as they are; and streams of logprobs from a server that should not speculate, looked at on the way."""

from __future__ import annotations

from typing import Any

from draftproof.gateway.answers import is_missing
from draftproof.gateway.asks import NATIVE, Wanted
from draftproof.gateway.contexts import Unknown
from draftproof.gateway.upstream import Upstream
from draftproof.gateway.wire import Incoming, Outgoing, data_of, end_to_end, events, marked
from draftproof.server.wire import EVENT_STREAM

_SEPARATOR = b"\n\n"


async def pass_on(upstream: Upstream, incoming: Incoming, out: Outgoing, mark: str = "passed") -> None:
    """The upstream's answer, byte for byte. When it breaks off: an error as the last event of a stream, a closed connection else.

    Raises Lost as long as the answer has not begun.
    """
    headers = incoming.forwarded(upstream.credentials)
    async with upstream.ask(incoming.method, incoming.target, headers, incoming.body) as response:
        streamed = EVENT_STREAM in response.headers.get("content-type", "")
        await out.start(
            response.status_code,
            [*end_to_end(response.headers.raw), *marked(f"{mark}; upstream={upstream.name}")],
        )
        rest = b""
        async for part in response.aiter_raw():
            upstream.observe(part)
            if streamed:  # whole events only, so that an error can follow them
                whole, separator, rest = (rest + part).rpartition(_SEPARATOR)
                await out.write(whole + separator)
            else:
                await out.write(part)
        await out.end(rest)


async def pass_checked(upstream: Upstream, wanted: Wanted, incoming: Incoming, out: Outgoing) -> None:
    """A stream with logprobs as it is. Raises Unknown at the first token that has none, Lost."""
    headers = incoming.forwarded(upstream.credentials)
    async with upstream.ask("POST", incoming.target, headers, incoming.body) as response:
        mark = marked(f"plain; upstream={upstream.name}")
        await out.start(response.status_code, [*end_to_end(response.headers.raw), *mark])
        async for one in events(response.aiter_bytes()):
            if response.status_code == 200 and not _has_logprobs(wanted, data_of(one)):
                raise Unknown(f"{upstream.name}, which was named as one without speculation, gave a token without them")
            await out.write(one)
        await out.end()


def _has_logprobs(wanted: Wanted, body: Any) -> bool:
    if not isinstance(body, dict):
        return True
    if wanted.route == NATIVE:
        return not body.get("content") or _real(body.get("completion_probabilities"))
    for choice in body.get("choices") or []:
        delta = choice.get("delta") or {}
        logprobs = choice.get("logprobs") or {}
        if (choice.get("text") or delta.get("content")) and not _real(logprobs.get("content")):
            return False
    return True


def _real(entries: object) -> bool:
    return isinstance(entries, list) and bool(entries) and not any(is_missing(e) for e in entries)
