from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from matplotlib.axes import Axes

from draftproof.report.plots.figure import FAINT, INK, SERIES, draw, label


def paint(panels: list[Axes]) -> None:
    for axes in panels:
        axes.plot([0, 1], [0, 1], "o", color=SERIES[0], label="$x^2$ <b>&amp;\N{CJK UNIFIED IDEOGRAPH-4E2D}")
        axes.axhline(0.5, color=SERIES[2])
        axes.legend()
        axes.grid(visible=True)


def test_colours_are_those_of_the_page() -> None:
    svg = draw("a", paint)
    assert not [colour for colour in (INK, FAINT, *SERIES) if colour in svg]
    assert {"var(--series-1)", "var(--series-3)", "var(--faint)", "currentColor"} <= set(
        re.findall(r"var\(--[a-z0-9-]+\)|currentColor", svg)
    )
    assert not re.search(r"(?:fill|stroke): #(?!000000)", svg)


def test_ids_of_two_drawings_on_one_page_differ_and_lead_somewhere() -> None:
    ids: list[str] = []
    for name in ("a", "b"):
        root = ET.fromstring(draw(name, paint, panels=2))
        own = [i for e in root.iter() if (i := e.get("id"))]
        referred = [e.get("href") for e in root.iter() if e.get("href")]
        clips = re.findall(r"url\(#([^)]+)\)", ET.tostring(root, encoding="unicode"))
        assert referred
        assert clips
        assert {str(r)[1:] for r in referred} | set(clips) <= set(own)
        ids += own
    assert len(ids) == len(set(ids))


def test_text_is_text_and_no_formula() -> None:
    root = ET.fromstring(draw("a", paint))
    assert "$x^2$ <b>&amp;\N{CJK UNIFIED IDEOGRAPH-4E2D}" in [e.text for e in root.iter("text")]
    assert not [e.tag for e in root.iter() if e.tag in {"style", "metadata", "script"}]


def test_same_drawing_is_the_same_text() -> None:
    assert draw("a", paint) == draw("a", paint)


def test_label_is_short_and_shows_what_cannot_be_seen() -> None:
    assert label(" a\u202e") == "␣a\\u202e"
    assert label("x" * 40) == "x" * 11 + "…"
