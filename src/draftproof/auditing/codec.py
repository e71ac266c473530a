"""Evidence to JSON and back, so that a verdict can be computed again from a file.

Infinite and undefined numbers travel as the strings "Infinity", "-Infinity" and "NaN": the file stays strict JSON.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import pydantic_core
from pydantic import TypeAdapter, ValidationError

from draftproof.core.errors import EvidenceError

T = TypeVar("T")


def to_json(value: object) -> Any:
    """Plain lists, dicts, strings and numbers, without anything that strict JSON does not know.

    Raises pydantic_core.PydanticSerializationError for a value that has no such form.
    """
    # Not by way of bytes: a server may send half a surrogate pair, which UTF-8 cannot carry and JSON's escapes can.
    return _strict(pydantic_core.to_jsonable_python(value))


def _strict(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {name: _strict(item) for name, item in value.items()}
        case list():
            return [_strict(item) for item in value]
        case _:
            return value


def from_json(kind: type[T], data: object) -> T:
    """The value that `to_json` made `data` from. Raises EvidenceError when `data` does not fit `kind`."""
    try:
        value: T = _adapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the record itself"
        raise EvidenceError(
            f"The evidence does not have the shape of {kind.__name__}: {where}: {first['msg']}.",
            "It was written by another version of draftproof, or changed by hand.",
        ) from error
    return value


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    # Building one takes milliseconds; a self-test needs each several times.
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


_ADAPTERS: dict[object, TypeAdapter[Any]] = {}
