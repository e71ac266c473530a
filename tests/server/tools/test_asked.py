"""What requests say of tools: what becomes of it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.tools.templates import APART, BARE, LISTED, MARKED, form_of, tool

from draftproof.engine.guidance import grammar_of
from draftproof.server.errors import Refusal
from draftproof.server.schema import ChatCompletion
from draftproof.server.tools.asked import Calling, read_calling
from draftproof.server.vocabulary import Letters

USER = [{"role": "user", "content": "hello"}]
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [tool("get_weather", WEATHER), tool("now")]
CITY = '"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false'
SPACE = '"x-guidance":{"whitespace_pattern":" |\\\\n[ \\\\t]{0,20}"}'


class WithMarks(Letters):
    """One control token, which is not shown."""

    def piece(self, token: int, *, special: bool = True) -> bytes:
        return b"" if token == 1 and not special else super().piece(token, special=special)


VOCABULARY = WithMarks((b"a", b"[TOOL_CALLS]", b"["))


def calling(source: str = MARKED, **asked: Any) -> Calling | None:
    request = ChatCompletion.read({"messages": USER, "tools": TOOLS, **asked})
    return read_calling(request, form_of(source), VOCABULARY)


def grammar(source: str = MARKED, **asked: Any) -> list[str]:
    found = calling(source, **asked)
    assert found is not None
    assert found.grammar.startswith("%llguidance {}\n")
    return found.grammar.splitlines()[1:]


def test_grammar() -> None:
    between = '"}\\n</tool_call>\\n<tool_call>\\n{\\"name\\": \\""'
    assert grammar() == [
        "start: calls",
        f'calls: "<tool_call>\\n{{\\"name\\": \\"" call ({between} call)* "}}\\n</tool_call>"',
        "call: call_0 | call_1",
        'call_0: "get_weather" "\\", \\"arguments\\": " arguments_0',
        f"arguments_0: %json {{{SPACE},{CITY}}}",
        'call_1: "now" "\\", \\"arguments\\": " arguments_1',
        f'arguments_1: %json {{{SPACE},"type":"object","properties":{{}},"additionalProperties":false}}',
    ]


def test_control_tokens_are_written_as_such_and_shown() -> None:
    found = calling(LISTED)
    assert found is not None
    assert found.shown == {1}
    lines = grammar(LISTED)
    assert lines[1].startswith('calls: <[1]> " [{\\"name\\": \\"" call ("\\"}, {\\"name\\": \\"" call)*')
    assert lines[-1] == "ID: /[a-zA-Z0-9]{9}/"
    assert lines[3].endswith(' arguments_0 ", \\"id\\": \\"" ID')
    assert grammar(APART)[1] == "calls: <[1]> call (<[1]> call)* "


def test_how_many_calls_there_may_be() -> None:
    assert "call)*" in grammar(parallel_tool_calls=True)[1]
    assert "call)*" not in grammar(parallel_tool_calls=False)[1]
    assert "call)*" not in grammar(BARE)[1]
    chosen = {"type": "function", "function": {"name": "now"}}
    assert "call)*" not in grammar(tool_choice=chosen)[1]
    assert "call)*" in grammar(tool_choice=chosen, parallel_tool_calls=True)[1]


def test_a_document_may_stand_in_place_of_calls() -> None:
    request = ChatCompletion.read({"messages": USER, "tools": TOOLS})
    document = grammar_of({"type": "array"})
    found = read_calling(request, form_of(MARKED), VOCABULARY, document)
    assert found is not None
    assert found.at_once
    assert found.grammar.splitlines()[1:3] == ["start: calls | document", 'document: %json {"type":"array"}']
    request = ChatCompletion.read({"messages": USER, "tools": TOOLS, "tool_choice": "required"})
    found = read_calling(request, form_of(MARKED), VOCABULARY, document)
    assert found is not None
    assert found.grammar.splitlines()[1] == "start: calls"
    for other in ('root ::= "a"', "%llguidance {}\nstart: /a/", f"{document}\nmore: /a/"):
        with pytest.raises(Refusal, match="not for both"):
            read_calling(request, form_of(MARKED), VOCABULARY, other)


def test_choice() -> None:
    for choice, at_once in ((None, False), ("auto", False), ("required", True)):
        found = calling(tool_choice=choice)
        assert found is not None
        assert (found.at_once, found.names) == (at_once, ("get_weather", "now"))
    assert calling(tool_choice="none") is None
    found = calling(tool_choice={"type": "function", "function": {"name": "now"}})
    assert found is not None
    assert (found.at_once, found.names) == (True, ("now",))


@pytest.mark.parametrize("asked", [{"tools": None}, {"tools": []}, {"tools": None, "tool_choice": "auto"}])
def test_without_tools_nothing_is_called(asked: dict[str, Any]) -> None:
    assert calling(**asked) is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tools": [{"type": "web_search"}]}, "each must be"),
        ({"tools": [{"type": "function"}]}, "each must be"),
        ({"tools": [tool("a b")]}, "'a b'"),
        ({"tools": [tool('a"b')]}, "the name of a function"),
        ({"tools": [{"type": "function", "function": {"name": 3}}]}, "3"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}, "parameters of f"),
        ({"tools": [tool("f"), tool("f")]}, "the same name"),
        ({"tools": [tool(f"f{i}") for i in range(129)]}, "'tools'"),
        ({"tools": [], "tool_choice": "required"}, "no tools"),
        ({"tool_choice": "always"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "then"}}}, "no tool 'then'"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
    ],
)
def test_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal, match=said):
        calling(**asked)


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"items": deep}
    with pytest.raises(Refusal, match="nested too deeply"):
        calling(tools=[tool("f", deep)])


def test_a_template_without_tools_is_named() -> None:
    request = ChatCompletion.read({"messages": USER, "tools": TOOLS})
    with pytest.raises(Refusal, match="--chat-template-file"):
        read_calling(request, None, VOCABULARY)
