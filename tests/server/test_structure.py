"""What formats of answers become: grammars, and schemas that leave out what they do not name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from draftproof.server.errors import Refusal
from draftproof.server.schema import NativeCompletion
from draftproof.server.structure import read_grammar


def schema_of(**asked: Any) -> Any:
    """The schema in the grammar that a request gets."""
    grammar = read_grammar(NativeCompletion.read({"prompt": "x", **asked}))
    assert grammar.startswith("%llguidance {}\nstart: %json ")
    return json.loads(grammar.partition("%json ")[2])


def formatted(schema: Any) -> Any:
    found = schema_of(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    assert list(found.pop("x-guidance")) == ["whitespace_pattern"]
    return found


OPEN = {
    "properties": {"a": {"type": "array", "items": {"properties": {"b": {}}}}, "c": {"$ref": "#/$defs/d"}},
    "$defs": {"d": {"anyOf": [{"properties": {"e": True}}, {"type": "null"}]}},
}


def test_what_a_schema_does_not_name_is_left_out_of_a_response_format() -> None:
    assert formatted(OPEN) == {
        "properties": {
            "a": {"type": "array", "items": {"properties": {"b": {}}, "additionalProperties": False}},
            "c": {"$ref": "#/$defs/d"},
        },
        "$defs": {"d": {"anyOf": [{"properties": {"e": True}, "additionalProperties": False}, {"type": "null"}]}},
        "additionalProperties": False,
    }


def test_what_a_schema_says_of_other_properties_holds() -> None:
    for more in ({"additionalProperties": True}, {"additionalProperties": {"type": "null"}}, {"$ref": "#/$defs/d"}):
        schema = {"properties": {"a": {}}, **more}
        assert formatted(schema) == schema
    together: dict[str, Any] = {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}
    assert formatted(together) == together
    parts = [{"properties": {name: {"type": "null"}}, "required": [name]} for name in "bc"]
    beside: dict[str, Any] = {"properties": {"a": {}}, "required": ["a"], "anyOf": parts}
    assert formatted({"items": beside}) == {"items": beside}


def test_a_schema_in_the_field_of_its_own_is_taken_as_it_is() -> None:
    assert schema_of(json_schema=OPEN) == OPEN


def test_names_of_properties_are_no_keywords() -> None:
    named = {"properties": {"items": {"type": "string"}, "properties": {"enum": [{"properties": {}}]}}}
    assert formatted(named) == {**named, "additionalProperties": False}


def test_where_nothing_is_said_it_is_any_object() -> None:
    assert schema_of(json_schema={}) == schema_of(json_schema=True) == {"type": "object"}
    formats: list[dict[str, Any]] = [{}, {"json_schema": {}}, {"json_schema": {"schema": {}}}]
    assert [schema_of(response_format={"type": "json_schema", **f})["type"] for f in formats] == ["object"] * 3
    assert schema_of(response_format={"type": "json_object"})["type"] == "object"


def test_how_much_space_there_may_be_is_the_schemas_to_say() -> None:
    spaces = {"x-guidance": {"whitespace_flexible": False}}
    assert schema_of(response_format={"type": "json_object", "schema": spaces}) == spaces


@pytest.mark.parametrize("field", ["json_schema", "response_format"])
def test_a_schema_that_is_nested_too_deeply_is_refused(field: str) -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"items": deep}
    with pytest.raises(Refusal, match="nested too deeply"):
        schema_of(**{field: deep if field == "json_schema" else {"type": "json_object", "schema": deep}})
