"""Prompts as they come, text or token ids or both, become token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from draftproof.server.errors import Refusal, context_exceeded
from draftproof.server.served import Served
from draftproof.server.vocabulary import Vocabulary

Tokens: TypeAlias = tuple[int, ...]
MOST_PROMPTS = 256


def read_prompts(prompt: Any, served: Served) -> list[Tokens]:
    """One or several prompts: a list without a token id is a list of prompts.

    Raises Refusal for an empty prompt, one that does not fit, unknown token ids.
    """
    many = isinstance(prompt, list) and not any(isinstance(part, int) for part in prompt)
    given = prompt if many else [prompt]
    if not given:
        raise Refusal('"prompt" must not be empty')
    if len(given) > MOST_PROMPTS:
        raise Refusal(f"{len(given)} prompts in one request: at most {MOST_PROMPTS}.")
    return [check_prompt(_tokens(one, served.vocabulary), served) for one in given]


def check_prompt(tokens: Tokens, served: Served) -> Tokens:
    """The same tokens. Raises Refusal when there are none, too many, or unknown ones."""
    if not tokens:
        raise Refusal('"prompt" must have at least one token')
    if not 0 <= min(tokens) <= max(tokens) < served.vocabulary.size:
        raise Refusal(f"Prompt contains invalid tokens: ids are 0 to {served.vocabulary.size - 1}")
    if len(tokens) >= served.context:
        raise context_exceeded(len(tokens), served.context)
    return tokens


def _tokens(prompt: Any, vocabulary: Vocabulary) -> Tokens:
    if isinstance(prompt, dict):
        prompt = _prompt_string(prompt)
    parts: Sequence[int | str | list[object] | dict[str, object]] = prompt if isinstance(prompt, list) else [prompt]
    tokens: list[int] = []
    for i, part in enumerate(parts):
        if isinstance(part, str):
            tokens += vocabulary.tokenize(part, add_special=i == 0, parse_special=True)
        elif isinstance(part, list | dict):
            raise Refusal("A list of token ids and texts must not have lists or objects in it.")
        else:
            tokens.append(part)
    return tuple(tokens)


def _prompt_string(prompt: dict[str, Any]) -> str:
    text = prompt.get("prompt_string")
    if not isinstance(text, str) or prompt.get("multimodal_data"):
        raise Refusal("a prompt object must have a prompt_string and no multimodal_data")
    return text
