"""No field is swallowed: each one that is known is served or refused, each other one is listed as ignored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.server.loopback import PROMPT, Client

from draftproof.server.errors import Refusal
from draftproof.server.fields import SERVED
from draftproof.server.schema import Body, ChatCompletion, Generate, NativeCompletion, OpenAICompletion, Sampled
from draftproof.server.settings import _alternatives

USER = [{"role": "user", "content": PROMPT}]
ROUTES: dict[str, tuple[type[Body], dict[str, Any]]] = {
    "/completion": (NativeCompletion, {"prompt": PROMPT}),
    "/v1/completions": (OpenAICompletion, {"prompt": PROMPT}),
    "/v1/chat/completions": (ChatCompletion, {"messages": USER}),
}
SERVED_VALUES: dict[str, Any] = {
    "temperature": 0.5,
    "dynatemp_range": 0.2,
    "dynatemp_exponent": 2,
    "top_k": 2,
    "top_p": 0.5,
    "min_p": 0.2,
    "top_n_sigma": 1.5,
    "typical_p": 0.6,
    "xtc_probability": 0.5,
    "xtc_threshold": 0.2,
    "repeat_penalty": 1.4,
    "repeat_last_n": 8,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "dry_multiplier": 1,
    "dry_base": 1.5,
    "dry_allowed_length": 1,
    "dry_penalty_last_n": 16,
    "dry_sequence_breakers": ["a"],
    "mirostat": 2,
    "mirostat_tau": 3,
    "mirostat_eta": 0.2,
    "min_keep": 1,
    "samplers": ["top_k"],
    "logit_bias": [[1, 2.5]],
    "seed": 7,
    "ignore_eos": True,
    "model": "story",
    "n_predict": 3,
    "max_completion_tokens": 3,
    "max_tokens": 3,
    "stop": ["f"],
    "n": 2,
    "n_cmpl": 2,
    "stream": False,
    "stream_options": {"include_usage": True},
    "n_probs": 2,
    "post_sampling_probs": True,
    "return_tokens": True,
    "return_origins": True,
    "return_progress": True,
    "timings_per_token": True,
    "response_fields": ["content", "ignored"],
    "cache_prompt": False,
    "id_slot": 1,
    "speculative": {"n_max": 2},
    "speculative.type": "ngram-simple",
    "speculative.types": "draft-simple",
    "speculative.rule": "match",
    "speculative.n_max": 2,
    "speculative.n_min": 1,
    "speculative.p_min": 0.1,
    "speculative.adaptive": False,
    "speculative.strict": True,
    "prompt": [1, "cd"],
    "echo": True,
    "logprobs": True,
    "top_logprobs": None,
    "messages": USER,
    "chat_template_kwargs": {},
    "add_generation_prompt": False,
    "continue_final_message": False,
    "response_format": {"type": "text"},
    "tools": [],
    "parallel_tool_calls": False,
}
REFUSED_VALUES: dict[str, Any] = {
    "grammar": 'root ::= "a"',
    "json_schema": {"type": "object"},
    "adaptive_target": 0.5,
    "backend_sampling": True,
    "grammar_lazy": True,
    "grammar_triggers": [{}],
    "lora": [{"id": 0, "scale": 1}],
    "n_indent": 2,
    "t_max_predict_ms": 100,
    "best_of": 3,
    "suffix": "x",
    "tool_choice": "required",
    "functions": [{}],
    "function_call": {"name": "f"},
    "audio": {},
    "modalities": ["audio"],
}


COMPANIONS: dict[str, dict[str, Any]] = {
    "stream_options": {"stream": True},
    "post_sampling_probs": {"n_probs": 1},
    "return_progress": {"stream": True},
    "timings_per_token": {"stream": True},
}
"""By field: what it acts on."""
WITHOUT_EFFECT = {("/completion", "stream_options"): "stream_options.include_usage"}
"""By route and field: what is listed as ignored there, and is not elsewhere."""


def fields(model: type[Body]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


CASES = [(route, field) for route, (model, _) in ROUTES.items() for field in fields(model)]


@pytest.mark.parametrize(("route", "field"), CASES)
def test_every_declared_field_is_served_refused_or_listed(drafting: Client, route: str, field: str) -> None:
    body = {**ROUTES[route][1], "max_tokens": 3, "seed": 1}
    if field in SERVED_VALUES:
        answer = drafting.post(route, json={**body, **COMPANIONS.get(field, {}), field: SERVED_VALUES[field]})
        assert answer.status_code == 200, answer.text
        ignored = [WITHOUT_EFFECT[route, field]] if (route, field) in WITHOUT_EFFECT else []
        assert f'"ignored":{json.dumps(ignored)}' in answer.text
    else:
        said = drafting.refused(route, **{**body, field: REFUSED_VALUES[field]})
        assert said


@pytest.mark.parametrize("route", ROUTES)
def test_null_is_the_same_as_absent(drafting: Client, route: str) -> None:
    model, body = ROUTES[route]
    nulls = {name: None for name in fields(model) if name not in body}
    answer = drafting.ask(route, **{**nulls, **body, "max_tokens": 4, "seed": 1, "unheard_of": None})
    assert answer["ignored"] == []


@pytest.mark.parametrize("route", ROUTES)
def test_what_nobody_knows_is_listed_as_ignored(drafting: Client, route: str) -> None:
    body = {**ROUTES[route][1], "max_tokens": 2, "n_keep": 4, "user": "me", "speculative": {"depth": 3}, "model": "gpt"}
    assert drafting.ask(route, **body)["ignored"] == ["model", "n_keep", "speculative.depth", "user"]
    last = [e for e in drafting.events(route, **body) if e != "[DONE]"][-1]
    assert last["ignored"] == ["model", "n_keep", "speculative.depth", "user"]


def test_a_field_that_is_refused_takes_its_neutral_values(drafting: Client) -> None:
    for route, (model, body) in ROUTES.items():
        for name, field in model.model_fields.items():
            extra = field.json_schema_extra
            if isinstance(extra, dict) and SERVED in extra:
                values = extra[SERVED]
                assert isinstance(values, list)
                for value in values:
                    drafting.ask(route, **{**body, "max_tokens": 1, name: value})


def test_as_many_choices_as_are_the_best_of_are_all_of_them(drafting: Client) -> None:
    answer = drafting.ask("/v1/completions", prompt=PROMPT, max_tokens=2, n=2, best_of=2)
    assert len(answer["choices"]) == 2
    assert "'best_of'" in drafting.refused("/v1/completions", prompt=PROMPT, max_tokens=2, n=2, best_of=3)


BAD: dict[str, list[Any]] = {
    "temperature": ["x", True, [], 1e999],
    "top_k": [1.5, "3", True],
    "min_p": [-0.1, 1.1],
    "top_p": [-1],
    "repeat_penalty": [0, -1],
    "repeat_last_n": [-2],
    "mirostat": [3, -1],
    "samplers": [["nonsense"], "z", 5],
    "logit_bias": [[[1]], [[8, 1]], [[-1, 1]], {"99": 1}, [[1, True]], 5, [["a", "b"]], [[1.5, 1]]],
    "seed": ["x", 1.5, 2**64],
    "n_predict": [-2, "x", 1.5, 2**31],
    "n": [0, -1, 129],
    "stop": [5, [5], ["x"] * 65],
    "n_probs": [-1, "x"],
    "id_slot": [2, -2],
    "dry_sequence_breakers": ["x", [5]],
    "speculative": ["x", 5],
    "speculative.type": ["nonsense"],
    "speculative.rule": ["nonsense"],
    "speculative.n_max": [-1, "x"],
    "speculative.p_min": [-1, 7],
    "response_format": [{"type": "weird"}, 5],
    "prompt": ["", [], [[]], [8], [-1], [1.5], [True], {}, {"prompt_string": 5}, None, 5, "xyz", [[[1]]], "\ud800"],
}


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in BAD.items() for v in values], ids=str)
def test_a_wrong_value_is_refused_by_name(plain: Client, field: str, value: Any) -> None:
    said = plain.post("/completion", content=json.dumps({"prompt": PROMPT, "n_predict": 2, field: value}))
    assert said.status_code == 400, said.text
    assert said.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("n_probs", NativeCompletion(prompt="a", n_probs=4097)),
        ("logprobs", OpenAICompletion(prompt="a", logprobs=4097)),
        ("top_logprobs", ChatCompletion(messages=[], logprobs=True, top_logprobs=4097)),
    ],
)
def test_too_many_alternatives_are_refused_by_name_unless_the_vocabulary_is_small(field: str, body: Generate) -> None:
    with pytest.raises(Refusal, match=f"'{field}'.*4096"):
        _alternatives(body, 9000)
    assert _alternatives(body, 4000) == 4097


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = sorted({name for model, _ in ROUTES.values() for name in fields(model)} - {"n", "n_cmpl"})


EXTREMES = [2**31, -(2**31), 2**63, -(2**64), 10**400, 1e-320, 1e-40, 1e38, -1e300, 1.7e308]


@pytest.mark.parametrize("value", EXTREMES)
def test_no_extreme_number_breaks_the_server(drafting: Client, value: float) -> None:
    """Alone, and beside samplers that work on what it made of the logits."""
    at_work = {"repeat_penalty": 2, "dry_multiplier": 1, "temperature": 0.5, "typical_p": 0.5, "top_n_sigma": 1}
    for name in sorted({*fields(Sampled), "n_probs", "id_slot", "speculative.n_max", "speculative.p_min"}):
        for beside in ({}, at_work, {"mirostat": 1}):
            asked = {**beside, name: [[0, value]] if name == "logit_bias" else value}
            answer = drafting.post("/completion", json={"prompt": PROMPT, "n_predict": 3, "seed": 1, **asked})
            assert answer.status_code in (200, 400), (asked, answer.text)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(route=st.sampled_from(sorted(ROUTES)), body=st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=6), ANY))
def test_no_body_breaks_the_server(drafting: Client, route: str, body: dict[str, Any]) -> None:
    whole = {**ROUTES[route][1], **body, "stream": False, "max_tokens": 2, "max_completion_tokens": 2, "n_predict": 2}
    answer = drafting.post(route, content=json.dumps(whole))
    assert answer.status_code in (200, 400), answer.text
