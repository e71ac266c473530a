"""Answers that come whole: logprobs in place of placeholders; and OpenAI's streams, told from such an answer.

Of a drafted token an OpenAI stream of llama-server gives the text and no id, from which the tokens cannot be known for certain. So
the upstream is asked for the whole answer, which has ids, and its events are told as they are scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from draftproof.gateway.answers import Told, told
from draftproof.gateway.asks import CHAT, GENERATE, NATIVE, Wanted
from draftproof.gateway.mending import Mender
from draftproof.gateway.upstream import Upstream
from draftproof.gateway.wire import Incoming, Outgoing, end_to_end, marked, parsed
from draftproof.server.wire import DONE, EVENT_STREAM, event, to_json


def body_for(wanted: Wanted, upstream: Upstream) -> bytes:
    """The request as the upstream gets it: with token ids in the answer, and whole but for llama-server's own streams."""
    body = dict(wanted.body)
    if wanted.route == NATIVE:
        body["return_tokens"] = True
        return to_json(body)
    body.pop("stream_options", None)
    body["stream"] = False
    if upstream.kind == "vllm":
        body["return_token_ids"] = True
    if wanted.route == GENERATE:
        body["return_text_in_logprobs"] = True
    if _is_bare(wanted, upstream):  # without alternatives a placeholder could not be told from a value
        body["top_logprobs_num" if wanted.route == GENERATE else "top_logprobs"] = 1
    return to_json(body)


async def answer_whole(mender: Mender, incoming: Incoming, out: Outgoing) -> None:
    """Asks, mends, answers. Raises Refusal where it cannot be mended, Lost."""
    upstream, wanted = mender.upstream, mender.wanted
    headers = incoming.forwarded(upstream.credentials)
    await mender.survey()
    response, raw = await upstream.whole("POST", incoming.target, headers, body_for(wanted, upstream))
    head = end_to_end(response.headers.raw, changed=True)
    if response.status_code != 200:
        await out.whole(response.status_code, raw, [*head, *marked(mender.header())])
        return
    upstream.observe(raw)
    answer = parsed(raw)
    answers = told(wanted, answer)
    for one in answers:
        one.bare = _is_bare(wanted, upstream)
        await mender.begin(one)
    if wanted.stream and wanted.route != NATIVE:
        head = [(name, value) for name, value in head if name.lower() != b"content-type"]
        await out.start(200, [*head, (b"content-type", EVENT_STREAM.encode()), *marked(mender.header())])
        await (_tell_at_once if wanted.route == GENERATE else _tell)(mender, answer, answers, out)
        return
    for one in answers:
        for n in range(len(one.entries)):
            await one.entry(n)
    hide_ids(wanted, answer)
    if isinstance(answer, list):
        for n, part in enumerate(answer):
            part["draftproof"] = mender.mark(part.get("index", n))
    else:
        answer["draftproof"] = mender.mark()
    await out.whole(200, to_json(answer), [*head, *marked(mender.header())])


def _is_bare(wanted: Wanted, upstream: Upstream) -> bool:
    """llama-server gives alternatives to all who ask for logprobs."""
    return not upstream.has_oracle and wanted.route in (CHAT, GENERATE) and not wanted.alternatives


def hide_ids(wanted: Wanted, answer: Any) -> None:
    """Takes out the ids that only the gateway asked for."""
    for one in answer if isinstance(answer, list) else [answer]:
        if wanted.route == NATIVE and not wanted.body.get("return_tokens") and "tokens" in one:
            one["tokens"] = []
        if not wanted.body.get("return_token_ids"):
            for part in (one, *(one.get("choices") or [])):
                part.pop("token_ids", None)
                part.pop("prompt_token_ids", None)


async def _tell_at_once(mender: Mender, answer: Any, answers: list[Told], out: Outgoing) -> None:
    """SGLang's events hold the whole answer so far: the last one is enough."""
    for part, one in zip(answer if isinstance(answer, list) else [answer], answers, strict=True):
        for n in range(len(one.entries)):
            await one.entry(n)
        index = {"index": one.index} if len(answers) > 1 else {}
        await out.write(event({**part, **index, "draftproof": mender.mark(one.index)}))
    await out.end(DONE)


async def _tell(mender: Mender, answer: dict[str, Any], answers: list[Told], out: Outgoing) -> None:
    """The events that llama-server would have sent, each as soon as its token is scored."""
    wanted = mender.wanted
    hide_ids(wanted, answer)
    frame = {k: v for k, v in answer.items() if k not in ("choices", "usage", "timings", "object")}
    frame["object"] = "chat.completion.chunk" if wanted.route == CHAT else answer.get("object")

    async def say(choices: list[dict[str, Any]], **more: Any) -> None:
        await out.write(event({"choices": choices, **frame, **more}))

    options = wanted.body.get("stream_options")
    usage = isinstance(options, dict) and options.get("include_usage") is True
    ending = {name: answer[name] for name in ("usage", "timings") if name in answer}
    for number, (choice, one) in enumerate(zip(answer["choices"], answers, strict=True)):
        last = number == len(answers) - 1
        if wanted.route == CHAT:
            await say([_delta(one.index, {"role": "assistant", "content": None})])
        at = 0
        for part, entries in _parts(choice, one, wanted.route):
            for n in range(at, at + entries):
                await one.entry(n)
            logprobs = _slice(choice.get("logprobs"), at, at + entries)
            at += entries
            if wanted.route == CHAT and not any(part.values()):
                continue  # llama-server sends no event for a token without text, such as the end
            if wanted.route == CHAT:
                await say([_delta(one.index, part) | ({"logprobs": logprobs} if logprobs else {})])
            else:
                await say([{**part, "index": one.index, "logprobs": logprobs, "finish_reason": None}])
        final = ending if last and (wanted.route != CHAT or not usage) else {}
        if wanted.route == CHAT and not usage:
            final = {k: v for k, v in final.items() if k != "usage"}
        mark = {"draftproof": mender.mark()} if last else {}
        finish = choice.get("finish_reason")
        if wanted.route == CHAT:
            await say([_delta(one.index, {}) | {"finish_reason": finish}], **final, **mark)
        else:
            await say([{"text": "", "index": one.index, "logprobs": None, "finish_reason": finish}], **final, **mark)
    if wanted.route == CHAT and usage:
        await say([], **ending)
    await out.end(DONE)


def _slice(logprobs: Any, start: int, end: int) -> dict[str, Any] | None:
    """The logprobs of some tokens, of whatever lists there are."""
    if not isinstance(logprobs, dict) or start == end:
        return None
    return {name: values[start:end] for name, values in logprobs.items() if isinstance(values, list)}


def _delta(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"finish_reason": None, "index": index, "delta": delta}


def _parts(choice: dict[str, Any], one: Told, route: str) -> Iterator[tuple[dict[str, Any], int]]:
    """The answer in parts, each with the number of logprob entries that belong to it: one token each where its text is that of its
    tokens, else (tools, thoughts) all at once.
    """
    message = choice.get("message") if route == CHAT else choice
    message = message if isinstance(message, dict) else {}
    name = "content" if route == CHAT else "text"
    text = message.get(name)
    others = {k: v for k, v in message.items() if k not in ("role", name) and v} if route == CHAT else {}
    pieces = [str(entry.get("token") or "") for entry in one.entries]
    joined = "".join(pieces)
    if others or not isinstance(text, str) or not (joined.startswith(text) or text.startswith(joined)):
        calls = others.get("tool_calls")
        if isinstance(calls, list):
            others["tool_calls"] = [{"index": i, **call} for i, call in enumerate(calls)]
        yield {**others, **({name: text} if text else {})}, len(one.entries)
        return
    left = text
    for piece in pieces:
        part, left = left[: len(piece)], left[len(piece) :]
        yield {name: part}, 1
    if left:
        yield {name: left}, 0
