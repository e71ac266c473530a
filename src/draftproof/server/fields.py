"""Kinds of request fields: JSON's own types, strictly, and fields of which one value only is served."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Annotated, Any, NoReturn

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    JsonValue,
    Strict,
    ValidationError,
    WithJsonSchema,
)

from draftproof.server.errors import Refusal

_MOST_DIGITS = 2.0**63


def _whole(value: object) -> object:
    """JSON has one kind of number: 3.0 is whole too."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) <= _MOST_DIGITS:
        return int(value)
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


Whole = Annotated[int, Strict(), BeforeValidator(_whole), WithJsonSchema({"type": "integer"})]
Number = Annotated[float, Strict(), AfterValidator(_finite), WithJsonSchema({"type": "number"})]
Flag = Annotated[bool, Strict()]
Text = Annotated[str, Strict()]
TokenId = Annotated[int, Strict()]
"""Plain, for a prompt may have a hundred thousand of them."""


SERVED = "x-served"
"""Where a field's schema lists the only values that are served."""


def only(*neutral: JsonValue, why: str) -> Any:
    """A field that is known, but of which `neutral` and null alone are served; `why` is told for any other value."""
    served: list[JsonValue] = [None, *neutral]
    return Field(default=None, description=why, json_schema_extra={SERVED: served, "enum": served})


def check_only(body: BaseModel) -> None:
    """Raises Refusal for a field that has a value which is not served."""
    for name, field in type(body).model_fields.items():
        extra = field.json_schema_extra
        if not isinstance(extra, dict) or SERVED not in extra:
            continue
        value, served = getattr(body, name), extra[SERVED]
        assert isinstance(served, list)
        if not any(type(value) is type(n) and value == n for n in served):
            raise Refusal(f"Field '{name}': {field.description}")


def between(low: float, high: float = math.inf) -> Callable[[float], float]:
    """A check that a number is in [low, high]."""

    def check(value: float) -> float:
        if not low <= value <= high:
            limits = f"at least {low}" if high == math.inf else f"between {low} and {high}"
            raise ValueError(f"must be {limits}, but is {value}")
        return value

    return check


def refuse(error: ValidationError) -> NoReturn:
    """Raises a Refusal that names the first field that is wrong, and how."""
    errors = error.errors(include_url=False, include_input=False)
    same = [e for e in errors if e["loc"][:1] == errors[0]["loc"][:1]]  # of each member of a union
    first = next((e for e in same if e["type"] in _OF_THE_RIGHT_KIND), errors[0])
    where = _name(first["loc"])
    if where == "speculative":
        within = [e for e in same if len(e["loc"]) > _OF_A_MEMBER]
        if not within:
            raise Refusal("Field 'speculative' must be true, false or an object.")
        first, where = within[0], _name(within[0]["loc"])
    if where.split("[")[0] == "prompt" and first["type"] != "missing":
        raise Refusal(f"Field 'prompt' must be {_PROMPT}.")
    if first["type"] == "missing":
        raise Refusal(f"Field '{where}' is required.")
    said = first["msg"].removeprefix("Value error, ")
    raise Refusal(f"Field '{where}': {said}")


def _name(place: Iterable[int | str]) -> str:
    """The JSON name of a field; what pydantic adds for the members of a union is left out."""
    parts = list(place)
    name = str(parts[0]) if parts else "body"
    for part in parts[1:]:
        if isinstance(part, int):
            name += f"[{part}]"
        elif part.isidentifier() and part not in _MEMBERS:
            name += f".{part}"
    return name


_PROMPT = "text, a list of token ids and texts, or a list of such prompts"
_OF_THE_RIGHT_KIND = ("too_long", "value_error")
"""What is said of a value that has the type of one member, but not a value for it."""
_OF_A_MEMBER = 2
"""So long is the place of an error that is about a whole member of a union."""
_MEMBERS = frozenset({"str", "int", "float", "bool", "list", "dict", "SpeculativeFields"})
