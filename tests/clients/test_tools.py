"""Calls of tools through the `openai` client, on a server that speculates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.served import serve
from tests.engine.libllama.models import smollm2
from tests.server.tools.templates import tool

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.real

CHATML = """
{%- if tools %}{{ '<|im_start|>system\\nAnswer with calls of these functions: ' + tools | tojson + '<|im_end|>\\n' }}{% endif %}
{%- for m in messages %}
    {{- '<|im_start|>' + m.role + '\\n' + m.content }}
    {%- for call in m.tool_calls or [] %}
        {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson }}
        {{- '}\\n</tool_call>' }}{% if not loop.last %}{{ '\\n' }}{% endif %}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""
CITY = {"type": "string", "enum": ["Paris", "Rome", "Oslo"]}
DAYS = {"type": "integer", "minimum": 1, "maximum": 9}
WEATHER = {"type": "object", "properties": {"city": CITY, "days": DAYS}, "required": ["city", "days"]}
TOOLS = [tool("get_weather", WEATHER), tool("now")]


def asked(city: str) -> dict[str, Any]:
    return {"role": "user", "content": f"What will the weather be in {city} for 3 days?"}


def answered(city: str, number: int) -> list[dict[str, Any]]:
    """A round of an earlier conversation."""
    arguments = json.dumps({"city": city, "days": 3})
    called = {"id": f"call{number}", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    result = {"role": "tool", "tool_call_id": f"call{number}", "content": "sunny"}
    said = {"role": "assistant", "content": "It will be sunny."}
    return [asked(city), {"role": "assistant", "content": None, "tool_calls": [called]}, result, said]


TALK = [*answered("Paris", 1), *answered("Rome", 2), asked("Oslo")]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    template: Path = tmp_path_factory.mktemp("template") / "chatml.jinja"
    template.write_text(CHATML)
    flags = ("--no-spec-adaptive", "-c", 2048, "--chat-template-file", template)
    with (
        serve("-m", smollm2(), "-md", smollm2(), *flags) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=300) as client,
    ):
        yield client


def ask(client: Any, **body: Any) -> Any:
    default = {"model": "any", "messages": TALK, "tools": TOOLS, "temperature": 0, "max_tokens": 100}
    return client.chat.completions.create(**{**default, **body})


def made(choice: Any) -> str:
    """The text of all tokens that have an entry."""
    return b"".join(bytes(entry.bytes) for entry in choice.logprobs.content).decode()


def test_a_call_has_all_its_logprobs_and_speculation_changes_none(client: Any) -> None:
    answer = ask(client, logprobs=True, top_logprobs=3)
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Oslo", "days": 3}
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None
    assert answer.speculation["accepted"] > 10
    entries = answer.choices[0].logprobs.content
    assert len(entries) == answer.usage.completion_tokens
    assert (
        made(answer.choices[0])
        == f'<tool_call>\n{{"name": "get_weather", "arguments": {call.function.arguments}}}\n</tool_call>'
    )
    plain = ask(client, logprobs=True, top_logprobs=3, extra_body={"speculative": False})
    assert plain.speculation["drafted"] == 0
    assert [(e.token, e.logprob) for e in plain.choices[0].logprobs.content] == [(e.token, e.logprob) for e in entries]


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_stream_tells_the_same(client: Any, choice: str) -> None:
    whole = ask(client, logprobs=True, tool_choice=choice).choices[0]
    name, arguments, content, entries, finish = "", "", "", 0, None
    for chunk in ask(client, logprobs=True, tool_choice=choice, stream=True):
        (told,) = chunk.choices
        content += told.delta.content or ""
        entries += len(told.logprobs.content) if told.logprobs else 0
        finish = told.finish_reason or finish
        for call in told.delta.tool_calls or []:
            assert call.index == 0
            name += call.function.name or ""
            arguments += call.function.arguments
    (expected,) = whole.message.tool_calls
    assert (name, arguments) == (expected.function.name, expected.function.arguments)
    assert (content, finish, entries) == ("", "tool_calls", len(whole.logprobs.content))


def test_what_must_be_called_is_called(client: Any) -> None:
    unasked = [{"role": "user", "content": "Tell me a story about a fox."}]
    answer = ask(client, messages=unasked, tool_choice={"type": "function", "function": {"name": "now"}})
    (call,) = answer.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("now", {})
    for seed in range(3):
        answer = ask(
            client, messages=unasked, tool_choice="required", parallel_tool_calls=False, temperature=2, seed=seed
        )
        (call,) = answer.choices[0].message.tool_calls
        arguments = json.loads(call.function.arguments)
        if call.function.name == "get_weather":
            assert arguments["city"] in CITY["enum"]
            assert 1 <= arguments["days"] <= 9
        else:
            assert (call.function.name, arguments) == ("now", {})


def test_nothing_is_called_where_nothing_may_be_or_wants_to_be(client: Any) -> None:
    answer = ask(client, tool_choice="none")
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].message.content.startswith("<tool_call>")
    unasked = [{"role": "user", "content": "Tell me a story about a fox."}]
    answer = ask(client, messages=unasked, max_tokens=20)
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"


def test_where_nothing_is_called_the_answer_has_its_format(client: Any) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}, "required": ["name"]}
    format_ = {"type": "json_schema", "json_schema": {"name": "fox", "schema": schema}}
    unasked = [{"role": "user", "content": "Tell me a story about a fox."}]
    message = ask(client, messages=unasked, response_format=format_).choices[0].message
    assert list(json.loads(message.content)) == ["name"]
    assert message.tool_calls is None
    (call,) = ask(client, response_format=format_).choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Oslo", "days": 3}
    assert ask(client, messages=unasked, tool_choice="required", response_format=format_).choices[0].message.tool_calls
    message = ask(client, tool_choice="none", response_format=format_).choices[0].message
    assert list(json.loads(message.content)) == ["name"]


def test_what_cannot_be_is_refused(client: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="not for both"):
        ask(client, extra_body={"grammar": 'root ::= "a"'})
    with pytest.raises(openai.BadRequestError, match="uniqueItems"):
        ask(client, tools=[tool("f", {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}})])
