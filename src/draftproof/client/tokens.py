"""Logprob entries of an answer, in the three shapes that servers give them, as TokenRecords."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from draftproof.client.wire import Field
from draftproof.core.ask import Ask
from draftproof.core.tokens import Alternative, TokenRecord


def content_records(entries: object, field: Field, name: str) -> tuple[TokenRecord, ...]:
    """The shape of chat answers, which llama-server uses everywhere: a list of objects with `token`, `logprob`, `top_logprobs`.

    `prob` and `top_probs`, llama-server's words for the values after the samplers, are turned into logarithms.
    """
    return tuple(_content_record(entry, field, name) for entry in field.objs(entries, name))


def _content_record(entry: Mapping[str, Any], field: Field, name: str) -> TokenRecord:
    listed = entry.get("top_logprobs", entry.get("top_probs"))
    alternatives = None
    if listed is not None:
        alternatives = tuple(
            Alternative(field.integer(a.get("id"), "id"), field.text(a.get("token"), "token"), _logprob(a, field))
            for a in field.objs(listed, f"{name}.top_logprobs")
        )
    raw = entry.get("bytes")
    return TokenRecord(
        id=field.integer(entry.get("id"), "id"),
        text=field.text(entry.get("token"), f"{name}.token"),
        bytes=None if raw is None else field.ids(raw, f"{name}.bytes"),
        logprob=_logprob(entry, field),
        alternatives=alternatives,
    )


def _logprob(entry: Mapping[str, Any], field: Field) -> float | None:
    if "prob" not in entry:
        return field.number(entry.get("logprob"), "logprob")
    prob = field.number(entry["prob"], "prob")
    if prob is None:
        return None
    if prob < 0:
        raise field.wrong("prob", prob, "a probability")
    return math.log(prob) if prob > 0 else -math.inf


def legacy_records(logprobs: Mapping[str, Any], field: Field) -> tuple[TokenRecord, ...]:
    """The shape of OpenAI's old completions: parallel lists `tokens`, `token_logprobs`, `top_logprobs` (text to logprob).

    Raises TargetError when the lists differ in length.
    """
    tokens = logprobs.get("tokens")
    values = logprobs.get("token_logprobs")
    listed = logprobs.get("top_logprobs")
    if not isinstance(tokens, list):
        raise field.wrong("logprobs.tokens", tokens, "a list")
    count = len(tokens)
    for name, column in (("token_logprobs", values), ("top_logprobs", listed)):
        if column is not None and (not isinstance(column, list) or len(column) != count):
            raise field.wrong(f"logprobs.{name}", column, f"a list of {count}, as many as there are tokens")
    return tuple(
        TokenRecord(
            id=None,
            text=field.text(token, "logprobs.tokens"),
            bytes=None,
            logprob=None if values is None else field.number(values[i], "token_logprobs"),
            alternatives=None if listed is None else _legacy_alternatives(listed[i], field),
        )
        for i, token in enumerate(tokens)
    )


def _legacy_alternatives(listed: object, field: Field) -> tuple[Alternative, ...] | None:
    if listed is None:
        return None
    return _ranked(
        Alternative(None, text, field.number(value, "top_logprobs"))
        for text, value in field.obj(listed, "top_logprobs").items()
    )


def _ranked(entries: Iterable[Alternative]) -> tuple[Alternative, ...]:
    """The best first: the members of a JSON object are in no order. Of equals the first comes last: vLLM puts the chosen token
    before them all, in the list or not.
    """
    ranked = sorted(enumerate(entries), key=lambda e: (math.inf if e[1].logprob is None else -e[1].logprob, -e[0]))
    return tuple(entry for _, entry in ranked)


def prompt_records(ask: Ask, choice: Mapping[str, Any], field: Field) -> tuple[TokenRecord, ...]:
    """The shape of vLLM's prompt_logprobs: per token of the prompt an object of its own id and the likeliest ones, the first null.

    Ids are left out, as its lists of alternatives for generated tokens have none. () where there is no such list.
    """
    listed = choice.get("prompt_logprobs")
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise field.wrong("prompt_logprobs", listed, "a list")
    told = choice.get("prompt_token_ids")
    ids = [None] * len(listed) if told is None else list(field.ids(told, "prompt_token_ids"))
    if len(ids) != len(listed):
        raise field.wrong("prompt_token_ids", told, f"a list of {len(listed)}, as many as there are prompt_logprobs")
    records = [_prompt_record(own, entries, field) for own, entries in zip(ids, listed, strict=True)]
    rest = "".join(r.text for r in records[1:])
    if records and not records[0].text and isinstance(ask.prompt, str) and ask.prompt.endswith(rest):
        records[0] = TokenRecord(None, ask.prompt.removesuffix(rest), None, None, None)
    return tuple(records)


def _prompt_record(own: int | None, entries: object, field: Field) -> TokenRecord:
    """`own` is the token's id; where it is not told, the token comes first."""
    if entries is None:
        return TokenRecord(None, "", None, None, None)
    found = field.obj(entries, "prompt_logprobs")
    values = {}
    for key, value in found.items():
        entry = field.obj(value, "prompt_logprobs")
        named = field.text_or_none(entry.get("decoded_token"), "decoded_token") or ""
        values[key] = Alternative(None, named, field.number(entry.get("logprob"), "logprob"))
    name = next(iter(values), "") if own is None else str(own)
    if name not in values:
        raise field.wrong("prompt_logprobs", list(values)[:5], f"an object with the prompt's own token {name!r}")
    mine = values[name]
    return TokenRecord(None, mine.text, None, mine.logprob, _ranked(values.values()))


def missing_records(text: str, ids: tuple[int, ...] | None) -> tuple[TokenRecord, ...]:
    """Generated text for which no logprob entry came: its tokens with logprob None.

    Where several ids came with one text, the first record holds it.
    """
    if not ids:
        return (TokenRecord(None, text, None, None, None),) if text else ()
    return tuple(TokenRecord(i, text if n == 0 else "", None, None, None) for n, i in enumerate(ids))
