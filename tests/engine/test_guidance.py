"""JSON schemas as grammars: what is let through is what the schema allows, and what cannot be said is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import numpy as np
import pytest
from tests.engine.libllama.models import smollm2

from draftproof.core.errors import UsageError
from draftproof.engine.guidance import Guides, grammar_of
from draftproof.engine.libllama import Model, load_library
from draftproof.server.schema import NativeCompletion
from draftproof.server.structure import read_grammar

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
BOOKED = {
    "type": "object",
    "properties": {
        "when": {"type": "string", "format": "date-time"},
        "seats": {"type": "integer", "minimum": 1, "maximum": 12},
        "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"},
        "by": {"$ref": "#/$defs/guest", "description": "who"},
    },
    "required": ["when", "seats"],
    "additionalProperties": {"type": "integer"},
    "$defs": {"guest": {"type": "object", "properties": {"name": {"type": "string"}}}},
}
KINDS = {
    "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in ("cat", "dog")],
    "discriminator": {"propertyName": "kind"},
    "$defs": {
        kind: {
            "type": "object",
            "title": kind,
            "properties": {"kind": {"const": kind, "type": "string"}, "age": {"type": "integer"}},
            "required": ["kind", "age"],
        }
        for kind in ("cat", "dog")
    },
}
"""A union as pydantic writes it."""
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
    (BOOKED, [{"when": "2024-02-29T10:00:00Z", "seats": 4, "code": "AB-12", "by": {"name": "Ann"}, "x": 1}]),
    (
        {"type": "array", "prefixItems": [{"type": "integer"}, {"const": "a"}], "items": False, "minItems": 2},
        [[5, "a"]],
    ),
    ({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["a"]}], "type": "object"}, [{"a": 1}]),
    ({"type": "number", "exclusiveMinimum": 0.5, "maximum": 2}, [0.51, 1, 2]),
    (KINDS, [{"kind": "dog", "age": 3}]),
    ({"oneOf": [{"properties": {"k": {"const": k}}, "required": ["k"]} for k in "ab"], "type": "object"}, [{"k": "b"}]),
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
    (KINDS, [{"kind": "cow", "age": 3}, {"kind": "cat"}]),
    (BOOKED, [{"when": "2024-02-29T10:00:00Z", "seats": n} for n in (0, 13, 1.5)]),
    (BOOKED, [{"when": "2024-02-29T10:00:00Z", "seats": 1, **more} for more in ({"code": "A-1"}, {"x": "y"})]),
    ({"type": "number", "exclusiveMinimum": 0.5, "maximum": 2}, [0.5, 2.01]),
]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model(load_library(), smollm2()) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def guides(model: Model) -> Guides:
    return Guides(model.vocab)


def takes(guides: Guides, model: Model, schema: Any, document: Any) -> bool:
    """Whether the grammar of a schema lets a document through, to its end."""
    guide = guides.guide(grammar_of(schema))
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    for token in model.vocab.tokenize(text, add_special=False):
        if not guide.allowed(np.array([token]))[0]:
            return False
        guide.advance(token)
    return bool(guide.allowed(np.array(sorted(model.vocab.eog))).all())


@pytest.mark.real
@pytest.mark.parametrize(("schema", "documents"), FITTING)
def test_documents_of_the_schema_are_let_through(
    guides: Guides, model: Model, schema: Any, documents: list[Any]
) -> None:
    for document in documents:
        jsonschema.validate(document, schema)
        assert takes(guides, model, schema, document), document


@pytest.mark.real
@pytest.mark.parametrize(("schema", "documents"), OTHERS)
def test_other_documents_are_not(guides: Guides, model: Model, schema: Any, documents: list[Any]) -> None:
    for document in documents:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, schema)
        assert not takes(guides, model, schema, document), document


@pytest.mark.real
def test_whatever_is_let_through_is_a_document_of_the_schema(guides: Guides, model: Model) -> None:
    """Tokens that the model would never choose: any that is allowed, spaces aside, and the end where it is."""
    schema = {
        "type": "object",
        "properties": {
            "seats": {"type": "integer", "minimum": -7, "maximum": 120},
            "code": {"type": "string", "pattern": "^[a-c]{1,3}(x|yy)$"},
            "flags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
            "day": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        },
        "required": ["seats", "code", "day"],
        "additionalProperties": False,
    }
    chance, finished = np.random.default_rng(1), 0
    ids = np.array([i for i, piece in enumerate(model.vocab.pieces()) if not piece.isspace()])
    for _ in range(40):
        guide, made = guides.guide(grammar_of(schema)), bytearray()
        for _ in range(150):
            allowed = ids[guide.allowed(ids)]
            if model.vocab.eog & set(allowed.tolist()):
                jsonschema.validate(json.loads(made), schema)
                finished += 1
                break
            token = int(chance.choice(allowed))
            guide.advance(token)
            made += model.vocab.piece(token, special=False)
    assert finished > 20


@pytest.mark.real
def test_no_control_token_and_no_end_comes_before_the_document_is_whole(guides: Guides, model: Model) -> None:
    guide = guides.guide(grammar_of({"type": "string"}))
    control = [token for token in range(model.vocab.size) if model.vocab.is_control(token)]
    assert not guide.allowed(np.array(control)).any()
    with pytest.raises(ValueError, match="does not allow"):
        guide.advance(control[0])


@pytest.mark.real
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (False, "Unsatisfiable schema"),
        (5, "schema must be an object or boolean"),
        ({"type": "nonsense"}, "Invalid type: nonsense"),
        ({"not": {"type": "string"}}, '["not"]'),
        ({"type": "object", "properties": {"a": {"uniqueItems": True}}}, '["uniqueItems"]'),
        ({"type": "string", "format": "colour"}, "Unknown format: colour"),
        ({"type": "string", "pattern": "(?=a)b"}, "regex parse error"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf constraints are not supported"),
        ({"$ref": "https://example.com/x.json"}, "x.json"),
        ({"$ref": "#/$defs/no"}, "does not exist"),
        ({"enum": []}, "Unsatisfiable schema"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "minimum"),
        ({"const": "\ud800"}, "hex escape"),
    ],
)
def test_what_cannot_be_said_is_refused(guides: Guides, schema: Any, words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        guides.guide(grammar_of(schema))
    assert words in refusal.value.message
    assert "\n" not in refusal.value.message


@pytest.mark.real
def test_a_schema_that_is_too_deep_is_refused(guides: Guides) -> None:
    deep: Any = {"type": "string"}
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    with pytest.raises(UsageError, match="recursion limit"):
        guides.guide(grammar_of(deep))


@pytest.mark.real
def test_where_no_token_fits_that_is_told(guides: Guides) -> None:
    guide = guides.guide(grammar_of({"$ref": "#"}))
    with pytest.raises(ValueError, match="no token of this model fits"):
        guide.allowed(np.array([0]))


@pytest.mark.real
def test_guides_of_one_grammar_go_their_own_ways(guides: Guides, model: Model) -> None:
    text = grammar_of({"enum": ["a", "b"]})
    quote, a, b = (model.vocab.tokenize(letter, add_special=False)[0] for letter in '"ab')
    first, second = guides.guide(text), guides.guide(text)
    first.advance(quote)
    assert first.allowed(np.array([quote, a, b])).tolist() == [False, True, True]
    assert second.allowed(np.array([quote, a, b])).tolist() == [True, False, False]


@pytest.mark.real
def test_little_space_is_enough_for_a_document_and_not_for_an_endless_one(guides: Guides, model: Model) -> None:
    asked = {"prompt": "x", "response_format": {"type": "json_object", "schema": {"type": "array"}}}
    text = read_grammar(NativeCompletion.read(asked))

    def takes_text(document: str) -> bool:
        guide = guides.guide(text)
        for token in model.vocab.tokenize(document, add_special=False):
            if not guide.allowed(np.array([token]))[0]:
                return False
            guide.advance(token)
        return True

    assert takes_text("[\n    1, 2,\n    {}\n]")
    assert not takes_text("[" + 3 * " ")
    assert not takes_text("[" + 2 * "\n")
