"""Requests that nobody should send, and what llama-server answers.

    python -m tests.clients.bad_requests TARGET.gguf

records the answers of the real one, from the `xllamacpp` wheel.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import httpx2

from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel

RECORDED = Path(__file__).parent.parent / "data" / "llama-server-b11549" / "bad_requests.json"
Case: TypeAlias = tuple[str, Any]
Said: TypeAlias = tuple[int, Any]

_NATIVE = {"prompt": "bcdbc", "n_predict": 2}
_OPENAI = {"prompt": "bcdbc", "max_tokens": 2}
_CHAT = {"messages": [{"role": "user", "content": "bcdbc"}], "max_tokens": 2}
_TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def _native(**fields: Any) -> Case:
    return "/completion", {**_NATIVE, **fields}


def _openai(**fields: Any) -> Case:
    return "/v1/completions", {**_OPENAI, **fields}


def _chat(**fields: Any) -> Case:
    return "/v1/chat/completions", {**_CHAT, **fields}


CASES: Mapping[str, Case] = {
    "a body that is no JSON": ("/completion", '{"prompt": '),
    "an empty body": ("/completion", ""),
    "a body that is a list": ("/completion", "[]"),
    "no prompt": ("/completion", {}),
    "no messages": ("/v1/chat/completions", {}),
    "an empty list of messages": _chat(messages=[]),
    "a message without a role": _chat(messages=[{"content": "a"}]),
    "a message without content": _chat(messages=[{"role": "user"}]),
    "a message whose content is null": _chat(messages=[{"role": "user", "content": None}]),
    "continue_final_message of a user": _chat(continue_final_message=True),
    "an empty prompt": _native(prompt=""),
    "an empty list of prompts": _native(prompt=[]),
    "a prompt that is a number": _native(prompt=5),
    "a list of prompts and token ids": _native(prompt=[[1], 2]),
    "a token id that the model does not have": _native(prompt=[1, 99]),
    "a negative token id": _native(prompt=[1, -1]),
    "a prompt longer than the context": _native(prompt="abcdefgh" * 100),
    "the same on /v1/completions": _openai(prompt="abcdefgh" * 100),
    "temperature: text": _native(temperature="hot"),
    "temperature: -1": _native(temperature=-1),
    "temperature: null": _native(temperature=None),
    "n_probs: text": _native(n_probs="3"),
    "n_probs: -1": _native(n_probs=-1),
    "n_probs: 99, more than the vocabulary": _native(n_probs=99),
    "top_k: 2.5": _native(top_k=2.5),
    "min_p: 2": _native(min_p=2),
    "min_p: -1": _native(min_p=-1),
    "stop: 3": _native(stop=3),
    "n_predict: text": _native(n_predict="2"),
    "n_predict: 0": _native(n_predict=0),
    "max_tokens: 0": _openai(max_tokens=0),
    "n: 0": _openai(n=0),
    "n: 9 on one slot": _openai(n=9),
    "echo: true": _openai(echo=True),
    "best_of: 2": _openai(best_of=2),
    "suffix": _openai(suffix="x"),
    "an adapter that is not there": _native(lora=[{"id": 0, "scale": 1}]),
    "n_indent": _native(n_indent=2),
    "t_max_predict_ms": _native(t_max_predict_ms=1000),
    "logprobs: 0 on /v1/completions": _openai(logprobs=0),
    "top_logprobs without logprobs": _chat(top_logprobs=3),
    "logprobs: 3 in a chat": _chat(logprobs=3),
    "tools": _chat(tools=[_TOOL]),
    "an unknown response_format": _chat(response_format={"type": "x"}),
    "a response_format without a type": _chat(response_format={}),
    "a schema that says `contains`": _native(json_schema={"type": "array", "contains": {"const": 1}}),
    "a grammar that no token fits": _native(grammar='root ::= "z"'),
    "a broken grammar": _native(grammar="root ::= ("),
    "a grammar and a schema": _native(grammar='root ::= "a"', json_schema={"type": "object"}),
    "an unknown sampler": _native(samplers=["nope"]),
    "samplers: 3": _native(samplers=3),
    "logit_bias: text": _native(logit_bias="x"),
    "logit_bias of a token that the model does not have": _native(logit_bias=[[99, 1]]),
    "no dry_sequence_breakers": _native(dry_multiplier=1, dry_sequence_breakers=[]),
    "id_slot: 5 on one slot": _native(id_slot=5),
    "id_slot: -5": _native(id_slot=-5),
    "stream: text": _native(stream="yes"),
    "seed: text": _native(seed="x"),
    "seed: -7": _native(seed=-7),
    "repeat_last_n: -5": _native(repeat_last_n=-5),
    "mirostat: 7": _native(mirostat=7),
    "a field that nobody knows": _native(nonsense=1),
    "an unknown route": ("/nothing", {}),
    "/infill": ("/infill", {"input_prefix": "a"}),
    "/slots/0?action=erase": ("/slots/0?action=erase", {}),
    "/tokenize without content": ("/tokenize", {}),
    "/tokenize of a number": ("/tokenize", {"content": 3}),
    "/detokenize of an unknown token": ("/detokenize", {"tokens": [99]}),
    "/v1/embeddings": ("/v1/embeddings", {"input": "a"}),
}


def ask(url: str, case: Case) -> Said:
    """Status, and the error object if it is an error."""
    path, body = case
    content = body if isinstance(body, str) else json.dumps(body)
    answer = httpx2.post(url + path, content=content, headers={"Content-Type": "application/json"}, timeout=30)
    return answer.status_code, answer.json().get("error") if answer.status_code != httpx2.codes.OK else None


def recorded() -> dict[str, Said]:
    return {name: (status, error) for name, (status, error) in json.loads(RECORDED.read_text()).items()}


def record(target: Path) -> None:
    said = {}
    for name, case in CASES.items():
        # one server for each: some requests leave it in a bad state
        with LlamaWheel(target, options={**EXACT_NUMBERS, "n_ctx": 512, "n_parallel": 1}) as server:
            said[name] = ask(server.url, case)
    RECORDED.parent.mkdir(parents=True, exist_ok=True)
    RECORDED.write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
