"""How a model writes calls of tools: learned from its chat template, which is shown a conversation that has some."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

from draftproof.core.prefix import common_prefix

Told: TypeAlias = Mapping[str, Any]
Render: TypeAlias = Callable[[Sequence[Told], Sequence[Told]], str]
"""(messages, tools) to the text of a conversation, without what opens another turn. May raise anything."""


class Part(Enum):
    """What differs from call to call."""

    NAME = "name"
    ARGUMENTS = "arguments"
    ID = "id"


@dataclass(frozen=True, slots=True)
class CallForm:
    """`before`, the `body` of each call with `between` two of them, `after`. `between` None: no more than one.

    A body begins and ends with a `Part`; its arguments are a JSON object and come after the name.
    `objects`: the template wants arguments as an object, else as a text.
    """

    before: str
    body: tuple[Part | str, ...]
    between: str | None
    after: str
    objects: bool

    @property
    def ending(self) -> str:
        """What comes after any call, the last or another."""
        return self.after if self.between is None else self.after[: common_prefix(self.after, self.between)]

    @property
    def trigger(self) -> str:
        """What no text has but one that calls."""
        marker = _MARKER.match(self.before)
        return marker[0] if marker else self.before

    @property
    def anywhere(self) -> bool:
        """Whether text may come before a call. Where calls begin with no marker, an answer is all text, or all calls."""
        return _MARKER.match(self.before) is not None


_MARKER = re.compile(r"<[^\s{<>]+>?|\[[A-Z_]+\]")
_SAID = "so-that-is-said"
_USER: Told = {"role": "user", "content": "hello"}


@dataclass(frozen=True, slots=True)
class _Call:
    """One that a template is shown. Ids have nine letters, for there are templates that take no others."""

    name: str
    id: str
    value: str

    @property
    def arguments(self) -> dict[str, str]:
        return {"key": self.value}

    def told(self, *, objects: bool) -> Told:
        arguments = self.arguments if objects else json.dumps(self.arguments)
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}

    @property
    def tool(self) -> Told:
        parameters = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
        return {"type": "function", "function": {"name": self.name, "description": "x", "parameters": parameters}}


_CALLS = (_Call("first_name", "firstCall", "a first value"), _Call("other_name", "otherCall", "another value"))
_TOOLS = [call.tool for call in _CALLS]


def learn(render: Render) -> CallForm | None:
    """None for a template that says nothing of tools, or writes calls in no form that is known here."""
    return next((form for objects in (True, False) if (form := _learned(render, objects=objects))), None)


def _learned(render: Render, *, objects: bool) -> CallForm | None:
    try:
        spoken = render([_USER, {"role": "assistant", "content": _SAID}], _TOOLS)
        one = _after(spoken, _called(render, _CALLS[:1], objects=objects))
    except Exception:  # a template is a program of somebody else's
        return None
    if _CALLS[0].name not in spoken:
        return None
    cut = _cut(one, _CALLS[:1])
    if cut is None:
        return None
    body = tuple(cut[1:-1])
    parts = [part for part in body if isinstance(part, Part)]
    if parts.index(Part.ARGUMENTS) < parts.index(Part.NAME):
        return None
    if str(cut[cut.index(Part.ARGUMENTS) - 1]).endswith(("'", '"')):
        return None  # a text within a text: what it has of quotes would be written in another way
    between = _between(render, spoken, body, objects=objects)
    form = CallForm(str(cut[0]).lstrip(), body, between, str(cut[-1]), objects)
    return form if form.before and (form.ending or body[-1] is Part.ARGUMENTS) else None


def _between(render: Render, spoken: str, body: Sequence[Part | str], *, objects: bool) -> str | None:
    try:
        cut = _cut(_after(spoken, _called(render, _CALLS, objects=objects)), _CALLS)
    except Exception:  # there are templates that take one call only
        return None
    n = len(body)
    same = cut is not None and len(cut) == 2 * n + 3 and [*body, *body] == [*cut[1 : n + 1], *cut[n + 2 : -1]]
    return str(cut[n + 1]) if same and cut is not None else None


def _called(render: Render, calls: Sequence[_Call], *, objects: bool) -> str:
    told = [call.told(objects=objects) for call in calls]
    return render([_USER, {"role": "assistant", "content": "", "tool_calls": told}], _TOOLS)


def _after(spoken: str, called: str) -> str:
    """What a turn with calls has where one without them has its text."""
    head, _, tail = spoken.rpartition(_SAID)
    start = common_prefix(head, called)
    if start < len(head) and (opened := re.search(r"[<\[][^<>\[\]\s]*$", called[:start])):
        start = opened.start()  # two markers may begin alike
    end = len(called) - common_prefix(tail[::-1], called[start:][::-1])
    return called[start:end]


def _cut(text: str, calls: Sequence[_Call]) -> list[Part | str] | None:
    """text, part, text, .. text: where the calls' parts are in it. None where one is missing, or is there in another form."""
    places = [list(_places(text, call)) for call in calls]
    if any({Part.NAME, Part.ARGUMENTS} - {part for _, _, part in found} for found in places):
        return None
    cut: list[Part | str] = []
    end = 0
    for start, stop, part in sorted(chain.from_iterable(places), key=itemgetter(0)):
        cut += [text[end:start], part]
        end = stop
    cut.append(text[end:])
    literal = "\0".join(part for part in cut if isinstance(part, str))
    strays = any(word in literal for call in calls for word in (call.name, call.id, call.value))
    return None if strays else cut


def _places(text: str, call: _Call) -> Iterator[tuple[int, int, Part]]:
    """(start, end, what) of a call's parts."""
    for part, word in ((Part.NAME, call.name), (Part.ID, call.id)):
        start = text.find(word)
        if start >= 0:
            yield start, start + len(word), part
    for brace in re.finditer("{", text):
        try:
            value, end = json.JSONDecoder().raw_decode(text, brace.start())
        except ValueError:
            continue
        if value == call.arguments:
            yield brace.start(), end, Part.ARGUMENTS
            return
