"""Logprob entries of an answer, in the three shapes that servers give them, as TokenRecords."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from draftproof.client.wire import Field
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
    return tuple(
        Alternative(None, text, field.number(value, "top_logprobs"))
        for text, value in field.obj(listed, "top_logprobs").items()
    )


def missing_records(text: str, ids: tuple[int, ...] | None) -> tuple[TokenRecord, ...]:
    """Generated text for which no logprob entry came: its tokens with logprob None.

    Where several ids came with one text, the first record holds it.
    """
    if not ids:
        return (TokenRecord(None, text, None, None, None),) if text else ()
    return tuple(TokenRecord(i, text if n == 0 else "", None, None, None) for n, i in enumerate(ids))
