"""llama-server's own streams: every event is held until its token is scored, then sent on, in order. Those of /v1/completions are
asked for on its native route, and retold.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx2

from draftproof.gateway.answers import is_missing
from draftproof.gateway.asks import NATIVE
from draftproof.gateway.contexts import Entry, Ids, Place, Unknown, pieces_before
from draftproof.gateway.mending import Mender
from draftproof.gateway.retelling import Retold, native
from draftproof.gateway.scoring import Scorer, after
from draftproof.gateway.whole import body_for, hide_ids
from draftproof.gateway.wire import Incoming, Outgoing, data_of, end_to_end, events, marked
from draftproof.server.wire import DONE, EVENT_STREAM, event, to_json

_HELD = 256
"""Most events held: a client that reads slowly, or scores that lag, then slow the upstream down."""

Scoring: TypeAlias = "asyncio.Task[Entry] | None"


@dataclass(slots=True)
class _Answer:
    """One answer of the stream so far. `last`: the newest score, which the next one waits for: each adds one token to what a
    slot of the server has cached, beside the one that still makes the answer.
    """

    prompt: Ids | None = None
    ids: Ids = ()
    first: Entry | None = None
    anchor: int | None = None
    scorer: Scorer | None = None
    last: asyncio.Task[Entry] | None = None


async def answer_stream(mender: Mender, incoming: Incoming, out: Outgoing) -> None:
    """Asks, and sends the events on. Raises Refusal where a token cannot be re-scored, Lost, also after the answer has begun."""
    upstream = mender.upstream
    headers = incoming.forwarded(upstream.credentials)
    retold = None if mender.wanted.route == NATIVE else Retold.of(mender.wanted, upstream)
    target = incoming.target if retold is None else NATIVE
    body = body_for(mender.wanted, upstream) if retold is None else to_json(native(mender.wanted))
    async with upstream.ask("POST", target, headers, body) as response:
        mark = marked(f"rescoring; upstream={upstream.name}")
        head = [*end_to_end(response.headers.raw, changed=True), *mark]
        if EVENT_STREAM not in response.headers.get("content-type", ""):
            await out.whole(response.status_code, await response.aread(), head)
            return
        await out.start(response.status_code, head)
        queue: asyncio.Queue[tuple[Any, Scoring] | Exception | None] = asyncio.Queue(_HELD)
        reader = asyncio.create_task(_read(mender, response, queue))
        try:
            await _write(mender, queue, out, retold)
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader


async def _read(
    mender: Mender, response: httpx2.Response, queue: asyncio.Queue[tuple[Any, Scoring] | Exception | None]
) -> None:
    """Never raises: an error is put into the queue, behind the events before it."""
    answers: dict[int, _Answer] = {}
    try:
        ended = False
        async for one in events(response.aiter_bytes()):
            mender.upstream.observe(one)
            body = data_of(one)
            if isinstance(body, dict) and "tokens_predicted" in body:
                answer = answers.setdefault(body.get("index", 0), _Answer())
                await queue.put((body, await _scoring(mender, answer, body)))
                ended = ended or body.get("stop") is True
            else:
                await queue.put((one, None))
        await queue.put(None if ended else Unknown("the upstream ended its stream before the answer"))
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError):
            raise
        await queue.put(error)


async def _write(
    mender: Mender, queue: asyncio.Queue[tuple[Any, Scoring] | Exception | None], out: Outgoing, retold: Retold | None
) -> None:
    while (item := await queue.get()) is not None:
        if isinstance(item, Exception):
            raise item
        body, scoring = item
        if isinstance(body, bytes):
            await out.write(body)
            continue
        if scoring is not None:
            text = str(body.get("content") or "")
            found = await scoring
            named = {"id": found["id"], "token": text, "bytes": list(text.encode())}
            body["completion_probabilities"] = [named | {k: v for k, v in found.items() if k not in named}]
        if body.get("stop") is True:
            body["draftproof"] = mender.mark(body.get("index", 0))
        if retold is not None:
            body = retold.ending(body) if body.get("stop") is True else retold.part(body)
        await out.write(event(body))
    await out.end(b"" if retold is None else DONE)


async def _scoring(mender: Mender, answer: _Answer, body: dict[str, Any]) -> Scoring:
    """Notes the event's token, and starts to re-score it where its logprob is missing."""
    tokens, entries = body.get("tokens"), body.get("completion_probabilities")
    if body.get("stop") is True:
        if body.get("truncated"):
            raise Unknown("its context was shifted while it was made")
        hide_ids(mender.wanted, body)
        return None
    if not isinstance(tokens, list) or not tokens:
        return None
    token, text = tokens[-1], str(body.get("content") or "")
    new = body["tokens_predicted"] - len(answer.ids)
    if new < 1:
        raise Unknown("the upstream counts fewer tokens than it sends")
    before = await pieces_before({"id": token, "token": text}, mender.tokenizer.cut, new) if new > 1 else ()
    at = answer.ids + before
    answer.ids = (*at, token)
    if not before and text and answer.anchor is None:
        answer.anchor = token
    first = entries[0] if isinstance(entries, list) and entries else None
    if first is not None and not is_missing(first):
        answer.first = first if not at else answer.first
        return None
    index = body.get("index", 0)
    answer.prompt = answer.prompt or await mender.prompt(index, body.get("tokens_evaluated"))
    mender.fits(len(answer.prompt) + len(answer.ids))
    mender.rescored.setdefault(index, []).append(len(at))
    return await _start(mender, answer, Place(answer.prompt + at, token, not before))


async def _start(mender: Mender, answer: _Answer, place: Place) -> asyncio.Task[Entry]:
    assert answer.prompt is not None
    anchor = await mender.anchor([]) if answer.anchor is None else answer.anchor
    if answer.scorer is None:
        answer.scorer = mender.scorer(0)
        if answer.first is not None:
            start = Place(answer.prompt, answer.ids[0], whole=True)
            answer.last = asyncio.create_task(_check(answer.scorer, answer.first, start))
            mender.keep(answer.last)
    task = asyncio.create_task(after(answer.last, answer.scorer, place, anchor))
    answer.last = task
    mender.keep(task)
    return task


async def _check(scorer: Scorer, told: Entry, place: Place) -> Entry:
    found = await scorer.score(place, None)
    scorer.believe(told, found)
    return found
