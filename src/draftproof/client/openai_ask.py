"""How a question is put to OpenAI's two routes, and what each server calls what OpenAI's API has no name for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from draftproof.core.ask import Ask
from draftproof.core.errors import InstrumentError
from draftproof.core.sampling import Sampling

_BAN = -100.0
"""OpenAI's most negative logit bias."""


@dataclass(frozen=True, slots=True)
class Names:
    """A server's names for samplers beyond OpenAI's; "" for one that it has not. `all_tokens` is its top-k that keeps all."""

    top_k: str = "top_k"
    all_tokens: int = -1
    min_p: str = "min_p"
    repeat_penalty: str = "repetition_penalty"


COMMON = Names()
LLAMA = Names(all_tokens=0, repeat_penalty="repeat_penalty")
"""llama.cpp's, which servers built on it keep."""


def is_chat(route: str) -> bool:
    return route.endswith("chat/completions")


def openai_body(ask: Ask, route: str, names: Names, *, model: str, budget: str, explicit: bool) -> dict[str, Any]:
    """The request, less `Ask.extra`. `budget` is the field of the number of tokens; `explicit` sends the neutral value of samplers
    that OpenAI's API has no name for too.

    Raises InstrumentError for token ids, and for several prompts in a chat.
    """
    if not isinstance(ask.prompt, str) or (ask.also and is_chat(route)):
        raise InstrumentError(f"{route} of this server takes text, not token ids.")
    body: dict[str, Any] = {"model": model, budget: ask.max_tokens}
    if is_chat(route):
        body["messages"] = [{"role": "user", "content": ask.prompt}]
        body |= tool_fields(ask)
        if ask.alternatives:
            body |= {"logprobs": True, "top_logprobs": ask.alternatives}
    else:
        body["prompt"] = [ask.prompt, *ask.also] if ask.also else ask.prompt
        if ask.alternatives:
            body["logprobs"] = ask.alternatives
    body |= _samplers(ask.sampling, names, explicit=explicit)
    if ask.seed is not None:
        body["seed"] = ask.seed
    if ask.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if ask.count > 1:
        body["n"] = ask.count
    if ask.stop:
        body["stop"] = list(ask.stop)
    if ask.echo:
        body["echo"] = True
    return body


def tool_fields(ask: Ask) -> dict[str, Any]:
    """What has a chat call the tool of a question, which takes the name of a city; {} where the question has none."""
    if not ask.tool:
        return {}
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": ask.tool, "description": "Looks it up for a city.", "parameters": parameters}
    chosen = {"type": "function", "function": {"name": ask.tool}}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": chosen}


def _samplers(s: Sampling, names: Names, *, explicit: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "temperature": s.temperature,
        "top_p": s.top_p,
        "presence_penalty": s.presence_penalty,
        "frequency_penalty": s.frequency_penalty,
    }
    if s.logit_bias:
        body["logit_bias"] = biases(s)
    beyond = (
        (names.top_k, s.top_k or names.all_tokens, names.all_tokens),
        (names.min_p, s.min_p, 0.0),
        (names.repeat_penalty, s.repeat_penalty, 1.0),
    )
    return body | {name: value for name, value, neutral in beyond if name and (explicit or value != neutral)}


def biases(s: Sampling) -> dict[str, float]:
    """Logit biases in OpenAI's form; a ban is its most negative one."""
    return {str(token): _BAN if bias == -math.inf else bias for token, bias in s.logit_bias}
