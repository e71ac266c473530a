"""A matplotlib figure as SVG inside a page: colours follow the page's light or dark scheme, ids are its own, text stays text."""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from draftproof.core.verdict import Table
from draftproof.report.clean import clean

INK, FAINT = "#0000a0", "#0000a1"
SERIES = ("#0000b0", "#0000b1", "#0000b2")
"""Colours to draw with: first and second kind of thing, and a threshold. The page decides what they look like."""

_VARIABLES = {
    INK: "currentColor",
    FAINT: "var(--faint)",
    **{colour: f"var(--series-{n})" for n, colour in enumerate(SERIES, 1)},
}
_STYLE: Any = {  # rcParams: matplotlib types their names one by one
    "svg.fonttype": "none",
    "svg.hashsalt": "draftproof",
    "text.parse_math": False,  # a model's "$" is a dollar
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.unicode_minus": False,
    "figure.facecolor": "none",
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONGEST_LABEL = 12


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture with all that somebody needs who does not see it.

    `name` is unique in a report (letters, digits, hyphens). `caption` says what is drawn and how a sound server looks; `alt`
    what is to be seen here; `numbers` the same as a table. `check` is the check that it belongs to, "" for the whole audit.
    """

    name: str
    check: str
    title: str
    caption: str
    alt: str
    svg: str
    numbers: Table


def draw(name: str, paint: Callable[[list[Axes]], None], *, panels: int = 1, height: float = 2.9) -> str:
    """SVG of a figure of `panels` axes, one below the other, each `height` inches high; `paint` draws on them."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # Glyphs that the font for measuring lacks are drawn by the browser's fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        figure = Figure(figsize=(5.0, height * panels), layout="constrained")
        FigureCanvasSVG(figure)
        paint(list(figure.subplots(panels, 1, squeeze=False)[:, 0]))
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return _themed(file.getvalue(), name)


def label(text: str) -> str:
    """A token's text for an axis: short, and nothing in it that cannot be seen."""
    shown = clean(text.replace(" ", "␣"))
    return shown if len(shown) <= _LONGEST_LABEL else f"{shown[: _LONGEST_LABEL - 1]}…"


def _themed(text: str, name: str) -> str:
    root = ET.fromstring(text)  # noqa: S314 - matplotlib's own output
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in {f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"}:
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {_plain(key): _value(_plain(key), value, name) for key, value in element.attrib.items()}
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-labelledby": f"{name}-title",
        "aria-describedby": f"{name}-alt",
    }
    return ET.tostring(root, encoding="unicode")


def _plain(key: str) -> str:
    return key.rpartition("}")[2]


def _value(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    value = _REFERENCE.sub(rf"url(#{name}-\1)", value)
    for colour, variable in _VARIABLES.items():
        value = value.replace(colour, variable)
    return value
