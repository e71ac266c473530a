"""Tokens as JSON: llama-server's entries with alternatives, and the four lists of OpenAI's older form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from draftproof.engine.emit import Emitted, Listed
from draftproof.server.vocabulary import Vocabulary


def entry(emitted: Emitted, vocabulary: Vocabulary, *, post_sampling: bool) -> dict[str, Any]:
    """One token: id, token, bytes, logprob and top_logprobs; or prob and top_probs after all samplers.

    A logprob is null where the probability is 0, for JSON has no infinity.
    """
    if post_sampling:
        value, listed, one, many = emitted.p, emitted.sampled, "prob", "top_probs"
    else:
        value, listed, one, many = _finite(emitted.logprob), emitted.alternatives, "logprob", "top_logprobs"
    return {**_named(emitted.token, vocabulary), one: value, many: _alternatives(listed, vocabulary, one)}


def _alternatives(listed: Listed | None, vocabulary: Vocabulary, name: str) -> list[dict[str, Any]]:
    if listed is None:
        return []
    return [
        {**_named(token, vocabulary), name: value}
        for token, value in zip(listed.ids.tolist(), listed.values.tolist(), strict=True)
        if math.isfinite(value)
    ]


@lru_cache(maxsize=2**16)
def _named(token: int, vocabulary: Vocabulary) -> dict[str, Any]:
    """Kept, for the likely tokens are named again and again: do not change it."""
    raw = vocabulary.piece(token, special=False)
    return {"id": token, "token": raw.decode("utf-8", "replace"), "bytes": list(raw)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def legacy(
    tokens: Sequence[Emitted | int], starts: Sequence[int], vocabulary: Vocabulary, *, post_sampling: bool
) -> dict[str, Any]:
    """OpenAI's older form. A bare id is a token without numbers: the first of a prompt.

    starts: where each token begins in the text. Bytes that are no UTF-8 are spelled out, so that no two tokens look alike.
    """
    ids = [t if isinstance(t, int) else t.token for t in tokens]
    known = [None if isinstance(t, int) else t for t in tokens]
    return {
        "tokens": [_spelled(token, vocabulary) for token in ids],
        "token_logprobs": [None if t is None else _logprob(t, post_sampling) for t in known],
        "top_logprobs": [None if t is None else _top(t, vocabulary, post_sampling) for t in known],
        "text_offset": list(starts),
    }


def _logprob(emitted: Emitted, post_sampling: bool) -> float | None:
    if not post_sampling:
        return _finite(emitted.logprob)
    return math.log(emitted.p) if emitted.p else None


def _top(emitted: Emitted, vocabulary: Vocabulary, post_sampling: bool) -> dict[str, float]:
    listed = emitted.sampled if post_sampling else emitted.alternatives
    top: dict[str, float] = {}
    if listed is not None:
        for token, value in zip(listed.ids.tolist(), listed.values.tolist(), strict=True):
            if math.isfinite(value):
                top.setdefault(_spelled(token, vocabulary), math.log(value) if post_sampling else value)
    return top


def _spelled(token: int, vocabulary: Vocabulary) -> str:
    raw = vocabulary.piece(token, special=True)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
