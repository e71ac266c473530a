"""What an answer must look like: a grammar, or a JSON format that is one."""

from __future__ import annotations

from draftproof.engine.guidance import grammar_of
from draftproof.server.errors import Refusal
from draftproof.server.schema import Generate

_NAMED_PARTS = {"properties", "$defs", "definitions"}
_LISTED_PARTS = {"anyOf", "oneOf", "prefixItems"}
_PARTS = {"items", "additionalProperties"}
_BESIDE = {"$ref", "anyOf", "oneOf"}
_SAYS_OF_OTHERS = {"additionalProperties", "patternProperties"}
_ANY_OBJECT = {"type": "object"}
_LITTLE_SPACE = {"x-guidance": {"whitespace_pattern": r" |\n[ \t]{0,20}"}}


def read_grammar(request: Generate, default: str = "") -> str:
    """The grammar that a request asks for, "" for none. default: where it says nothing of it. Raises Refusal."""
    if request.grammar is None and request.json_schema is None and request.response_format is None:
        return default
    asked = [request.grammar, *_from_format(request)]
    if request.json_schema not in (None, False):
        asked.append(of_schema(request.json_schema))
    named = [text for text in asked if text]
    if len(named) > 1:
        raise Refusal("Ask for one of grammar, json_schema and response_format.")
    return named[0] if named else ""


def _from_format(request: Generate) -> list[str]:
    if request.response_format is None:
        return []
    kind = request.response_format.get("type")
    if kind == "text":
        return []
    if kind == "json_object":
        return [of_schema(sparing(request.response_format.get("schema")))]
    if kind == "json_schema":
        wrapped = request.response_format.get("json_schema")
        return [of_schema(sparing(wrapped.get("schema") if isinstance(wrapped, dict) else None))]
    raise Refusal(f'response_format type must be "text", "json_object" or "json_schema", but is {kind!r}')


def of_schema(schema: object) -> str:
    """The grammar of a JSON schema; of any object where it says nothing. Raises Refusal for one that is nested too deeply."""
    try:
        return grammar_of(_ANY_OBJECT if schema in ({}, True) else schema)
    except RecursionError as error:
        raise _too_deep() from error


def sparing(schema: object) -> object:
    """A schema of those documents of another that have little space, and no properties that it does not name.

    So llama-server reads what comes as `response_format`: a model that may always add some seldom ends. What the schema says of
    either itself holds; and where several places name the properties of one object, there may be more than each of them names.
    Raises Refusal for one that is nested too deeply.
    """
    try:
        closed = schema if _adds_up(schema) else _without_others(schema)
    except RecursionError as error:
        raise _too_deep() from error
    closed = closed or _ANY_OBJECT
    return {**_LITTLE_SPACE, **closed} if isinstance(closed, dict) else closed


def _too_deep() -> Refusal:
    return Refusal("The JSON schema is nested too deeply.")


def _adds_up(schema: object) -> bool:
    """Whether several places may name the properties of one object; a name like the keyword's counts too."""
    if isinstance(schema, list):
        return any(map(_adds_up, schema))
    if not isinstance(schema, dict):
        return False
    beside = "properties" in schema and not _BESIDE.isdisjoint(schema)
    return beside or "allOf" in schema or any(map(_adds_up, schema.values()))


def _without_others(schema: object) -> object:
    if not isinstance(schema, dict):
        return schema
    closed = dict(schema)
    for keyword in _NAMED_PARTS & schema.keys():
        if isinstance(schema[keyword], dict):
            closed[keyword] = {name: _without_others(part) for name, part in schema[keyword].items()}
    for keyword in _LISTED_PARTS & schema.keys():
        if isinstance(schema[keyword], list):
            closed[keyword] = [_without_others(part) for part in schema[keyword]]
    for keyword in _PARTS & schema.keys():
        closed[keyword] = _without_others(schema[keyword])
    if "properties" in schema and not _SAYS_OF_OTHERS & schema.keys():
        closed["additionalProperties"] = False
    return closed
