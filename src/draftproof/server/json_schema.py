"""JSON schemas become grammars in llama.cpp's notation (GBNF): every text of the grammar is a document that the schema allows.

Not the other way round: properties come in the schema's order, those that a schema does not name are left out where it names
any, and space is little. oneOf is read as anyOf. What cannot be said in a grammar is refused, never dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from draftproof.server.errors import Refusal

BASICS: Mapping[str, str] = {
    "ws": r'| " " | "\n" [ \t]{0,20}',
    "char": r'[^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4})',
    "string": r'"\"" char* "\"" ws',
    "integer": '"-"? natural ws',
    "natural": '"0" | [1-9] [0-9]{0,15}',
    "number": '"-"? natural fraction ws',
    "fraction": r'("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?',
    "boolean": '("true" | "false") ws',
    "null": '"null" ws',
    "value": "object | array | string | number | boolean | null",
    "object": '"{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws',
    "array": '"[" ws (value ("," ws value)*)? "]" ws',
}
"""Rules for what a schema leaves open."""

_ANNOTATIONS = {
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "example",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
}
_KEYWORDS: Mapping[str, set[str]] = {
    "string": {"minLength", "maxLength"},
    "integer": {"minimum"},
    "number": {"minimum"},
    "boolean": set(),
    "null": set(),
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
}
"""What may be said of each type."""
_WHOLE = ("$ref", "const", "enum", "anyOf", "oneOf")
"""Keywords that say all by themselves."""
_REMEDY = "Leave it out, or describe the text with a grammar."
_MOST = 1000
"""Repetitions that a grammar may count."""
_DEEPEST = 100


def gbnf(schema: object) -> str:
    """The grammar of a schema. Raises Refusal for what is no schema, or cannot be said in a grammar."""
    return _Writer(schema).text()


class _Writer:
    def __init__(self, schema: object) -> None:
        self._schema = schema
        self._rules: dict[str, str] = {}
        self._made = 0
        self._references: dict[str, str] = {}
        self._depth = 0

    def text(self) -> str:
        root = self._read(self._schema, "")
        rules = {"root": f"ws {root}", **BASICS, **self._rules}
        return "".join(f"{name} ::= {text}\n" for name, text in rules.items())

    def _rule(self, text: str, name: str = "") -> str:
        """The name of a rule with that text."""
        self._made += 1
        name = name or f"r{self._made}"
        self._rules[name] = text
        return name

    def _read(self, schema: object, place: str) -> str:
        """A term for the values that a schema allows. `place` is its JSON pointer."""
        if schema is True or schema == {}:
            return "value"
        if not isinstance(schema, dict):
            raise _refused(place, f"{json.dumps(schema)} is no schema that any document fits")
        if self._depth >= _DEEPEST:
            raise _refused(place, f"schemas may be {_DEEPEST} deep")
        self._depth += 1
        try:
            return self._any(schema, place)
        finally:
            self._depth -= 1

    def _any(self, schema: dict[str, Any], place: str) -> str:
        said = set(schema) - _ANNOTATIONS
        if not said:
            return "value"
        whole = next((name for name in _WHOLE if name in said), "")
        if whole:
            typed = {"type"} if whole in ("const", "enum") else set()
            _none_of(said - {whole} - typed, place, f' beside "{whole}"')
            return self._rule(self._said_whole(whole, schema, place))
        types = _types(schema, said, place)
        _none_of(said - {"type"}.union(*(_KEYWORDS[name] for name in types)), place)
        return self._rule(" | ".join(_OF_TYPE[name](self, schema, place) for name in types))

    def _said_whole(self, keyword: str, schema: dict[str, Any], place: str) -> str:
        said = schema[keyword]
        if keyword == "$ref":
            return self._referred(said, place)
        values = [said] if keyword == "const" else said
        if not isinstance(values, list) or not values:
            raise _refused(place, f'"{keyword}" must be a list that is not empty')
        if keyword in ("anyOf", "oneOf"):
            return " | ".join(self._read(part, f"{place}/{keyword}/{i}") for i, part in enumerate(values))
        if "type" in schema:
            types = _types(schema, set(), place)
            values = [value for value in values if any(_IS_A[name](value) for name in types)]
        if not values:
            raise _refused(place, f'"{keyword}" has no value of the "type"')
        return f"({' | '.join(map(_literal, values))}) ws"

    def _referred(self, pointer: object, place: str) -> str:
        if not isinstance(pointer, str) or not (pointer == "#" or pointer.startswith("#/")):
            raise _refused(
                place, f'"$ref" must point into the schema itself, as "#/$defs/name" does, not {json.dumps(pointer)}'
            )
        if pointer not in self._references:
            name = self._references[pointer] = f"ref{len(self._references)}"
            self._rule(self._read(_at(self._schema, pointer, place), pointer[1:]), name)
        return self._references[pointer]

    def string(self, schema: dict[str, Any], place: str) -> str:
        low, high = _range(schema, "minLength", "maxLength", place)
        return "string" if (low, high) == (0, None) else f'"\\"" char{_times(low, high)} "\\"" ws'

    def integer(self, schema: dict[str, Any], place: str) -> str:
        return "natural ws" if _is_positive(schema, place) else "integer"

    def number(self, schema: dict[str, Any], place: str) -> str:
        return "natural fraction ws" if _is_positive(schema, place) else "number"

    def array(self, schema: dict[str, Any], place: str) -> str:
        low, high = _range(schema, "minItems", "maxItems", place)
        if high == 0:
            return '"[" ws "]" ws'
        item = self._read(schema.get("items", True), f"{place}/items")
        more = f'("," ws {item}){_times(max(low - 1, 0), None if high is None else high - 1)}'
        return f'"[" ws {item} {more} "]" ws' if low else f'"[" ws ({item} {more})? "]" ws'

    def object(self, schema: dict[str, Any], place: str) -> str:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise _refused(place, '"properties" must be an object and "required" a list of names')
        if missing := [name for name in required if name not in properties]:
            raise _refused(place, f'"required" names {json.dumps(missing[0])}, which is none of the "properties"')
        if not properties:
            return self._free_object(schema, place)
        pairs = []
        for name, part in properties.items():
            value = self._read(part, f"{place}/properties/{name.replace('~', '~0').replace('/', '~1')}")
            pairs.append((self._rule(f'{_literal(name)} ws ":" ws {value}'), name in required))
        first = later = ""  # what follows where nothing was written yet, and where something was
        for pair, needed in reversed(pairs):
            begun = self._rule(f"{pair} {later}")
            first = begun if needed else self._rule(f"{begun} | {first}" if first else f"{begun}?")
            later = self._rule(f'"," ws {begun}' if needed else f'("," ws {pair})? {later}')
        return f'"{{" ws {first} "}}" ws'

    def _free_object(self, schema: dict[str, Any], place: str) -> str:
        others = schema.get("additionalProperties", True)
        if others is False:
            return '"{" ws "}" ws'
        value = self._read(others, f"{place}/additionalProperties")
        pair = f'string ":" ws {value}'
        return f'"{{" ws ({pair} ("," ws {pair})*)? "}}" ws'


_OF_TYPE: Mapping[str, Callable[[_Writer, dict[str, Any], str], str]] = {
    "string": _Writer.string,
    "integer": _Writer.integer,
    "number": _Writer.number,
    "boolean": lambda *_: "boolean",
    "null": lambda *_: "null",
    "object": _Writer.object,
    "array": _Writer.array,
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_IS_A: Mapping[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or float(str(value)).is_integer()),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}


def _types(schema: Mapping[str, Any], said: set[str], place: str) -> list[str]:
    """The types that a schema names, or the one that its keywords are for."""
    named = schema.get("type")
    if named is None:
        named = [name for name in ("object", "array", "string", "number") if said & _KEYWORDS[name]][:1] or sorted(said)
    names = named if isinstance(named, list) else [named]
    if "type" not in schema and names[0] not in _KEYWORDS:
        _none_of(said, place)
    for name in names:
        if name not in _KEYWORDS:
            raise _refused(place, f'"type" must be one of {", ".join(_KEYWORDS)}, not {json.dumps(name)}')
    if not names:
        raise _refused(place, '"type" names none')
    return names


def _is_positive(schema: Mapping[str, Any], place: str) -> bool:
    """Whether numbers below 0 are excluded."""
    least = schema.get("minimum")
    if least is not None and (least != 0 or isinstance(least, bool)):
        raise _refused(place, f'"minimum" {json.dumps(least)} cannot be said in a grammar, only 0 can')
    return least is not None


def _range(schema: Mapping[str, Any], least: str, most: str, place: str) -> tuple[int, int | None]:
    low, high = schema.get(least, 0), schema.get(most)
    for name, value in ((least, low), (most, high)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST):
            raise _refused(place, f'"{name}" must be a whole number from 0 to {_MOST}, not {json.dumps(value)}')
    if high is not None and low > high:
        raise _refused(place, f'"{least}" is above "{most}"')
    return low, high


def _times(low: int, high: int | None) -> str:
    return f"{{{low},{'' if high is None else high}}}"


def _literal(value: object) -> str:
    """A JSON value as a terminal of a grammar."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair can only be written as an escape
        text = json.dumps(value, separators=(",", ":"))
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _at(schema: object, pointer: str, place: str) -> object:
    """What a JSON pointer that begins with # points to."""
    found = schema
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            raise _refused(place, f'"$ref" points to {json.dumps(pointer)}, which is not there')
    return found


def _none_of(keywords: set[str], place: str, where: str = "") -> None:
    if keywords:
        raise _refused(place, f'"{min(keywords)}" is not supported{where}')


def _refused(place: str, what: str) -> Refusal:
    return Refusal(f"The JSON schema cannot be served: {place or 'at its root'}: {what}. {_REMEDY}")
