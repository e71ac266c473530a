"""llama.cpp's llama-server (and draftproof's own): native /completion, and OpenAI's two routes with llama-server's fields.

Every sampler setting is sent, so that no default of the server acts unasked: its defaults are top-k 40, top-p 0.95, min-p 0.05.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
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
from draftproof.client.described import served_models
from draftproof.client.dialect import Call, Description, Dialect, Survey
from draftproof.client.llama_description import described
from draftproof.client.openai_ask import tool_fields
from draftproof.client.openai_wire import CHAT, COMPLETIONS, parse_openai
from draftproof.client.tokens import content_records
from draftproof.client.wire import Field, answer_json
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.errors import InstrumentError
from draftproof.core.exchange import Exchange
from draftproof.core.sampling import Sampling

NATIVE = "/completion"
_FINISH = {"limit": "length", "eos": "stop", "word": "stop", "none": None}
_CLAIMED = ("model", "stop_type", "stopping_word", "truncated", "speculation", "ignored")
_OF_SPECULATION = ("effective", "reason")


@dataclass(frozen=True, slots=True)
class LlamaServer:
    name: str = "llama_server"
    paths: tuple[str, ...] = ("/props", "/slots", "/metrics")
    routes: tuple[str, ...] = (NATIVE, COMPLETIONS, CHAT)
    token_routes: tuple[str, ...] = (NATIVE, COMPLETIONS)
    batch_routes: tuple[str, ...] = (NATIVE, COMPLETIONS, CHAT)
    grammar_routes: tuple[str, ...] = (NATIVE, COMPLETIONS, CHAT)
    prompt_routes: tuple[str, ...] = (COMPLETIONS,)
    reports_drafts: bool = True
    uncached: tuple[tuple[str, Scalar], ...] = (("cache_prompt", False),)

    def recognise(self, survey: Survey) -> str:
        if "default_generation_settings" in survey.obj("/props"):
            return "/props has default_generation_settings"
        for model in served_models(survey):
            if model.get("owned_by") == "llamacpp":
                return "/v1/models says owned_by llamacpp"
        return ""

    def adapted(self, survey: Survey) -> Dialect:  # noqa: ARG002 - one model per server: it needs no name
        return self

    def plainer(self) -> Dialect | None:
        return None

    def describe(self, survey: Survey) -> Description:
        return described(survey)

    def call(self, ask: Ask, route: str) -> Call:
        body = _prompt(ask, route) | {
            "seed": -1 if ask.seed is None else ask.seed,
            "stream": ask.stream,
            "cache_prompt": True,
            **_sampling(ask.sampling),
        }
        if ask.count > 1:
            body["n_cmpl" if route == NATIVE else "n"] = ask.count
        if ask.stream and route != NATIVE:
            body["stream_options"] = {"include_usage": True}
        if ask.post_sampling:
            body["post_sampling_probs"] = True
        if ask.grammar:
            body["grammar"] = ask.grammar
        if ask.stop:
            body["stop"] = list(ask.stop)
        if ask.echo:
            body["echo"] = True
        body.update(ask.extra)
        if isinstance(body.get("stop"), str):
            body["stop"] = [body["stop"]]  # the native route ignores a stop that is no list
        return Call.of(route, body)

    def parse(self, ask: Ask, exchange: Exchange) -> list[Completion]:
        if exchange.path != NATIVE:
            return parse_openai(ask, exchange)
        if exchange.status is None or not 200 <= exchange.status < 300:
            return refusal(ask, exchange)
        if ask.stream:
            return _parse_stream(ask, exchange)
        field = Field(exchange)
        body = answer_json(exchange)
        if isinstance(body, dict) and body.get("error"):
            return refusal(ask, exchange)
        answers = {_index(a): a for a in field.objs(body if isinstance(body, list) else [body], "the answer")}
        all_answers(ask, exchange, answers)
        return [_completion(ask, exchange, answers[i], i, field) for i in range(ask.answers)]

    def tokenize_call(self, text: str) -> Call | None:
        return Call.of("/tokenize", {"content": text, "add_special": False})

    def parse_ids(self, exchange: Exchange) -> tuple[int, ...] | None:
        if exchange.status != 200:
            return None
        field = Field(exchange)
        return field.ids(field.obj(answer_json(exchange), "the answer").get("tokens"), "tokens")


def _prompt(ask: Ask, route: str) -> dict[str, Any]:
    prompts = [p if isinstance(p, str) else list(p) for p in (ask.prompt, *ask.also)]
    prompt = prompts if ask.also else prompts[0]
    if route == NATIVE:
        return {"prompt": prompt, "n_predict": ask.max_tokens, "n_probs": ask.alternatives, "return_tokens": True}
    logprobs: dict[str, Any] = {}
    if route == COMPLETIONS:
        if ask.alternatives:
            logprobs = {"logprobs": ask.alternatives}
        return {"prompt": prompt, "max_tokens": ask.max_tokens, **logprobs}
    if not isinstance(prompt, str):
        raise InstrumentError(f"{route} takes text, not token ids.")
    if ask.alternatives:
        logprobs = {"logprobs": True, "top_logprobs": ask.alternatives}
    messages = [{"role": "user", "content": prompt}]
    return {"messages": messages, "max_tokens": ask.max_tokens, **logprobs, **tool_fields(ask)}


_ALWAYS = (
    *(
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "repeat_penalty",
        "repeat_last_n",
        "presence_penalty",
        "frequency_penalty",
    ),
    *("typical_p", "top_n_sigma", "xtc_probability", "dry_multiplier", "dynatemp_range", "mirostat", "min_keep"),
)
_WHERE_IT_ACTS = {
    "xtc_probability": ("xtc_threshold",),
    "dynatemp_range": ("dynatemp_exponent",),
    "mirostat": ("mirostat_tau", "mirostat_eta"),
    "dry_multiplier": ("dry_base", "dry_allowed_length", "dry_penalty_last_n"),
}
"""Settings that are sent only beside one that is not 0."""

_WHOLE_CONTEXT = 1 << 16
"""The server takes no -1 here."""


def _sampling(s: Sampling) -> dict[str, Any]:
    """All settings, and the list of the samplers that are to act, in the request's order (the server's own breakers for DRY)."""
    acting = {
        "penalties": s.repeat_last_n != 0
        and (s.repeat_penalty != 1 or s.presence_penalty != 0 or s.frequency_penalty != 0),
        "dry": s.dry_multiplier > 0,
        "top_n_sigma": s.top_n_sigma > 0,
        "top_k": s.top_k > 0,
        "typ_p": s.typical_p < 1,
        "top_p": s.top_p < 1,
        "min_p": s.min_p > 0,
        "xtc": s.xtc_probability > 0,
        "temperature": True,
    }
    body: dict[str, Any] = {name: getattr(s, name) for name in _ALWAYS}
    for sampler, settings in _WHERE_IT_ACTS.items():
        if body[sampler]:
            body |= {name: getattr(s, name) for name in settings}
    if body.get("dry_penalty_last_n") == -1:
        body["dry_penalty_last_n"] = _WHOLE_CONTEXT
    body["samplers"] = [name for name in s.samplers if acting[name]]
    if s.logit_bias:
        body["logit_bias"] = [[token, False if bias == -math.inf else bias] for token, bias in s.logit_bias]
    return body


def _entries(answer: Mapping[str, Any], field: Field) -> Any:
    entries = answer.get("completion_probabilities")
    return None if entries is None else content_records(entries, field, "completion_probabilities")


def _completion(ask: Ask, exchange: Exchange, answer: Mapping[str, Any], i: int, field: Field) -> Completion:
    ids = None if answer.get("tokens") is None else field.ids(answer["tokens"], "tokens")
    # Without return_tokens (an old server) the list is there and empty.
    known = ids or not answer.get("tokens_predicted")
    return Completion(
        single(ask, i),
        exchange.number,
        exchange.path,
        exchange.status or 0,
        text=field.text(answer.get("content"), "content"),
        tokens=_entries(answer, field) or (),
        token_ids=ids if known else None,
        **_ending(answer, field, bulk=ask.answers > 1),
    )


def _ending(answer: Mapping[str, Any], field: Field, *, bulk: bool) -> dict[str, Any]:
    """What only the final object of an answer holds. In bulk, of its claims only those on speculation and the seed."""
    timings = field.obj_or_none(answer.get("timings"), "timings")
    stop_type = answer.get("stop_type")
    return {
        "finish": _FINISH.get(stop_type, stop_type) if isinstance(stop_type, str) else None,
        "prompt_tokens": field.integer(answer.get("tokens_evaluated"), "tokens_evaluated"),
        "completion_tokens": field.integer(answer.get("tokens_predicted"), "tokens_predicted"),
        "drafted": field.integer(timings.get("draft_n"), "timings.draft_n"),
        "accepted": field.integer(timings.get("draft_n_accepted"), "timings.draft_n_accepted"),
        "claims": _claims(answer, bulk=bulk),
    }


def _claims(answer: Mapping[str, Any], *, bulk: bool) -> tuple[tuple[str, Scalar], ...]:
    settings = answer.get("generation_settings")
    settings = settings if isinstance(settings, dict) else {}
    if bulk:
        kept = {name: value for name, value in settings.items() if name == "seed" or name.startswith("speculative")}
        made = answer.get("speculation")
        if isinstance(made, dict):
            kept["speculation"] = {name: made[name] for name in _OF_SPECULATION if name in made}
        return flatten(kept)
    said = {name: answer[name] for name in _CLAIMED if name in answer}
    timings = answer.get("timings")
    if isinstance(timings, dict):
        said["timings.cache_n"] = timings.get("cache_n")
    return flatten(said) + flatten(settings)


def _parse_stream(ask: Ask, exchange: Exchange) -> list[Completion]:
    field = Field(exchange)
    partials: dict[int, Partial] = {}
    try:
        for at_s, event in stream_objects(exchange):
            partial = partials.setdefault(_index(event), Partial())
            ids = None if event.get("tokens") is None else field.ids(event["tokens"], "tokens")
            partial.add(
                at_s,
                field.text(event.get("content"), "content"),
                _entries(event, field),
                ids,
                wanted=ask.alternatives > 0,
            )
            if event.get("stop") is True:
                partial.ended = True
                partial.last = event
    except StreamError as e:
        return refusal(ask, exchange, str(e))
    all_answers(ask, exchange, partials)
    if not all(p.ended for p in partials.values()):
        raise broken_off(exchange, "no event says stop")
    return [
        Completion(
            single(ask, i),
            exchange.number,
            exchange.path,
            exchange.status or 0,
            text="".join(partial.texts),
            tokens=tuple(partial.tokens),
            token_ids=tuple(partial.ids) if partial.has_ids else None,
            arrivals=tuple(partial.arrivals),
            event_tokens=tuple(partial.event_tokens),
            **_ending(partial.last, field, bulk=False),
        )
        for i, partial in sorted(partials.items())
    ]


def _index(answer: Mapping[str, Any]) -> int:
    index = answer.get("index", 0)
    return index if isinstance(index, int) else -1


DIALECT = LlamaServer()
