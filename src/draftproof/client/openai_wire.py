"""The shape of OpenAI's two routes, which nearly every server has: how answers and streams are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftproof.client.answers import (
    Partial,
    StreamError,
    all_answers,
    broken_off,
    flatten,
    refusal,
    single,
    stream_objects,
)
from draftproof.client.tokens import content_records, legacy_records, prompt_records
from draftproof.client.wire import Field, answer_json
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.exchange import Exchange
from draftproof.core.tokens import TokenRecord

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
HIDDEN = "usage.reasoning_tokens"
_CLAIMED = ("model", "system_fingerprint", "speculation", "ignored", "generation_settings")
_DRAFTED = ("draft_n", "num_draft_tokens", "total_draft_tokens_count", "spec_num_proposed_drafts")
_ACCEPTED = ("draft_n_accepted", "num_accepted_draft_tokens", "accepted_draft_tokens_count", "spec_num_correct_drafts")
"""Drafts of one answer in the words of llama-server, vLLM, LM Studio, SGLang; `_COUNTED` is where they stand."""
_COUNTED = (
    ("timings",),
    ("metrics", "speculative_decoding"),
    ("stats",),
    ("usage",),
    ("sglext", "spec_tokens_details"),
)


def parse_openai(ask: Ask, exchange: Exchange) -> list[Completion]:
    """Answers of /v1/completions and /v1/chat/completions, streamed or not. Raises TargetError."""
    if exchange.status is None or not 200 <= exchange.status < 300:
        return refusal(ask, exchange)
    if ask.stream:
        return _parse_stream(ask, exchange)
    field = Field(exchange)
    body = field.obj(answer_json(exchange), "the answer")
    if body.get("error"):
        return refusal(ask, exchange)
    choices = {_index(choice): choice for choice in field.objs(body.get("choices"), "choices")}
    all_answers(ask, exchange, choices)
    return [_completion(ask, exchange, body, choices[i], i, field) for i in range(ask.answers)]


def _completion(
    ask: Ask, exchange: Exchange, body: Mapping[str, Any], choice: Mapping[str, Any], i: int, field: Field
) -> Completion:
    counts = _counts(ask, body, field)
    entries = _entries(choice, field, legacy=ask.echo) or ()
    prompt = prompt_records(ask, choice, field)
    echoed = _echoed(ask, entries, counts) if ask.echo and not prompt else 0
    tokens = entries[echoed:]
    return Completion(
        single(ask, i),
        exchange.number,
        exchange.path,
        exchange.status or 0,
        text=_text(choice, field),
        tokens=tokens,
        prompt=prompt or entries[:echoed],
        token_ids=_ids(tokens, _told_ids(choice, field)),
        finish=field.text_or_none(choice.get("finish_reason"), "finish_reason"),
        claims=claims_of(body) + _hidden(body, field),
        calls=_calls(choice, field),
        **counts,
    )


def _echoed(ask: Ask, entries: Sequence[TokenRecord], counts: Mapping[str, int | None]) -> int:
    """How many entries are the prompt's: none where there are no more than generated tokens, else as many as it has tokens."""
    made, prompt = counts.get("completion_tokens"), counts.get("prompt_tokens")
    made = ask.max_tokens if made is None else made
    if prompt is not None and max(prompt, made + 1) <= len(entries) <= prompt + ask.max_tokens:
        return prompt
    return max(0, len(entries) - made)


def _parse_stream(ask: Ask, exchange: Exchange) -> list[Completion]:
    field = Field(exchange)
    partials: dict[int, Partial] = {}
    last: dict[str, Any] = {}
    try:
        for at_s, body in stream_objects(exchange):
            last = {**last, **body}
            for choice in field.objs(body.get("choices", []), "choices"):
                partial = partials.setdefault(_index(choice), Partial())
                text, entries, ids = _text(choice, field), _entries(choice, field), _told_ids(choice, field)
                partial.add(at_s, text, entries, ids, wanted=ask.alternatives > 0)
                partial.calls += _calls(choice, field)
                partial.finish = field.text_or_none(choice.get("finish_reason"), "finish_reason") or partial.finish
    except StreamError as e:
        return refusal(ask, exchange, str(e))
    all_answers(ask, exchange, partials)
    if "[DONE]" not in exchange.answer[-40:] and any(p.finish is None for p in partials.values()):
        raise broken_off(exchange, "neither a finish reason nor [DONE]")
    return [
        Completion(
            single(ask, i),
            exchange.number,
            exchange.path,
            exchange.status or 0,
            text="".join(partial.texts),
            tokens=tuple(partial.tokens),
            token_ids=_ids(partial.tokens, tuple(partial.ids) if partial.has_ids else None),
            finish=partial.finish,
            claims=claims_of(last) + _hidden(last, field),
            arrivals=tuple(partial.arrivals),
            event_tokens=tuple(partial.event_tokens),
            calls=tuple(partial.calls),
            **_counts(ask, last, field),
        )
        for i, partial in sorted(partials.items())
    ]


def claims_of(body: Mapping[str, Any]) -> tuple[tuple[str, Scalar], ...]:
    """What an answer says of its own settings."""
    settings = {name: body[name] for name in _CLAIMED if name in body}
    generation = settings.pop("generation_settings", None)
    return flatten(settings) + (flatten(generation) if isinstance(generation, dict) else ())


def _counts(ask: Ask, body: Mapping[str, Any], field: Field) -> dict[str, Any]:
    """Counters of a single answer; those of a batch cannot be told apart and are left out."""
    if ask.answers > 1:
        return {}
    usage = field.obj_or_none(body.get("usage"), "usage")
    generated = field.integer(usage.get("completion_tokens"), "usage.completion_tokens")
    drafted, accepted = draft_counts(body, field)
    return {
        "prompt_tokens": field.integer(usage.get("prompt_tokens"), "usage.prompt_tokens"),
        "completion_tokens": None if reasoning_tokens(body, field) else generated,
        "drafted": drafted,
        "accepted": accepted,
    }


def _hidden(body: Mapping[str, Any], field: Field) -> tuple[tuple[str, Scalar], ...]:
    hidden = reasoning_tokens(body, field)
    return ((HIDDEN, hidden),) if hidden else ()


def reasoning_tokens(body: Mapping[str, Any], field: Field) -> int:
    """How many of the tokens charged are hidden, no part of the text nor of its logprobs: how many are shown is then not told."""
    usage = field.obj_or_none(body.get("usage"), "usage")
    details = field.obj_or_none(usage.get("completion_tokens_details"), "usage.completion_tokens_details")
    return field.integer(details.get("reasoning_tokens"), "usage.completion_tokens_details.reasoning_tokens") or 0


def draft_counts(body: Mapping[str, Any], field: Field) -> tuple[int | None, int | None]:
    """(drafted, accepted) of an answer, wherever its server tells them; None for what it does not tell."""
    drafted: int | None = None
    accepted: int | None = None
    for place in _COUNTED:
        found: Mapping[str, Any] = body
        for name in place:
            found = field.obj_or_none(found.get(name), ".".join(place))
        for names, is_accepted in ((_DRAFTED, False), (_ACCEPTED, True)):
            for name in names:
                value = field.integer(found.get(name), f"{'.'.join(place)}.{name}")
                if is_accepted and accepted is None:
                    accepted = value
                elif not is_accepted and drafted is None:
                    drafted = value
    return drafted, accepted


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index", 0)
    return index if isinstance(index, int) else -1


def _text(choice: Mapping[str, Any], field: Field) -> str:
    message = choice.get("message") or choice.get("delta")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    return "" if text is None else field.text(text, "choices.text")


def _calls(choice: Mapping[str, Any], field: Field) -> tuple[str, ...]:
    """Names of the tools that it calls; in a stream those of the calls that begin with this event."""
    message = choice.get("message") or choice.get("delta")
    told = message.get("tool_calls") if isinstance(message, dict) else None
    functions = [field.obj_or_none(call.get("function"), "function") for call in field.objs(told or [], "tool_calls")]
    return tuple(field.text(f["name"], "function.name") for f in functions if f.get("name"))


def _entries(choice: Mapping[str, Any], field: Field, *, legacy: bool = False) -> tuple[TokenRecord, ...] | None:
    """None: no logprobs. `legacy` prefers OpenAI's parallel lists where both shapes are there: only they hold a whole prompt."""
    logprobs = choice.get("logprobs")
    if logprobs is None:
        return None
    if isinstance(logprobs, list):
        return content_records(logprobs, field, "logprobs")
    logprobs = field.obj(logprobs, "logprobs")
    if logprobs.get("content") is not None and not (legacy and "tokens" in logprobs):
        return content_records(logprobs["content"], field, "logprobs.content")
    return legacy_records(logprobs, field) if "tokens" in logprobs else None


def _ids(tokens: Sequence[TokenRecord], told: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The ids of an answer's tokens. Those `told` beside entries that have none are left out: then its tokens, and the lists
    that they are looked up in, are known by text alone.
    """
    if not tokens:
        return told
    ids = tuple(t.id for t in tokens if t.id is not None)
    return ids if len(ids) == len(tokens) else None


def _told_ids(choice: Mapping[str, Any], field: Field) -> tuple[int, ...] | None:
    """vLLM's `return_token_ids`."""
    return None if choice.get("token_ids") is None else field.ids(choice["token_ids"], "choices.token_ids")
