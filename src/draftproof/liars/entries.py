"""Where the tokens' entries stand in answers of the three routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Entry = dict[str, Any]
_LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


def content(told: Any) -> list[Entry]:
    """Entries of the tokens of an answer's first choice, [] where there are none."""
    if not isinstance(told, dict):
        return []
    if "choices" in told:
        choices = told["choices"]
        logprobs = choices[0].get("logprobs") if choices else None
        return (logprobs or {}).get("content") or []
    return told.get("completion_probabilities") or []


def replaced(told: dict[str, Any], entries: Sequence[Entry] | None) -> dict[str, Any]:
    """The answer with other entries; None: without any. The lists of OpenAI's older form follow."""
    if "choices" not in told:
        return {**told, "completion_probabilities": entries} if entries is not None else _without(told)
    choice = told["choices"][0]
    logprobs = None
    if entries is not None:
        logprobs = {**choice["logprobs"], "content": list(entries)}
        if "tokens" in logprobs:
            first = len(logprobs["tokens"]) - len(choice["logprobs"]["content"])
            logprobs |= _older(entries, choice["logprobs"], first)
    return {**told, "choices": [{**choice, "logprobs": logprobs}, *told["choices"][1:]]}


def _without(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "completion_probabilities"}


def _older(entries: Sequence[Entry], before: dict[str, Any], first: int) -> dict[str, Any]:
    """The four lists. The `first` tokens before the entries (the prompt's first one has no entry) stay as they were."""
    values: tuple[list[Any], ...] = (
        [e["token"] for e in entries],
        [e.get("logprob") for e in entries],
        [{a["token"]: a.get("logprob") for a in e.get("top_logprobs") or ()} for e in entries],
        before["text_offset"][first : first + len(entries)],
    )
    return {name: before[name][:first] + list(new) for name, new in zip(_LISTS, values, strict=True)}
