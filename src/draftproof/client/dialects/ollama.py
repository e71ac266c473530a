"""Ollama: its native /api/generate on raw prompts, whose streams are lines of JSON; and OpenAI's routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from draftproof.client.answers import Partial, StreamError, broken_off, line_objects, refusal
from draftproof.client.described import text, whole
from draftproof.client.dialect import Call, Description, Dialect, Survey
from draftproof.client.dialects.openai import OpenAI
from draftproof.client.openai_ask import Names
from draftproof.client.openai_wire import CHAT, COMPLETIONS, parse_openai
from draftproof.client.tokens import content_records
from draftproof.client.wire import Field, answer_json
from draftproof.core.ask import Ask, Completion
from draftproof.core.errors import InstrumentError
from draftproof.core.exchange import Exchange
from draftproof.core.sampling import Sampling
from draftproof.core.tokens import TokenRecord

NATIVE = "/api/generate"
_NAMES = Names(top_k="", min_p="", repeat_penalty="")


@dataclass(frozen=True, slots=True)
class Ollama(OpenAI):
    """Logprobs since 0.12.11, 20 alternatives at most. Nothing is said of speculation, and no drafts are counted."""

    name: str = "ollama"
    paths: tuple[str, ...] = ("/api/version", "/api/tags", "/api/ps")
    routes: tuple[str, ...] = (NATIVE, COMPLETIONS, CHAT)
    prompt_routes: tuple[str, ...] = ()
    names: Names = _NAMES

    def recognise(self, survey: Survey) -> str:
        if survey.obj("/api/version").get("version") and isinstance(survey.obj("/api/tags").get("models"), list):
            return "/api/version and /api/tags answer"
        return ""

    def adapted(self, survey: Survey) -> Dialect:
        return replace(self, model=text(_model(survey).get("name")) or "")

    def describe(self, survey: Survey) -> Description:
        model = _model(survey)
        details = model.get("details")
        details = details if isinstance(details, dict) else {}
        named = (model.get("name"), details.get("parameter_size"), details.get("quantization_level"))
        return Description(
            build=text(survey.obj("/api/version").get("version")),
            model=" ".join(x for x in named if isinstance(x, str)) or None,
            context=whole(model.get("context_length")),
        )

    def call(self, ask: Ask, route: str) -> Call:
        if route != NATIVE:
            return OpenAI.call(self, ask, route)
        if not isinstance(ask.prompt, str) or ask.answers > 1:
            raise InstrumentError(f"{route} of this server takes one text, not token ids or several prompts.")
        options = _options(ask.sampling) | {"num_predict": ask.max_tokens}
        if ask.seed is not None:
            options["seed"] = ask.seed
        extra = dict(ask.extra)
        stop = extra.pop("stop", None)
        if ask.stop or stop:
            options["stop"] = [*ask.stop, *([stop] if stop else [])]
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": ask.prompt,
            "raw": True,
            "stream": ask.stream,
            "options": options,
        }
        if ask.alternatives:
            body |= {"logprobs": True, "top_logprobs": ask.alternatives}
        return Call.of(route, body | extra)

    def parse(self, ask: Ask, exchange: Exchange) -> list[Completion]:
        if exchange.path != NATIVE:
            return parse_openai(ask, exchange)
        if exchange.status is None or not 200 <= exchange.status < 300:
            return refusal(ask, exchange)
        if ask.stream:
            return _parse_stream(ask, exchange)
        field = Field(exchange)
        answer = field.obj(answer_json(exchange), "the answer")
        if answer.get("error"):
            return refusal(ask, exchange)
        return [
            Completion(
                ask,
                exchange.number,
                exchange.path,
                exchange.status or 0,
                text=field.text(answer.get("response"), "response"),
                tokens=_entries(answer, field) or (),
                **_ending(answer, field),
            )
        ]


def _model(survey: Survey) -> dict[str, Any]:
    """The model in memory, else the first one there is, else {}."""
    for path in ("/api/ps", "/api/tags"):
        listed = survey.obj(path).get("models")
        for model in listed if isinstance(listed, list) else []:
            if isinstance(model, dict):
                return model
    return {}


def _options(s: Sampling) -> dict[str, Any]:
    """All in llama.cpp's names: its own defaults (top-k 40, top-p 0.9, a penalty) are not neutral."""
    return {
        "temperature": s.temperature,
        "top_k": s.top_k,
        "top_p": s.top_p,
        "min_p": s.min_p,
        "typical_p": s.typical_p,
        "repeat_penalty": s.repeat_penalty,
        "repeat_last_n": s.repeat_last_n,
        "presence_penalty": s.presence_penalty,
        "frequency_penalty": s.frequency_penalty,
    }


def _entries(answer: Mapping[str, Any], field: Field) -> tuple[TokenRecord, ...] | None:
    listed = answer.get("logprobs")
    return None if listed is None else content_records(listed, field, "logprobs")


def _ending(answer: Mapping[str, Any], field: Field) -> dict[str, Any]:
    return {
        "finish": field.text_or_none(answer.get("done_reason"), "done_reason"),
        "prompt_tokens": field.integer(answer.get("prompt_eval_count"), "prompt_eval_count"),
        "completion_tokens": field.integer(answer.get("eval_count"), "eval_count"),
        "claims": tuple((name, answer[name]) for name in ("model",) if isinstance(answer.get(name), str)),
    }


def _parse_stream(ask: Ask, exchange: Exchange) -> list[Completion]:
    field = Field(exchange)
    partial = Partial()
    try:
        for at_s, event in line_objects(exchange):
            said = field.text(event.get("response"), "response")
            partial.add(at_s, said, _entries(event, field), None, wanted=ask.alternatives > 0)
            if event.get("done") is True:
                partial.ended, partial.last = True, event
    except StreamError as e:
        return refusal(ask, exchange, str(e))
    if not partial.ended:
        raise broken_off(exchange, "no line says done")
    return [
        Completion(
            ask,
            exchange.number,
            exchange.path,
            exchange.status or 0,
            text="".join(partial.texts),
            tokens=tuple(partial.tokens),
            arrivals=tuple(partial.arrivals),
            event_tokens=tuple(partial.event_tokens),
            **_ending(partial.last, field),
        )
    ]


DIALECT = Ollama()
