"""SGLang: its native /generate, which deals in token ids, scores prompts and counts drafts; and OpenAI's routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from draftproof.client.answers import Partial, StreamError, all_answers, broken_off, refusal, single, stream_objects
from draftproof.client.described import draft_metrics, model_names, owner, scalar, text, whole
from draftproof.client.dialect import Call, Description, Dialect, Survey
from draftproof.client.dialects.openai import OpenAI
from draftproof.client.openai_ask import biases
from draftproof.client.openai_wire import CHAT, COMPLETIONS, draft_counts, parse_openai
from draftproof.client.wire import Field, answer_json
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.exchange import Exchange
from draftproof.core.sampling import Sampling
from draftproof.core.tokens import Alternative, TokenRecord

NATIVE = "/generate"
_INFO = ("/server_info", "/get_server_info")
_MODEL = ("/model_info", "/get_model_info")


@dataclass(frozen=True, slots=True)
class SGLang(OpenAI):
    """A seed is kept only where the server was started for deterministic inference; that is tried out.

    No grammar is sent: its logprobs are of the law after the grammar. `deltas`: events of a stream hold only what is new, an option
    of the server; by default they hold everything so far.
    """

    name: str = "sglang"
    paths: tuple[str, ...] = (*_INFO, *_MODEL, "/metrics")
    routes: tuple[str, ...] = (NATIVE, COMPLETIONS, CHAT)
    token_routes: tuple[str, ...] = (NATIVE,)
    batch_routes: tuple[str, ...] = (NATIVE,)
    prompt_routes: tuple[str, ...] = (NATIVE,)
    reports_drafts: bool = True
    deltas: bool = False

    def recognise(self, survey: Survey) -> str:
        if owner(survey) == "sglang":
            return "/v1/models says owned_by sglang"
        for path in _MODEL:
            if {"model_path", "is_generation"} <= survey.obj(path).keys():
                return f"{path} has model_path and is_generation"
        return ""

    def adapted(self, survey: Survey) -> Dialect:
        info = next((survey.obj(p) for p in _INFO if survey.obj(p)), {})
        deltas = any(info.get(name) is True for name in ("incremental_streaming_output", "stream_output"))
        return replace(self, model=next(iter(model_names(survey)), ""), deltas=deltas)

    def describe(self, survey: Survey) -> Description:
        path = next((p for p in _INFO if survey.obj(p)), _INFO[0])
        info = survey.obj(path)
        described = OpenAI.describe(self, survey)
        model = next((text(survey.obj(p).get("model_path")) for p in _MODEL if survey.obj(p)), None)
        return Description(
            build=text(info.get("version")),
            model=model or next(iter(model_names(survey)), None),
            context=described.context or whole(info.get("context_length")),
            slots=whole(info.get("max_running_requests")),
            self_reports=(*_settings(path, info), *draft_metrics(survey)),
        )

    def call(self, ask: Ask, route: str) -> Call:
        if route != NATIVE:
            return OpenAI.call(self, ask, route)
        prompts = [p if isinstance(p, str) else list(p) for p in (ask.prompt, *ask.also)] * ask.count
        name = "text" if isinstance(ask.prompt, str) else "input_ids"
        bulk = ask.answers > 1
        # One set of sampling parameters per prompt, so that each answer of a batch has its own seed.
        samplings = [
            _sampling(ask.sampling) | _limits(ask, None if ask.seed is None else ask.seed + (i if ask.count > 1 else 0))
            for i in range(ask.answers)
        ]
        body: dict[str, Any] = {
            name: prompts if bulk else prompts[0],
            "sampling_params": samplings if bulk else samplings[0],
            "stream": ask.stream,
        }
        if ask.alternatives or ask.echo:
            body |= {
                "return_logprob": True,
                "top_logprobs_num": ask.alternatives,
                "return_text_in_logprobs": True,
                "logprob_start_len": 0 if ask.echo else -1,
            }
        return Call.of(route, body | dict(ask.extra))

    def parse(self, ask: Ask, exchange: Exchange) -> list[Completion]:
        if exchange.path != NATIVE:
            return parse_openai(ask, exchange)
        if exchange.status is None or not 200 <= exchange.status < 300:
            return refusal(ask, exchange)
        if ask.stream:
            return _parse_stream(ask, exchange, deltas=self.deltas)
        field = Field(exchange)
        body = answer_json(exchange)
        if isinstance(body, dict) and body.get("error"):
            return refusal(ask, exchange)
        answers = dict(enumerate(field.objs(body if isinstance(body, list) else [body], "the answer")))
        all_answers(ask, exchange, answers)
        return [_completion(ask, exchange, answers[i], i, field) for i in range(ask.answers)]

    def tokenize_call(self, text: str) -> Call | None:
        return Call.of("/tokenize", {"model": self.model, "prompt": text, "add_special_tokens": False})

    def parse_ids(self, exchange: Exchange) -> tuple[int, ...] | None:
        if exchange.status != 200:
            return None
        field = Field(exchange)
        return field.ids(field.obj(answer_json(exchange), "the answer").get("tokens"), "tokens")


def _sampling(s: Sampling) -> dict[str, Any]:
    body: dict[str, Any] = {
        "temperature": s.temperature,
        "top_p": s.top_p,
        "top_k": s.top_k or -1,
        "min_p": s.min_p,
        "repetition_penalty": s.repeat_penalty,
        "presence_penalty": s.presence_penalty,
        "frequency_penalty": s.frequency_penalty,
    }
    if s.logit_bias:
        body["logit_bias"] = biases(s)
    return body


def _limits(ask: Ask, seed: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {"max_new_tokens": ask.max_tokens}
    if seed is not None:
        body["sampling_seed"] = seed
    if ask.stop:
        body["stop"] = list(ask.stop)
    return body


def _settings(path: str, info: Mapping[str, Any]) -> list[tuple[str, Scalar]]:
    """What it says of speculation; null for the algorithm is its word for none."""
    said = {name: scalar(value) for name, value in info.items() if name.startswith("speculative_")}
    if "speculative_algorithm" in said:
        said["speculative_algorithm"] = said["speculative_algorithm"] or "none"
    return [(f"{path} {name}", value) for name, value in said.items()]


def _completion(ask: Ask, exchange: Exchange, answer: Mapping[str, Any], i: int, field: Field) -> Completion:
    meta = field.obj_or_none(answer.get("meta_info"), "meta_info")
    tokens = _records(meta, "output", field) if ask.alternatives else ()
    ids = None if answer.get("output_ids") is None else field.ids(answer["output_ids"], "output_ids")
    return Completion(
        single(ask, i),
        exchange.number,
        exchange.path,
        exchange.status or 0,
        text=field.text(answer.get("text"), "text"),
        tokens=tokens,
        prompt=_records(meta, "input", field) if ask.echo else (),
        token_ids=_listed_ids(tokens) if ids is None else ids,
        **_ending(meta, field),
    )


def _ending(meta: Mapping[str, Any], field: Field) -> dict[str, Any]:
    reason = meta.get("finish_reason")
    kind = reason.get("type") if isinstance(reason, dict) else reason
    drafted, accepted = draft_counts({"stats": meta}, field)
    claims = tuple((name, scalar(value)) for name, value in meta.items() if name.startswith("spec_"))
    return {
        "finish": field.text_or_none(kind, "meta_info.finish_reason"),
        "prompt_tokens": field.integer(meta.get("prompt_tokens"), "meta_info.prompt_tokens"),
        "completion_tokens": field.integer(meta.get("completion_tokens"), "meta_info.completion_tokens"),
        "drafted": drafted,
        "accepted": accepted,
        "claims": claims,
    }


def _records(meta: Mapping[str, Any], side: str, field: Field) -> tuple[TokenRecord, ...]:
    """`side` input or output: [logprob, id, text] per token, and lists of the same as alternatives."""
    values, listed = meta.get(f"{side}_token_logprobs"), meta.get(f"{side}_top_logprobs")
    if values is None:
        return ()
    entries = [_triple(v, field, f"{side}_token_logprobs") for v in _list(values, field, f"{side}_token_logprobs")]
    if listed is None:
        return tuple(TokenRecord(e.id, e.text, None, e.logprob, None) for e in entries)
    name = f"{side}_top_logprobs"
    tops = _list(listed, field, name)
    if len(tops) != len(entries):
        raise field.wrong(name, listed, f"a list of {len(entries)}, as many as there are tokens")
    return tuple(
        TokenRecord(
            e.id,
            e.text,
            None,
            e.logprob,
            None if top is None else tuple(_triple(v, field, name) for v in _list(top, field, name)),
        )
        for e, top in zip(entries, tops, strict=True)
    )


def _list(value: object, field: Field, name: str) -> list[Any]:
    if isinstance(value, list):
        return value
    raise field.wrong(name, value, "a list")


def _triple(value: object, field: Field, name: str) -> Alternative:
    if not isinstance(value, list) or len(value) != 3:
        raise field.wrong(name, value, "[logprob, token id, text]")
    return Alternative(
        field.integer(value[1], name), field.text_or_none(value[2], name) or "", field.number(value[0], name)
    )


def _listed_ids(tokens: tuple[TokenRecord, ...]) -> tuple[int, ...] | None:
    ids = tuple(t.id for t in tokens if t.id is not None)
    return ids if tokens and len(ids) == len(tokens) else None


def _parse_stream(ask: Ask, exchange: Exchange, *, deltas: bool) -> list[Completion]:
    field = Field(exchange)
    events: dict[int, list[tuple[float, Completion]]] = {}
    try:
        for at_s, body in stream_objects(exchange):
            index = body.get("index", 0)
            place = index if isinstance(index, int) else -1
            made = _completion(ask, exchange, body, place if 0 <= place < ask.answers else 0, field)
            events.setdefault(place, []).append((at_s, made))
    except StreamError as e:
        return refusal(ask, exchange, str(e))
    all_answers(ask, exchange, events)
    return [_joined(exchange, pieces, deltas=deltas) for _, pieces in sorted(events.items())]


def _joined(exchange: Exchange, pieces: list[tuple[float, Completion]], *, deltas: bool) -> Completion:
    """One answer of its events. Where one does not begin like that before it, they hold only what is new, whatever is said."""
    last = pieces[-1][1]
    if last.finish is None:
        raise broken_off(exchange, "no event has a finish reason")
    told = [piece for _, piece in pieces]
    deltas = deltas or not all(map(_begins, told[1:], told))
    partial = Partial()
    text, tokens, ids = 0, 0, 0
    for at_s, piece in pieces:
        new = None if piece.token_ids is None else piece.token_ids[ids:]
        partial.add(at_s, piece.text[text:], piece.tokens[tokens:] or None, new, wanted=last.ask.alternatives > 0)
        if not deltas:
            text, tokens, ids = len(piece.text), len(piece.tokens), len(piece.token_ids or ())
    return replace(
        last,
        text="".join(partial.texts),
        tokens=tuple(partial.tokens),
        prompt=told[0].prompt,
        token_ids=tuple(partial.ids) if partial.has_ids else None,
        arrivals=tuple(partial.arrivals),
        event_tokens=tuple(partial.event_tokens),
    )


def _begins(later: Completion, earlier: Completion) -> bool:
    """Whether an event holds what the one before it held, and as many ids as it says that there are tokens."""
    a, b = earlier.token_ids, later.token_ids
    if a is None or b is None:
        return later.text.startswith(earlier.text)
    return b[: len(a)] == a and later.completion_tokens in (None, len(b))


DIALECT = SGLang()
