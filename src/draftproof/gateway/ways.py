"""How servers are asked for the logprobs of a prompt's own tokens: one request that scores a whole answer.

Each way gives entries in llama-server's shape, with ids. The values are those before samplers and penalties.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from draftproof.gateway.asks import COMPLETIONS, GENERATE
from draftproof.gateway.contexts import Entry, Ids, Unknown


class Way(Protocol):
    @property
    def path(self) -> str: ...

    @property
    def how(self) -> str:
        """What is done, for the mark."""
        ...

    def body(self, ids: Ids, first: int, n: int, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The request for the tokens from number `first` > 0 on, `n` > 0 alternatives each, beside what was `asked`."""
        ...

    def entries(self, answer: Any, ids: Ids, first: int) -> list[Entry]:
        """One per token from `first` on. Raises Unknown for an answer of another shape."""
        ...

    def why_not(self, asked: Mapping[str, Any]) -> str:
        """Why values before the samplers are not what this request asks for; "" if they are."""
        ...


@dataclass(frozen=True, slots=True)
class Echo:
    """draftproof's own server. llama-server ignores `echo`, which its answer shows."""

    path: str = COMPLETIONS
    how: str = "one request for the logprobs of the prompt and the answer (echo)"

    def body(self, ids: Ids, first: int, n: int, asked: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        return {"prompt": list(ids), "echo": True, "logprobs": n, "max_tokens": 0, "temperature": 0.0, "seed": 0}

    def entries(self, answer: Any, ids: Ids, first: int) -> list[Entry]:
        choice = _choice(answer)
        logprobs = choice.get("logprobs")
        found = logprobs.get("content") if isinstance(logprobs, dict) else None
        if not isinstance(found, list) or len(found) != len(ids) - 1:
            raise Unknown("the server gives no logprobs of a prompt")
        return [
            _entry(token, one.get("logprob"), one.get("token"), one.get("top_logprobs"), own=one.get("id"))
            for token, one in zip(ids[first:], found[first - 1 :], strict=True)
        ]

    def why_not(self, asked: Mapping[str, Any]) -> str:
        return "the request chooses adapters" if asked.get("lora") else ""


@dataclass(frozen=True, slots=True)
class VLLM:
    """vLLM's prompt_logprobs. Where its own logprobs are those after the samplers (`--logprobs-mode`), they disagree with these."""

    path: str = COMPLETIONS
    how: str = "one request for the logprobs of the prompt and the answer (prompt_logprobs)"

    def body(self, ids: Ids, first: int, n: int, asked: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        model = {"model": asked["model"]} if "model" in asked else {}
        return {**model, "prompt": list(ids), "prompt_logprobs": n, "max_tokens": 1, "temperature": 0.0}

    def entries(self, answer: Any, ids: Ids, first: int) -> list[Entry]:
        found = _choice(answer).get("prompt_logprobs")
        if not isinstance(found, list) or len(found) != len(ids):
            raise Unknown("the server gives no prompt_logprobs")
        return [self._entry(token, row) for token, row in zip(ids[first:], found[first:], strict=True)]

    def why_not(self, asked: Mapping[str, Any]) -> str:  # noqa: ARG002
        return ""

    def _entry(self, token: int, row: Any) -> Entry:
        own = row.get(str(token)) if isinstance(row, dict) else None
        if not isinstance(own, dict):
            raise Unknown("a place in prompt_logprobs lacks the prompt's own token")
        listed = [
            {"id": int(i), "token": one.get("decoded_token"), "logprob": one.get("logprob")}
            for i, one in row.items()
            if isinstance(one, dict) and i.isdecimal()
        ]
        return _entry(token, own.get("logprob"), own.get("decoded_token"), listed, own=token)


@dataclass(frozen=True, slots=True)
class SGLang:
    """SGLang's native route. Its logprobs of generated tokens are those at the request's temperature and after penalties."""

    path: str = GENERATE
    how: str = "one request for the logprobs of the prompt and the answer (logprob_start_len)"

    def body(self, ids: Ids, first: int, n: int, asked: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        return {
            "input_ids": list(ids),
            "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
            "return_logprob": True,
            "logprob_start_len": first - 1,
            "top_logprobs_num": n,
            "return_text_in_logprobs": True,
        }

    def entries(self, answer: Any, ids: Ids, first: int) -> list[Entry]:
        """By the end of its lists: what they hold of the place where they start has changed between versions."""
        meta = answer.get("meta_info") if isinstance(answer, dict) else None
        lists = [meta.get(f"input_{name}") if isinstance(meta, dict) else None for name in _SGLANG_LISTS]
        count = len(ids) - first
        if not all(isinstance(one, list) and len(one) >= count for one in lists):
            raise Unknown("the server gives no input_token_logprobs")
        own, tops = (one[len(one) - count :] if isinstance(one, list) else [] for one in lists)
        return [from_triples(mine, top, token) for mine, top, token in zip(own, tops, ids[first:], strict=True)]

    def why_not(self, asked: Mapping[str, Any]) -> str:
        given = asked.get("sampling_params")
        for params in given if isinstance(given, list) else [given or {}]:
            if params.get("temperature", 1) not in (0, 1):
                return "the server's logprobs are those at a temperature other than 1"
            acting = [name for name, neutral in _SGLANG_NEUTRAL.items() if params.get(name) not in (None, neutral)]
            if acting:
                return f"the server's logprobs are those after {', '.join(acting)}"
        return ""


_SGLANG_LISTS = ("token_logprobs", "top_logprobs")
_SGLANG_NEUTRAL: Mapping[str, object] = {
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
    "min_new_tokens": 0,
    "logit_bias": {},
    "custom_params": {},
    **dict.fromkeys(("json_schema", "regex", "ebnf", "structural_tag"), ""),
}

WAYS: Mapping[str, Way] = {"llama_server": Echo(), "vllm": VLLM(), "sglang": SGLang()}
"""By the name of the dialect."""


_SAME = 1e-3
"""Nats; one value, told twice."""


def from_triples(own: Any, top: Any, token: int | None = None) -> Entry:
    """SGLang's [logprob, id, text] and a list of such. `token`: the id that it must be of. Raises Unknown."""
    rows = top if isinstance(top, list) else []
    if not all(isinstance(row, list) and len(row) == 3 for row in (own, *rows)):
        raise Unknown("its logprobs are not [logprob, id, text]")
    listed = [{"id": i, "token": text, "logprob": value} for value, i, text in rows]
    return _entry(own[1] if token is None else token, own[0], own[2], listed, own=own[1], strict=token is not None)


def _entry(token: int, value: Any, text: Any, listed: Any, *, own: Any, strict: bool = True) -> Entry:
    """Raises Unknown, if `strict`, where it is of another token, or lacks its value or alternatives."""
    rows = (
        [one for one in listed if isinstance(one, dict) and _is_number(one.get("logprob"))]
        if isinstance(listed, list)
        else []
    )
    if strict and (own != token or not _is_number(value) or not rows):
        raise Unknown("the server's logprobs of a prompt lack tokens or values")
    rows.sort(key=lambda one: -one["logprob"])
    if strict and any(one.get("id") == token and abs(one["logprob"] - value) > _SAME for one in rows):
        raise Unknown("the server's logprobs of a prompt have two values for one token")
    return {
        "id": token,
        "token": text or "",
        "logprob": value,
        "top_logprobs": [one | {"bytes": one.get("bytes", list(str(one.get("token") or "").encode()))} for one in rows],
    }


def _choice(answer: Any) -> Mapping[str, Any]:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    one = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    return one if isinstance(one, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def distance(told: Entry, found: Entry) -> tuple[float, float]:
    """RMS in nats between two entries over the token itself and what both list: with the weight of the probabilities, and without.

    By ids, or by text where one has none. Infinite where they have nothing in common.
    """
    name = "id" if "id" in told and all("id" in a for a in told.get("top_logprobs") or []) else "token"
    a, b = _law(told, name), _law(found, name)
    if told.get(name) != found.get(name) or not a.keys() & b.keys() or not _is_number(told.get("logprob")):
        return math.inf, math.inf
    pairs = [(a[key], b[key]) for key in a.keys() & b.keys()] + [(told["logprob"], found["logprob"])]
    squares = [(x - y) ** 2 for x, y in pairs]
    weights = [math.exp(min(0.0, max(x, y))) for x, y in pairs]
    weighted = math.fsum(w * s for w, s in zip(weights, squares, strict=True)) / math.fsum(weights)
    return math.sqrt(weighted), math.sqrt(math.fsum(squares) / len(squares))


def _law(entry: Entry, name: str) -> dict[Any, float]:
    """The alternatives, without those that share their text: all that is no UTF-8 looks alike."""
    law: dict[Any, float] = {}
    shared: set[Any] = set()
    for row in entry.get("top_logprobs") or ():
        if name in row and _is_number(row.get("logprob")):
            shared |= {row[name]} if row[name] in law else set()
            law[row[name]] = row["logprob"]
    return {key: value for key, value in law.items() if key not in shared}
