"""What of an answer's text is a call of a tool, as it comes. All of the text is in what is told, but for the form of the calls."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from draftproof.server.text import overlap
from draftproof.server.tools.form import CallForm, Part


@dataclass(frozen=True, slots=True)
class Said:
    """Text that is no call."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """The `index`-th call of the answer begins."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Argued:
    """More of the JSON of a call's arguments."""

    index: int
    text: str


News: TypeAlias = Said | Called | Argued


class CallReader:
    """`take` each piece of the text, then `finish`. However the text is cut into pieces, the same comes of it."""

    def __init__(self, form: CallForm, names: Collection[str]) -> None:
        self.calls = 0
        self._form = form
        self._names = frozenset(names)
        self._longest = max(map(len, names), default=0)
        self._held = ""
        self._since = ""
        """What was read of what looks like a call."""
        self._sure = False
        """Whether it is one."""
        self._name = ""
        self._left: list[Part | str] = []
        self._json = JsonEnd()
        self._step: Callable[[], list[News] | None] = self._text

    def take(self, piece: str) -> list[News]:
        """What is certain now."""
        self._held += piece
        news: list[News] = []
        while (found := self._step()) is not None:
            news += found
        return news

    def finish(self) -> list[News]:
        """No more text comes. A call that was cut before its arguments is text."""
        rest = "" if self._sure else self._since + self._held
        self._held = self._since = ""
        return [Said(rest)] if rest else []

    def _text(self) -> list[News] | None:
        held, form = self._held, self._form
        if not held:
            return None
        if not form.anywhere:
            return self._beginning()
        start = held.find(form.trigger)
        if start >= 0:
            self._begin(start)
            return _said(held[:start])
        keep = overlap(held, form.trigger)
        self._held = held[len(held) - keep :]
        return _said(held[: len(held) - keep]) or None

    def _beginning(self) -> list[News] | None:
        trigger = self._form.trigger
        begun = self._held.lstrip()
        if begun.startswith(trigger):
            space = self._held[: len(self._held) - len(begun)]
            self._begin(len(space))
            self._since = space
            return []
        if trigger.startswith(begun):
            return None
        self._step = self._rest
        return []

    def _rest(self) -> list[News] | None:
        """All that comes is text."""
        said, self._held = self._held, ""
        return _said(said) or None

    def _begin(self, start: int) -> None:
        self._held = self._held[start:]
        self._left = [self._form.before, *self._form.body]
        self._since, self._sure = "", False
        self._step = self._part

    def _part(self) -> list[News] | None:
        """The next of what a call consists of."""
        if not self._left:
            self._step = self._after
            return []
        part, held = self._left[0], self._held
        if isinstance(part, str):
            if not held.startswith(part):
                return None if part.startswith(held) else self._no_call()
            self._pass(len(part))
            return []
        if part is Part.ARGUMENTS:
            return self._argued() if held else None
        return self._value(part)

    def _value(self, part: Part) -> list[News] | None:
        """A name or an id: what comes before the text that follows it."""
        following = self._left[1] if len(self._left) > 1 else self._form.ending
        assert isinstance(following, str)
        end = self._held.find(following)
        if end < 0:
            return None if part is Part.ID or len(self._held) < self._longest + len(following) else self._no_call()
        if part is Part.NAME:
            self._name = self._held[:end]
            if self._name not in self._names:
                return self._no_call()
        self._pass(end)
        return []

    def _pass(self, length: int) -> None:
        self._since += self._held[:length]
        self._held = self._held[length:]
        del self._left[0]

    def _argued(self) -> list[News]:
        if self._held[0] != "{":
            return self._no_call()
        self._json, self._sure = JsonEnd(), True
        self._step = self._arguments
        self.calls += 1
        return [Called(self.calls - 1, self._name)]

    def _arguments(self) -> list[News] | None:
        end = self._json.end(self._held)
        part = self._held[:end]
        self._held = self._held[len(part) :]
        if end is not None:
            del self._left[0]
            self._step = self._part
        return [Argued(self.calls - 1, part)] if part else None

    def _after(self) -> list[News] | None:
        """Another call, or the end of them."""
        held, form = self._held, self._form
        if form.between is not None:
            if held.startswith(form.between):
                self._held = held[len(form.between) :]
                self._left = [*form.body]
                self._since, self._sure = form.between, False
                self._step = self._part
                return []
            if form.between.startswith(held):
                return None
        if form.after.startswith(held) and held != form.after:
            return None
        self._held, self._since, self._sure = held.removeprefix(form.after), "", False
        self._step = self._text if form.anywhere else self._rest
        return []

    def _no_call(self) -> list[News]:
        """It looked like one. Its first letter is text, and what follows is looked at anew."""
        looked, self._since = ("" if self._sure else self._since) + self._held, ""
        self._held = looked[1:]
        self._step = self._text if self._form.anywhere else self._rest
        return _said(looked[:1])


def _said(text: str) -> list[News]:
    return [Said(text)] if text else []


class JsonEnd:
    """Finds the end of a JSON object that comes in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def end(self, piece: str) -> int | None:
        """How many characters of the piece belong to the object; None if all do and it goes on."""
        for i, character in enumerate(piece):
            if self._quoted:
                self._quoted = self._escaped or character != '"'
                self._escaped = character == "\\" and not self._escaped
            elif character == '"':
                self._quoted = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if not self._depth:
                    return i + 1
        return None
