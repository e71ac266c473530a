"""Answers made token by token: a request for one token is not speculated, so that each comes with its own logprob.

That costs one plain decoding; to re-score an answer costs one beside the speculated text. For requests without a seed only: each
token is drawn with a seed of its own, after the same tokens and by the same samplers, which gives the same law and not the same
text. Penalties look at the prompt too, and so at all tokens before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from draftproof.gateway.asks import COMPLETIONS, NATIVE, Wanted
from draftproof.gateway.contexts import Entry, Ids, Place
from draftproof.gateway.mending import Mender
from draftproof.gateway.prompts import way_of
from draftproof.gateway.retelling import Retold
from draftproof.gateway.wire import Outgoing, marked
from draftproof.server.wire import DONE, EVENT_STREAM, JSON, event, to_json

HOW = "made token by token: a request for one token is not speculated"
_SAMPLERS = frozenset(
    (
        *("temperature", "top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "dynatemp_range", "dynatemp_exponent"),
        *("repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty", "samplers", "min_keep"),
        *("logit_bias", "ignore_eos", "lora", "cache_prompt", "post_sampling_probs"),
    )
)
"""What acts on each token by itself, given those before."""
_OTHERS = frozenset(
    ("prompt", "n_predict", "max_tokens", "n_probs", "logprobs", "seed", "stream", "stream_options", "model", "user")
) | {"return_tokens", "stop", "n", "n_cmpl"}
_LONGEST = 4
"""Bytes of a character, and so tokens."""


@dataclass(slots=True)
class _Made:
    """An answer so far. `held`: tokens of a character that is not complete."""

    prompt: Ids
    ids: Ids = ()
    held: Ids = ()
    text: str = ""
    entries: list[Entry] = field(default_factory=list)
    first: Mapping[str, Any] = field(default_factory=dict)
    last: Mapping[str, Any] = field(default_factory=dict)
    busy_ms: float = 0.0


def budget(wanted: Wanted) -> int:
    """The most tokens of an answer, where it can be made token by token; else 0."""
    body = wanted.body
    most = [body[name] for name in ("n_predict", "max_tokens") if name in body]
    suits = (
        wanted.route in (NATIVE, COMPLETIONS)
        and body.keys() <= _SAMPLERS | _OTHERS
        and body.get("seed") in (None, -1)
        and not body.get("stop")
        and wanted.answers == len(wanted.prompts) == len(most) == 1
        and wanted.alternatives > 0
    )
    return most[0] if suits and type(most[0]) is int and most[0] > 0 else 0


async def answer_singly(mender: Mender, out: Outgoing) -> bool:
    """Whether it was answered: not where the upstream does not speculate, or scores prompts, which costs less.

    Raises Refusal, Lost.
    """
    upstream, most = mender.upstream, budget(mender.wanted)
    await mender.survey()
    if not most or upstream.kind != "llama_server" or not (upstream.speculates or upstream.drafted):
        return False
    prompt = await mender.prompt(0, None)
    if upstream.context is None or len(prompt) + most > upstream.context:
        return False
    if await way_of(upstream, mender.headers, mender.wanted, prompt) is not None:
        return False
    made = _Made(prompt)
    header = marked(f"singly; upstream={upstream.name}")
    retold = Retold.of(mender.wanted, upstream) if mender.wanted.route == COMPLETIONS else None
    if not mender.wanted.stream:
        async with upstream.turns:
            async for _ in _parts(mender, made, most):
                pass
        whole = _ending(mender, made, whole=True)
        whole = whole if retold is None else retold.ending(whole)
        await out.whole(200, to_json(whole), [(b"content-type", JSON.encode()), *header])
        return True
    head = [(b"content-type", EVENT_STREAM.encode()), *header]
    async with _ahead(mender, made, most) as parts:
        while (part := await parts.get()) is not None:
            if isinstance(part, Exception):
                raise part
            if not out.started:  # until then a refusal of the first token is an answer of its own
                await out.start(200, head)
            await out.write(event(part if retold is None else retold.part(part)))
    if not out.started:
        await out.start(200, head)
    last = _ending(mender, made, whole=False)
    await out.write(event(last if retold is None else retold.ending(last)))
    await out.end(b"" if retold is None else DONE)
    return True


@contextlib.asynccontextmanager
async def _ahead(
    mender: Mender, made: _Made, most: int
) -> AsyncIterator[asyncio.Queue[dict[str, Any] | Exception | None]]:
    """The events as they are made, however slowly the client reads them: a turn at the upstream must not wait for it."""
    parts: asyncio.Queue[dict[str, Any] | Exception | None] = asyncio.Queue()

    async def make() -> None:
        try:
            async with mender.upstream.turns:
                async for text, entry, token in _parts(mender, made, most):
                    parts.put_nowait(_part(made, text, entry, token))
            parts.put_nowait(None)
        except Exception as error:
            parts.put_nowait(error)

    making = asyncio.create_task(make())
    try:
        yield parts
    finally:
        making.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await making


async def _parts(mender: Mender, made: _Made, most: int) -> AsyncIterator[tuple[str, Entry | None, int]]:
    """The answer's characters, each with the entry of its last token, if it is complete, and the id of that."""
    scorer = mender.scorer(mender.wanted.alternatives)
    settings = {k: v for k, v in mender.wanted.body.items() if k in _SAMPLERS}
    asked = {**settings, "n_probs": mender.wanted.alternatives, "n_predict": 1, "return_tokens": True}
    while len(made.ids) < most and made.last.get("stop_type") != "eos":
        context = made.prompt + made.ids
        reuse = {"cache_prompt": True} if made.ids else {}
        made.last = answer = await scorer.one_token(context, asked | reuse)
        made.first = made.first or answer
        timings = answer.get("timings") or {}
        made.busy_ms += timings.get("predicted_ms", 0) + (timings.get("prompt_ms", 0) if made.ids else 0)
        (token,) = answer.get("tokens") or (None,)
        if token is None:
            break
        made.ids = (*made.ids, token)
        found = (answer.get("completion_probabilities") or [None])[0]
        if found is not None:
            scorer.checked(found)
        ends = answer.get("stop_type") == "eos"
        text = str(answer.get("content") or "")
        if made.held:
            text = await mender.tokenizer.text(made.held if ends else (*made.held, token))
        made.held = (*made.held, token)
        if found is None or (len(made.held) > 1 and text.endswith("\ufffd") and not ends):
            if len(made.ids) == most:
                found = None
            elif len(made.held) < _LONGEST:
                continue
            else:
                found = found or await scorer.score(Place(context, token, whole=False), await mender.anchor([]))
        ids, made.held = made.held, ()
        if found is not None and (len(ids) > 1 or "token" not in found):
            found = {"id": token, "token": text, "bytes": list(text.encode())} | {
                k: v for k, v in found.items() if k not in ("id", "token", "bytes")
            }
        made.text += text
        made.entries += [found] if found is not None else []
        yield text, found, token


def _part(made: _Made, text: str, entry: Entry | None, token: int) -> dict[str, Any]:
    told = {} if entry is None else {"completion_probabilities": [entry]}
    counts = {"tokens_predicted": len(made.ids), "tokens_evaluated": len(made.prompt)}
    return {"index": 0, "content": text, "tokens": [token], "stop": False, "id_slot": -1, **counts, **told}


def _ending(mender: Mender, made: _Made, *, whole: bool) -> dict[str, Any]:
    """The whole answer, or the last event of its stream."""
    n = len(made.ids)
    settings = dict(made.last.get("generation_settings") or {})
    settings |= dict.fromkeys(settings.keys() & {"n_predict", "max_tokens"}, budget(mender.wanted))
    ending = {
        **made.last,
        "content": made.text if whole else "",
        "tokens": list(made.ids) if whole and mender.wanted.body.get("return_tokens") else [],
        "prompt": made.first.get("prompt"),
        "tokens_predicted": n,
        "tokens_evaluated": len(made.prompt),
        "has_new_line": "\n" in made.text,
        "generation_settings": settings,
        "timings": _timings(made),
        "draftproof": mender.mark() | {"how": HOW, "requests": mender.spent},
    }
    ending.pop("completion_probabilities", None)
    return ending | ({"completion_probabilities": made.entries} if whole else {})


def _timings(made: _Made) -> dict[str, Any]:
    """The sums over the requests; the prompt's are those of the first."""
    given = made.first.get("timings")
    timings = dict(given) if isinstance(given, dict) else {}
    n = len(made.ids)
    speed = (
        {"predicted_per_token_ms": made.busy_ms / n, "predicted_per_second": 1000 * n / made.busy_ms}
        if made.busy_ms
        else {}
    )
    return timings | {"predicted_n": n, "predicted_ms": made.busy_ms, **speed}
