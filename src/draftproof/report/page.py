"""Lines on a terminal or in a pipe: wrapped and coloured on the one, whole and plain in the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import IO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from draftproof.core.verdict import Cell, Table
from draftproof.report.clean import clean

SENTENCE = 60
"""A sentence that would get fewer columns beside its label and name stands behind the name, in one paragraph."""

Part = str | tuple[str, str]
"""Text, or text with a style."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        # The default ends the process; a reader that has gone must not change the exit code of an audit.
        raise BrokenPipeError


class Page:
    """Writes lines to `file`. Whatever it is given passes through `clean` first."""

    def __init__(self, file: IO[str], *, width: int | None = None) -> None:
        self._console = _Console(
            file=file,
            width=width,
            highlight=False,
            markup=False,
            emoji=False,
            no_color=_no_color(),
            legacy_windows=False,
        )
        self._asked = width is not None or os.environ.get("COLUMNS", "").isdigit()

    @property
    def wraps(self) -> bool:
        """Where lines end: on a terminal, or where a width was asked for (COLUMNS); a file or a pipe gets whole lines."""
        return self._console.is_terminal or self._asked

    @property
    def width(self) -> int:
        return max(20, self._console.width)

    def line(self, *parts: Part, indent: int = 0, hang: int | None = None) -> None:
        """One line, wrapped with continuation lines at column `hang` where the terminal ends."""
        text = _text(parts)
        if hang is None or hang > self.width // 2:
            hang = indent + 2
        if not self.wraps:
            self._out(Text(" " * indent) + text)
            return
        for number, piece in enumerate(self._wrapped(text, self.width - indent, self.width - hang)):
            self._out(Text(" " * (hang if number else indent)) + piece)

    def _wrapped(self, text: Text, first_width: int, rest_width: int) -> Iterator[Text]:
        """The lines of a paragraph whose first line has another width than the rest."""
        first = (text.wrap(self._console, max(10, first_width)) or [Text()])[0]
        first.rstrip()
        yield first
        rest = text[len(first) :]
        rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
        if rest.plain:
            for piece in rest.wrap(self._console, max(10, rest_width)):
                piece.rstrip()
                yield piece

    def entry(self, label: Part, name: str, sentence: str, *, name_width: int, label_width: int) -> None:
        """A verdict, whom it concerns, and a sentence; the three beside each other where there is room."""
        word, style = (label, "") if isinstance(label, str) else label
        head = f"  {clean(word)}".ljust(label_width + 2)
        column = label_width + 2 + name_width + 4
        if self.wraps and self.width < column + SENTENCE:
            self.line((head, style), f"  {name}: {sentence}", hang=8 if label_width > 4 else label_width + 4)
            return
        lead = Text(head, style) + Text("  " + clean(name).ljust(name_width) + "  ")
        if not self.wraps:
            self._out(lead + Text(clean(sentence)))
            return
        pieces = Text(clean(sentence)).wrap(self._console, self.width - column) or [Text()]
        for number, piece in enumerate(pieces):
            piece.rstrip()
            self._out((Text(" " * column) if number else lead) + piece)

    def table(self, table: Table, indent: int = 2) -> None:
        """The title, then aligned columns; on a terminal too narrow for them, one line per cell."""
        self.line(table.title, indent=indent)
        cells = [[clean(_shown(cell)) for cell in row] for row in table.rows]
        heads = [clean(column) for column in table.columns]
        widths = [max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)]
        numeric = [all(not isinstance(row[i], str) for row in table.rows) for i in range(len(heads))]
        if self.wraps and indent + 2 + sum(widths) + 2 * len(widths) > self.width:
            for row in cells:
                self.line(", ".join(f"{head} {cell}" for head, cell in zip(heads, row, strict=True)), indent=indent + 2)
            return
        for row in [heads, *cells]:
            padded = [_pad(c, w, right) for c, w, right in zip(row, widths, numeric, strict=True)]
            self._out(Text((" " * (indent + 2) + "  ".join(padded)).rstrip()))

    def short(self, *parts: Part) -> None:
        """One line that ends where the terminal does."""
        text = _text(parts)
        if self.wraps:
            text.truncate(self.width, overflow="ellipsis")
        self._out(text)

    def blank(self) -> None:
        self._out(Text())

    def _out(self, text: Text) -> None:
        text.rstrip()
        self._console.print(text, soft_wrap=True)


def _text(parts: Sequence[Part]) -> Text:
    text = Text()
    for part in parts:
        content, style = (part, "") if isinstance(part, str) else part
        text.append(clean(content), style)
    return text


def _no_color() -> bool | None:
    return True if os.environ.get("NO_COLOR") else None


def _shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def listed(words: Sequence[str], most: int = 3) -> str:
    """The first `most` words, and how many more there are."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
