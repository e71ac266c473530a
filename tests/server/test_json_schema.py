"""JSON schemas as grammars: what a grammar lets through is what the schema allows, and what cannot be said is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from tests.engine.libllama.models import smollm2

from draftproof.engine.libllama import Grammar, Model, load_library
from draftproof.engine.libllama.errors import GrammarRejected
from draftproof.server.errors import Refusal
from draftproof.server.json_schema import gbnf

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "age": {"type": "integer", "minimum": 0},
        "mood": {"enum": ["good", 'bad "\\\n', None]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "tags"],
}
TREE = {
    "$defs": {
        "node": {"type": "object", "properties": {"value": {"type": "number"}, "left": {"$ref": "#/$defs/node"}}}
    },
    "$ref": "#/$defs/node",
}
FITTING: list[tuple[Any, list[Any]]] = [
    (
        PERSON,
        [{"name": "Ann", "age": 3, "mood": "good", "tags": ["a", "b"]}, {"name": "Bo", "mood": None, "tags": [""]}],
    ),
    (PERSON, [{"name": "Ann", "mood": 'bad "\\\n', "tags": ["x"]}]),
    (TREE, [{}, {"value": -1.5e3}, {"left": {"left": {"value": 0}}}, {"value": 1, "left": {}}]),
    (
        {"type": "object", "properties": {"a": {}, "b": True}},
        [{}, {"a": [1, {"x": None}]}, {"b": "é"}, {"a": 1, "b": 2}],
    ),
    ({"type": "object", "additionalProperties": {"type": "boolean"}}, [{}, {"x": True, "y": False}]),
    ({"type": "object", "additionalProperties": False}, [{}]),
    ({"type": ["string", "null"]}, ["a", None]),
    ({"anyOf": [{"type": "integer"}, {"const": {"a": [1, 2]}}]}, [-7, {"a": [1, 2]}]),
    ({"type": "array", "items": {"type": "integer"}, "maxItems": 3}, [[], [1], [1, 2, 3]]),
    ({"type": "array", "maxItems": 0}, [[]]),
    ({"type": "array", "minItems": 2}, [[1, "a"], [1, 2, 3, 4]]),
    ({"type": "integer", "enum": [1, "x", 2]}, [1, 2]),
    ({"description": "anything"}, [None, True, 1.5, "x", [], {}]),
    ({"properties": {"a": {"type": "null"}}}, [{"a": None}]),
]
OTHERS: list[tuple[Any, list[Any]]] = [
    (PERSON, [{"name": "Ann"}, {"name": "", "tags": ["a"]}, {"name": "Annika", "tags": ["a"]}, {"tags": ["a"]}]),
    (
        PERSON,
        [{"name": "A", "tags": []}, {"name": "A", "tags": ["a"] * 3}, {"name": "A", "age": -1, "tags": ["a"]}, [], 3],
    ),
    (TREE, [{"value": "1"}, {"left": 1}, []]),
    ({"type": "array", "minItems": 2}, [[], [1]]),
    ({"type": "integer"}, [1.5, "1", True]),
    ({"type": "integer", "enum": [1, "x", 2]}, ["x", 3]),
    ({"type": "object", "additionalProperties": False}, [{"a": 1}]),
]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(load_library(), smollm2()) as loaded:
        yield loaded


def takes(model: Model, schema: Any, document: Any) -> bool:
    """Whether the grammar of a schema lets a document through, to its end."""
    with Grammar.parse(model, gbnf(schema)) as grammar:
        try:
            for token in model.vocab.tokenize(
                json.dumps(document, ensure_ascii=False, separators=(",", ":")), add_special=False
            ):
                grammar.accept(token)
        except ValueError:
            return False
        return bool(grammar.allowed([min(model.vocab.eog)])[0])


@pytest.mark.real
@pytest.mark.parametrize(("schema", "documents"), FITTING)
def test_documents_of_the_schema_are_let_through(model: Model, schema: Any, documents: list[Any]) -> None:
    for document in documents:
        jsonschema.validate(document, schema)
        assert takes(model, schema, document), document


@pytest.mark.real
@pytest.mark.parametrize(("schema", "documents"), OTHERS)
def test_other_documents_are_not(model: Model, schema: Any, documents: list[Any]) -> None:
    for document in documents:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, schema)
        assert not takes(model, schema, document), document


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (False, "no schema that any document fits"),
        (5, "no schema"),
        ({"type": "nonsense"}, '"type" must be one of string'),
        ({"type": []}, '"type" names none'),
        ({"type": 5}, "not 5"),
        ({"type": "string", "pattern": "^a$"}, 'at its root: "pattern" is not supported'),
        ({"type": "object", "properties": {"a/b": {"format": "date"}}}, '/properties/a~1b: "format" is not supported'),
        ({"not": {"type": "string"}}, '"not" is not supported'),
        ({"allOf": [{}]}, '"allOf" is not supported'),
        ({"$ref": "https://example.com/x.json"}, "must point into the schema itself"),
        ({"$ref": "#/$defs/no"}, "which is not there"),
        ({"$ref": "#", "type": "object"}, '"type" is not supported beside "$ref"'),
        ({"enum": []}, "not empty"),
        ({"enum": 5}, "must be a list"),
        ({"enum": ["a"], "type": "integer"}, 'no value of the "type"'),
        ({"type": "integer", "minimum": 3}, "only 0 can"),
        ({"type": "string", "minLength": -1}, "from 0 to 1000"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, '"minItems" is above "maxItems"'),
        ({"type": "array", "maxItems": 10**9}, "from 0 to 1000"),
        ({"type": "object", "properties": 5}, '"properties" must be an object'),
        ({"type": "object", "required": ["a"]}, 'names "a"'),
        ({"type": "string", "properties": {}}, '"properties" is not supported'),
    ],
)
def test_what_cannot_be_said_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        gbnf(schema)
    assert words in refusal.value.message
    assert refusal.value.status == 400


def test_a_schema_that_is_too_deep_is_refused() -> None:
    deep: Any = {"type": "string"}
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    with pytest.raises(Refusal, match="deep"):
        gbnf(deep)


@pytest.mark.real
def test_a_schema_that_is_only_itself_does_not_parse(model: Model) -> None:
    with pytest.raises(GrammarRejected):
        Grammar.parse(model, gbnf({"$ref": "#"}))


def test_half_a_surrogate_pair_is_written_as_an_escape() -> None:
    assert '"\\"\\\\ud800\\""' in gbnf({"const": "\ud800"})
