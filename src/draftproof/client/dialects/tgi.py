"""Text Generation Inference: its native /generate with details, ids and alternatives; and OpenAI's chat route."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from draftproof.client.answers import Partial, StreamError, all_answers, broken_off, refusal, stream_objects
from draftproof.client.described import draft_metrics, scalar, text, whole
from draftproof.client.dialect import Call, Description, Dialect, Survey
from draftproof.client.dialects.openai import OpenAI
from draftproof.client.openai_wire import CHAT, parse_openai
from draftproof.client.wire import Field, answer_json
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.errors import InstrumentError
from draftproof.core.exchange import Exchange
from draftproof.core.sampling import Sampling
from draftproof.core.tokens import Alternative, TokenRecord

NATIVE = "/generate"
_STREAMED = "/generate_stream"
_FINISH = {"eos_token": "stop", "stop_sequence": "stop"}


@dataclass(frozen=True, slots=True)
class TGI(OpenAI):
    """Prompts are text. Five alternatives at most, unless the server was started with more."""

    name: str = "tgi"
    paths: tuple[str, ...] = ("/info", "/metrics")
    routes: tuple[str, ...] = (NATIVE, CHAT)
    prompt_routes: tuple[str, ...] = (NATIVE,)

    def recognise(self, survey: Survey) -> str:
        info = survey.obj("/info")
        if info.get("router") == "text-generation-router":
            return "/info says router text-generation-router"
        return "/info has model_id and max_best_of" if {"model_id", "max_best_of"} <= info.keys() else ""

    def adapted(self, survey: Survey) -> Dialect:
        return replace(self, model=text(survey.obj("/info").get("model_id")) or "tgi")

    def describe(self, survey: Survey) -> Description:
        info = survey.obj("/info")
        said: list[tuple[str, Scalar]] = [
            (f"/info {name}", scalar(info[name])) for name in ("speculate",) if name in info
        ]
        return Description(
            build=text(info.get("version")),
            model=text(info.get("model_id")),
            context=whole(info.get("max_total_tokens")),
            slots=whole(info.get("max_concurrent_requests")),
            self_reports=(*said, *draft_metrics(survey)),
        )

    def call(self, ask: Ask, route: str) -> Call:
        if route != NATIVE:
            return OpenAI.call(self, ask, route)
        if not isinstance(ask.prompt, str) or ask.answers > 1:
            raise InstrumentError(f"{route} of this server takes one text, not token ids or several prompts.")
        parameters = _sampling(ask.sampling) | {
            "max_new_tokens": ask.max_tokens,
            "details": True,
            "return_full_text": False,
            "decoder_input_details": ask.echo,
        }
        if ask.alternatives:
            parameters["top_n_tokens"] = ask.alternatives
        if ask.seed is not None:
            parameters["seed"] = ask.seed
        if ask.stop:
            parameters["stop"] = list(ask.stop)
        parameters |= dict(ask.extra)
        return Call.of(_STREAMED if ask.stream else NATIVE, {"inputs": ask.prompt, "parameters": parameters})

    def parse(self, ask: Ask, exchange: Exchange) -> list[Completion]:
        if exchange.path not in (NATIVE, _STREAMED):
            return parse_openai(ask, exchange)
        if exchange.status is None or not 200 <= exchange.status < 300:
            return refusal(ask, exchange)
        if ask.stream:
            return _parse_stream(ask, exchange)
        field = Field(exchange)
        body = answer_json(exchange)
        answers = dict(enumerate(field.objs(body if isinstance(body, list) else [body], "the answer")))
        if answers and answers[0].get("error"):
            return refusal(ask, exchange)
        all_answers(ask, exchange, answers)
        details = field.obj_or_none(answers[0].get("details"), "details")
        own = [_entry(t, field) for t in field.objs(details.get("tokens") or [], "details.tokens")]
        listed = details.get("top_tokens")
        tokens = _with_alternatives(own, None if listed is None else list(listed), field)
        return [
            Completion(
                ask,
                exchange.number,
                NATIVE,
                exchange.status or 0,
                text=field.text(answers[0].get("generated_text"), "generated_text"),
                tokens=tokens if ask.alternatives else (),
                prompt=tuple(
                    TokenRecord(e.id, e.text, None, e.logprob, None)
                    for e in (_entry(t, field) for t in field.objs(details.get("prefill") or [], "details.prefill"))
                ),
                token_ids=_ids(own),
                **_ending(details, field),
            )
        ]


def _sampling(s: Sampling) -> dict[str, Any]:
    """Neutral values are left out: it refuses a temperature of 0, a top-p of 1 and a top-k of 0, and has none by default."""
    given = (
        ("top_k", s.top_k, 0),
        ("top_p", s.top_p, 1.0),
        ("typical_p", s.typical_p, 1.0),
        ("repetition_penalty", s.repeat_penalty, 1.0),
        ("frequency_penalty", s.frequency_penalty, 0.0),
    )
    body: dict[str, Any] = {name: value for name, value, neutral in given if value != neutral}
    if s.temperature not in (0.0, 1.0):
        body["temperature"] = s.temperature
    return body | {"do_sample": s.temperature > 0}


def _entry(value: Mapping[str, Any], field: Field) -> Alternative:
    return Alternative(
        field.integer(value.get("id"), "id"),
        field.text(value.get("text"), "token.text"),
        field.number(value.get("logprob"), "logprob"),
    )


def _with_alternatives(own: list[Alternative], listed: list[Any] | None, field: Field) -> tuple[TokenRecord, ...]:
    """`listed` holds a list per token; None where the answer had none."""
    if listed is None:
        return tuple(TokenRecord(e.id, e.text, None, e.logprob, None) for e in own)
    if len(listed) != len(own):
        raise field.wrong("details.top_tokens", listed, f"a list of {len(own)}, as many as there are tokens")
    return tuple(
        TokenRecord(e.id, e.text, None, e.logprob, tuple(_entry(t, field) for t in field.objs(some, "top_tokens")))
        for e, some in zip(own, listed, strict=True)
    )


def _ids(entries: list[Alternative]) -> tuple[int, ...] | None:
    ids = tuple(e.id for e in entries if e.id is not None)
    return ids if entries and len(ids) == len(entries) else None


def _ending(details: Mapping[str, Any], field: Field) -> dict[str, Any]:
    reason = field.text_or_none(details.get("finish_reason"), "finish_reason")
    return {
        "finish": None if reason is None else _FINISH.get(reason, reason),
        "prompt_tokens": field.integer(details.get("input_length"), "input_length"),
        "completion_tokens": field.integer(details.get("generated_tokens"), "generated_tokens"),
        "claims": (("seed", scalar(details["seed"])),) if "seed" in details else (),
    }


def _parse_stream(ask: Ask, exchange: Exchange) -> list[Completion]:
    field = Field(exchange)
    partial = Partial()
    own: list[Alternative] = []
    try:
        for at_s, event in stream_objects(exchange):
            entry = _entry(field.obj(event.get("token"), "token"), field)
            own.append(entry)
            listed = event.get("top_tokens")
            record = _with_alternatives([entry], None if listed is None else [listed], field)
            partial.add(at_s, entry.text, record if ask.alternatives else None, None, wanted=False)
            if event.get("generated_text") is not None:
                partial.ended, partial.last = True, event
    except StreamError as e:
        return refusal(ask, exchange, str(e))
    if not partial.ended:
        raise broken_off(exchange, "no event holds the generated text")
    details = field.obj_or_none(partial.last.get("details"), "details")
    return [
        Completion(
            ask,
            exchange.number,
            NATIVE,
            exchange.status or 0,
            text=field.text(partial.last["generated_text"], "generated_text"),
            tokens=tuple(partial.tokens),
            token_ids=_ids(own),
            arrivals=tuple(partial.arrivals),
            event_tokens=tuple(partial.event_tokens),
            **_ending(details, field),
        )
    ]


DIALECT = TGI()
