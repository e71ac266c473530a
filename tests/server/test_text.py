"""Texts are held back and cut right, however they fall into tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftproof.server.text import TextStream


def stream(pieces: list[bytes], *stops: str) -> TextStream:
    text = TextStream(pieces.__getitem__, stops)
    for i in range(len(pieces)):
        if text.ends(i):
            break
    text.finish()
    return text


def test_half_a_character_waits_for_its_other_half() -> None:
    euro = "€".encode()
    assert stream([b"a", euro[:1], euro[1:2], euro[2:] + b"b"]).pieces == ["a", "", "", "€b"]


def test_a_character_that_never_ends_is_shown_as_such() -> None:
    assert stream([b"a", "€".encode()[:2]]).pieces == ["a", "\ufffd"]


def test_a_stop_string_across_tokens_is_never_shown() -> None:
    text = stream([b"one ", b"t", b"wo", b" three"], "two")
    assert text.pieces == ["one ", "", ""]
    assert text.stopped_by == "two"


def test_what_only_began_like_a_stop_string_is_shown_later() -> None:
    assert stream([b"a", b"t", b"w", b"x"], "two").pieces == ["a", "", "", "twx"]
    assert stream([b"a", b"t"], "two").pieces == ["a", "t"]


@pytest.mark.parametrize("pieces", [[b"ab"], [b"a", b"b"]])
def test_the_stop_string_that_is_complete_first_wins(pieces: list[bytes]) -> None:
    text = stream([*pieces, b"c"], "abc", "b")
    assert (text.text, text.stopped_by) == ("a", "b")


def test_of_two_that_end_together_the_longer_wins() -> None:
    text = stream([b"xab"], "b", "ab")
    assert (text.text, text.stopped_by) == ("x", "ab")


CUTS = st.lists(st.integers(0, 40), max_size=8)


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(p, len(raw)) for p in places} | {len(raw)})
    return [raw[a:b] for a, b in zip([0, *ends], ends, strict=False)] or [b""]


@given(st.binary(max_size=30), CUTS)
def test_the_text_is_that_of_all_bytes_together(raw: bytes, places: list[int]) -> None:
    assert stream(cut(raw, places)).text == raw.decode("utf-8", "replace")


@given(st.text("abcé", max_size=24), CUTS, st.lists(st.text("abcé", min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_stop_is_found_however_the_text_is_cut(text: str, places: list[int], stops: list[str]) -> None:
    raw = text.encode()
    whole = stream([raw], *stops)
    parts = stream(cut(raw, places), *stops)
    assert (whole.text, whole.stopped_by) == (parts.text, parts.stopped_by)
    if whole.stopped_by:
        assert text.startswith(whole.text + whole.stopped_by)
    assert not any(stop in whole.text for stop in stops)


@given(st.text("abc", max_size=16), CUTS, st.text("abc", min_size=1, max_size=3))
def test_nothing_that_was_shown_has_to_be_taken_back(text: str, places: list[int], stop: str) -> None:
    pieces = cut(text.encode(), places)
    shown = TextStream(pieces.__getitem__, [stop])
    before = ""
    for i in range(len(pieces)):
        ended = shown.ends(i)
        assert shown.text.startswith(before)
        before = shown.text
        if ended:
            break
    assert text.split(stop)[0].startswith(before)
