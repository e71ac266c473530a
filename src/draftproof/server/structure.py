"""What an answer must look like: a grammar, or a JSON format that is one."""

from __future__ import annotations

from draftproof.engine.guidance import grammar_of
from draftproof.server.errors import Refusal
from draftproof.server.schema import Generate


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
        return [of_schema(request.response_format.get("schema") or {})]
    if kind == "json_schema":
        wrapped = request.response_format.get("json_schema")
        return [of_schema((wrapped.get("schema") if isinstance(wrapped, dict) else None) or {})]
    raise Refusal(f'response_format type must be "text", "json_object" or "json_schema", but is {kind!r}')


def of_schema(schema: object) -> str:
    """The grammar of a JSON schema; of any object where it says nothing."""
    return grammar_of({"type": "object"} if schema in ({}, True) else schema)
