"""What has no effect stands in `ignored`, and what has one does not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.loopback import PROMPT, Client
from tests.server.test_schema import USER

NATIVE, OPENAI, CHAT = "/completion", "/v1/completions", "/v1/chat/completions"
JSON_TEXT = {"type": "text", "schema": {"type": "object"}}
CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    (NATIVE, {"n_predict": 3, "max_tokens": 5, "max_completion_tokens": 3}, ["max_tokens"]),
    (CHAT, {"max_completion_tokens": 3, "max_tokens": 5}, ["max_tokens"]),
    (NATIVE, {"n_predict": 3, "max_tokens": 3}, []),
    (OPENAI, {"n_cmpl": 2, "n": 3}, ["n"]),
    (OPENAI, {"logprobs": 3, "n_probs": 2}, ["n_probs"]),
    (OPENAI, {"logprobs": 2, "n_probs": 2}, []),
    (OPENAI, {"logprobs": False, "n_probs": 2}, ["logprobs"]),
    (CHAT, {"logprobs": True, "top_logprobs": 1, "n_probs": 2}, ["n_probs"]),
    (CHAT, {"logprobs": False, "top_logprobs": 0, "n_probs": 2}, ["logprobs", "top_logprobs"]),
    (CHAT, {"logprobs": False, "top_logprobs": 0}, []),
    (NATIVE, {"post_sampling_probs": True}, ["post_sampling_probs"]),
    (NATIVE, {"post_sampling_probs": True, "n_probs": 1}, []),
    (OPENAI, {"post_sampling_probs": True, "logprobs": 0}, []),
    (NATIVE, {"return_progress": True, "timings_per_token": True}, ["return_progress", "timings_per_token"]),
    (NATIVE, {"return_progress": True, "timings_per_token": True, "stream": True}, []),
    (CHAT, {"return_progress": False, "timings_per_token": False}, []),
    (OPENAI, {"stream_options": {"include_usage": True}}, ["stream_options.include_usage"]),
    (OPENAI, {"stream_options": {"include_usage": False}}, []),
    (OPENAI, {"stream_options": {"include_usage": True}, "stream": True}, []),
    (NATIVE, {"stream_options": {"include_usage": True}, "stream": True}, ["stream_options.include_usage"]),
    (NATIVE, {"dry_base": 0.5, "dry_multiplier": 1}, ["dry_base"]),
    (NATIVE, {"prompt": {"prompt_string": "b", "x": 1, "y": None}}, ["prompt.x"]),
    (NATIVE, {"prompt": ["b", {"prompt_string": "b", "x": 1}]}, ["prompt.x"]),
    (NATIVE, {"response_format": JSON_TEXT}, ["response_format.schema"]),
    (NATIVE, {"response_format": {"type": "text", "json_schema": {"schema": {}}}}, ["response_format.json_schema"]),
    (CHAT, {"messages": [{"role": "user", "content": "b", "x": 1}]}, ["messages.x"]),
    (
        CHAT,
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "b", "x": 1}]}]},
        ["messages.content.x"],
    ),
    (CHAT, {"chat_template_kwargs": {"messages": [], "bos_token": "x"}}, ["bos_token", "messages"]),
    (CHAT, {"chat_template_kwargs": {"enable_thinking": False, "x": None}}, ["enable_thinking"]),
]


@pytest.mark.parametrize(("route", "asked", "ignored"), CASES, ids=str)
def test_what_has_no_effect_is_listed(plain: Client, route: str, asked: dict[str, Any], ignored: list[str]) -> None:
    body: dict[str, Any] = {"messages": USER} if route == CHAT else {"prompt": PROMPT}
    if not {"n_predict", "max_completion_tokens"} & asked.keys():
        body["max_tokens"] = 2
    if "chat_template_kwargs" in asked:
        ignored = [f"chat_template_kwargs.{name}" for name in ignored]
    whole = {**body, **asked}
    told = (
        [e for e in plain.events(route, **whole) if "ignored" in e]
        if whole.get("stream")
        else plain.ask(route, **whole)
    )
    told = told if isinstance(told, list) else [told]
    assert [one["ignored"] for one in told] == [ignored] * len(told)
    assert told


def test_a_setting_of_speculation_must_not_be_there_twice(plain: Client, drafting: Client) -> None:
    twice: dict[str, Any] = {"speculative": {"type": "ngram-simple"}, "speculative.type": "draft-simple"}
    for client in (plain, drafting):
        said = client.refused(prompt=PROMPT, **twice)
        assert "'speculative.type'" in said
        assert "ngram-simple" in said
        lengths: dict[str, Any] = {"speculative": {"n_max": 2, "type": "draft-simple"}}
        assert "'speculative.n_max'" in client.refused(prompt=PROMPT, **(lengths | {"speculative.n_max": 3}))
        client.ask(prompt=PROMPT, n_predict=2, **(lengths | {"speculative.n_max": 2}))


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/tokenize", {"content": "b"}),
        ("/tokenize", {"prompt": "b"}),
        ("/detokenize", {"tokens": [1]}),
        ("/apply-template", {"messages": USER}),
    ],
    ids=str,
)
def test_routes_that_make_no_text_tell_it_too(plain: Client, route: str, body: dict[str, Any]) -> None:
    assert plain.ask(route, **body)["ignored"] == []
    assert plain.ask(route, **body, unheard_of=1, nothing=None)["ignored"] == ["unheard_of"]
