from __future__ import annotations

import unicodedata

import pytest

from draftproof.report.clean import clean


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ä 漢 🙂", "plain ä 漢 🙂"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b2J", r"\x9b2J"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("user\u202egpj.exe", r"user\u202egpj.exe"),
        ("\u2066x\u2069\u200b\ufeff", r"\u2066x\u2069\u200b\ufeff"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("line\u2028para\u2029", r"line\u2028para\u2029"),
        ("[bold]no markup[/bold] :smile:", "[bold]no markup[/bold] :smile:"),
    ],
)
def test_text_shows_everything_and_controls_nothing(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_no_character_at_all_gets_through_that_moves_a_cursor() -> None:
    shown = "".join(clean(chr(code)) for code in range(0x30000))
    assert not [c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]


def test_long_text_is_cut_and_says_so() -> None:
    assert clean("x" * 1000, longest=10) == "x" * 10 + " ... (990 characters more)"
