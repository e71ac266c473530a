"""vLLM's routes and words over our own server: what its clients ask and read, as `tests/data/vllm-0.32.0` has it.

As where it is started with `--per-request-spec-decode-metrics summary`. Two things are left as our engine has them: presence and
frequency penalties look at the prompt too, and /metrics has no counts by position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from draftproof.liars.entries import Entry
from draftproof.liars.fronts import NATIVE, Words
from draftproof.liars.retelling import Telling
from draftproof.server.errors import Refusal
from draftproof.server.served import Served

VERSION = "0.32.0"
MOST = 20
"""`--max-logprobs`, as it is by default."""
_AS_THEY_ARE = frozenset(
    {"model", "prompt", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "min_p"}
    | {"presence_penalty", "frequency_penalty", "logit_bias", "seed", "n", "stop", "stream", "stream_options", "echo"}
    | {"logprobs", "top_logprobs", "ignore_eos"}
)
_UNSAID = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repeat_last_n": -1, "return_tokens": True}
"""What vLLM takes for samplers that a request does not name, and what we are always asked for."""
_TOTALS = {
    "prompt_tokens_total": "prompt_tokens_total",
    "tokens_predicted_total": "generation_tokens_total",
    "requests_processing": "num_requests_running",
    "requests_deferred": "num_requests_waiting",
    "spec_decode_num_drafts_total": "spec_decode_num_drafts_total",
    "spec_decode_num_draft_tokens_total": "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total": "spec_decode_num_accepted_tokens_total",
}
"""Our names in /metrics, and vLLM's."""


def vllm(served: Served) -> Words:
    """The words in which vLLM would serve the model."""
    paths = dict.fromkeys(NATIVE, "") | {"/version": "/health", "/metrics": "/metrics", "/tokenize": "/tokenize"}
    return Words(asked_of_us, partial(told_by_vllm, served), joined, paths)


def asked_of_us(path: str, asked: dict[str, Any]) -> dict[str, Any]:
    """A request in our words; fields that vLLM does not know are left out. Raises Refusal for what it refuses."""
    if path == "/tokenize":
        return {"content": asked.get("prompt", ""), "add_special": asked.get("add_special_tokens", True)}
    scored, listed = asked.get("prompt_logprobs"), _alternatives(asked)
    if max(scored or 0, listed or 0) > MOST:
        most = max(scored or 0, listed or 0)
        raise Refusal(f"Requested sample logprobs of {most}, which is greater than max allowed: {MOST}")
    if scored is not None and asked.get("stream"):
        raise Refusal("`prompt_logprobs` are not available when `stream=True`.")
    known = {name: value for name, value in asked.items() if name in _AS_THEY_ARE}
    if "repetition_penalty" in asked:
        known["repeat_penalty"] = asked["repetition_penalty"]
    if scored is not None:
        known |= {"echo": True, "logprobs": max(scored, listed or 0)}
    return _UNSAID | known


def _alternatives(asked: Mapping[str, Any]) -> int | None:
    """How many are asked for beside each generated token, None for no logprobs."""
    if "messages" in asked:
        return int(asked.get("top_logprobs") or 0) if asked.get("logprobs") else None
    return asked.get("logprobs")


def joined(events: list[Any]) -> list[Any]:
    """What became known at once of one choice is one event."""
    told: list[Any] = []
    for event in events:
        if told and event.get("choices") and told[-1].get("choices"):
            before, after = told[-1]["choices"][0], event["choices"][0]
            if before["index"] == after["index"]:
                told[-1] = {**told[-1], **event, "choices": [_together(before, after)]}
                continue
        told.append(event)
    return told


def _together(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    both = {**a, **b}
    if "delta" in a:
        both["delta"] = {**a["delta"], "content": (a["delta"].get("content") or "") + (b["delta"].get("content") or "")}
    else:
        both["text"] = a["text"] + b["text"]
    both["tokens"] = [*a.get("tokens", ()), *b.get("tokens", ())]
    first, second = a.get("logprobs"), b.get("logprobs")
    both["logprobs"] = {name: first[name] + second[name] for name in first} if first and second else first or second
    return both


def told_by_vllm(served: Served, telling: Telling) -> Any:
    """An answer in vLLM's words."""
    told = telling.told
    if telling.path in _OF_ITSELF:
        return _OF_ITSELF[telling.path](served, told)
    if not isinstance(told, dict) or "choices" not in told:
        return told
    body = {name: told[name] for name in ("id", "object", "created", "model")}
    body |= {"choices": [_choice(choice, telling, served) for choice in told["choices"]]}
    body |= {"system_fingerprint": f"vllm-{VERSION}"}
    if telling.event and told["choices"]:
        return body
    usage = {name: told["usage"][name] for name in ("prompt_tokens", "total_tokens", "completion_tokens")}
    drafts = list(_speculation([*telling.before, told]))
    return body | {"usage": usage} | ({"metrics": {"speculative_decoding": _summary(drafts, served)}} if drafts else {})


def _speculation(bodies: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """What is told of each choice's drafts."""
    for body in bodies:
        yield from (place["speculation"] for place in (body, *body["choices"]) if "speculation" in place)


def _summary(drafts: Sequence[Mapping[str, Any]], served: Served) -> dict[str, Any] | None:
    most = served.defaults.speculation.draft.n_max
    steps, drafted, accepted = (sum(d[name] for d in drafts) for name in ("drafts", "drafted", "accepted"))
    if not steps:
        return None
    reached = [steps]
    for place in range(most):
        by_position = [d["accepted_by_position"] for d in drafts]
        reached.append(sum(counts[place] for counts in by_position if place < len(counts)))
    return {
        "mean_acceptance_length": 1 + accepted / steps,
        "draft_acceptance_rate": accepted / drafted,
        "acceptance_histogram": [n - more for n, more in zip(reached, [*reached[1:], 0], strict=True)],
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "num_spec_tokens": most,
    }


def _choice(choice: dict[str, Any], telling: Telling, served: Served) -> dict[str, Any]:
    asked, made = telling.asked, choice.get("tokens", [])
    logprobs, listed = choice.get("logprobs"), _alternatives(asked)
    entries: list[Entry] = (logprobs or {}).get("content") or []
    told: dict[str, Any] = {"index": choice["index"], "finish_reason": choice["finish_reason"]}
    if asked.get("return_token_ids"):
        told["token_ids"] = made
    if "messages" in asked:
        words = "delta" if telling.event else "message"
        content = [_chat_entry(entry, listed or 0, asked, served) for entry in entries]
        return told | {words: choice[words], "logprobs": {"content": content} if entries else None}
    prompt = _prompt(asked, choice["index"], served)
    if asked.get("return_token_ids"):
        told["prompt_token_ids"] = None if telling.before else prompt
    text, begin = choice["text"], 0
    if (scored := asked.get("prompt_logprobs")) is not None:
        begin = logprobs["text_offset"][len(prompt)] if made and logprobs else len(text)
        own, entries = entries[: len(prompt) - 1], entries[len(prompt) - 1 :]
        told["prompt_logprobs"] = [None, *(_scored(entry, scored, served) for entry in own)]
        text = text if asked.get("echo") else text[begin:]
    starts = [start - begin for start in (logprobs or {}).get("text_offset", ())]
    starts = starts[len(starts) - len(entries) :]
    lists = _lists(entries, starts, listed, asked, served) if listed is not None and entries else None
    return told | {"text": text, "logprobs": lists, "stop_reason": None}


def _prompt(asked: Mapping[str, Any], index: int, served: Served) -> list[int]:
    """The ids of the prompt that a choice goes on with."""
    prompt = asked["prompt"]
    several = isinstance(prompt, list) and not all(isinstance(part, int) for part in prompt)
    one = prompt[index // (asked.get("n") or 1)] if several else prompt
    return served.vocabulary.tokenize(one, parse_special=True) if isinstance(one, str) else list(one)


def _listed(entry: Entry, count: int) -> dict[int, float | None]:
    """The chosen token first, then the likeliest ones: one more than `count` where it is not among them."""
    return {entry["id"]: entry["logprob"]} | {a["id"]: a["logprob"] for a in entry["top_logprobs"][:count]}


def _name(token: int, asked: Mapping[str, Any], served: Served) -> str:
    if asked.get("return_tokens_as_token_ids"):
        return f"token_id:{token}"
    return served.vocabulary.piece(token).decode("utf-8", "replace")


def _lists(
    entries: Sequence[Entry], starts: Sequence[int], count: int, asked: Mapping[str, Any], served: Served
) -> dict[str, Any]:
    """The four lists of OpenAI's older form."""
    return {
        "text_offset": list(starts),
        "token_logprobs": [entry["logprob"] for entry in entries],
        "tokens": [_name(entry["id"], asked, served) for entry in entries],
        "top_logprobs": [
            {_name(token, asked, served): value for token, value in _listed(entry, count).items()} for entry in entries
        ],
    }


def _chat_entry(entry: Entry, count: int, asked: Mapping[str, Any], served: Served) -> dict[str, Any]:
    def one(token: int, value: float | None) -> dict[str, Any]:
        raw = list(served.vocabulary.piece(token))
        return {"token": _name(token, asked, served), "logprob": value, "bytes": raw}

    listed = list(_listed(entry, count).items())[:count]
    return {**one(entry["id"], entry["logprob"]), "top_logprobs": [one(*item) for item in listed]}


def _scored(entry: Entry, count: int, served: Served) -> dict[str, Any]:
    """A token of the prompt. The rank of one that is not listed is not known here."""
    ranks = {a["id"]: n + 1 for n, a in enumerate(entry["top_logprobs"])}
    return {
        str(token): {"logprob": value, "rank": ranks.get(token), "decoded_token": _name(token, {}, served)}
        for token, value in _listed(entry, count).items()
    }


def _models(served: Served, told: Mapping[str, Any]) -> dict[str, Any]:
    model = {"id": served.name, "object": "model", "created": told["data"][0]["created"], "owned_by": "vllm"}
    return {"object": "list", "data": [model | {"root": served.name, "parent": None, "max_model_len": served.context}]}


def _metrics(served: Served, told: str) -> str:
    lines = []
    for line in told.splitlines():
        before, _, after = line.partition("llamacpp:")
        name, _, value = after.partition(" ")
        if theirs := _TOTALS.get(name):
            labels = "" if before else f'{{engine="0",model_name="{served.name}"}}'
            lines.append(f"{before}vllm:{theirs}{labels} {value}\n")
    return "".join(lines)


def _tokens(served: Served, told: Mapping[str, Any]) -> dict[str, Any]:
    return {"count": len(told["tokens"]), "max_model_len": served.context, **told, "token_strs": None}


_OF_ITSELF: Mapping[str, Callable[[Served, Any], Any]] = {
    "/version": lambda _served, _told: {"version": VERSION},
    "/health": lambda _served, _told: "",
    "/v1/models": _models,
    "/metrics": _metrics,
    "/tokenize": _tokens,
}
"""How the routes that make no text are answered."""
