from __future__ import annotations

import json
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.sampling.forms import DOCUMENT, KEYS, RECORD, Form
from draftproof.checks.sampling.structure import doubled, repetition
from draftproof.core.ask import Ask
from draftproof.core.sampling import GREEDY


def form(
    text: str, *, finish: str = "stop", grammar: str = "", cycle: tuple[str, ...] = (), keys: tuple[str, ...] = ()
) -> Form:
    answer = made.answer((), ids=(0,), finish=finish)
    return Form(replace(answer, text=text, ask=Ask("x", 9, 0, GREEDY, grammar=grammar)), cycle, keys)


def test_the_record_in_the_document_is_what_the_grammar_wants() -> None:
    assert RECORD in DOCUMENT
    assert list(json.loads(RECORD)) == list(KEYS)
    assert not form(RECORD, keys=KEYS).fault()


@pytest.mark.parametrize(
    "text",
    [
        RECORD[:-1],
        RECORD + "}",
        RECORD.replace('"founded": 7, ', ""),
        RECORD.replace('"founded": 7', '"founded": 7, "founded": 7'),
        RECORD.replace("7,", "7.5,"),
        RECORD.replace("7,", "true,"),
        "[1]",
        "7",
        "",
    ],
)
def test_anything_else_is_told(text: str) -> None:
    assert form(text, keys=KEYS).fault()


def test_numbers_have_three_digits_at_most() -> None:
    assert not form(RECORD.replace("305", "999"), keys=KEYS).fault()
    assert form(RECORD.replace("305", "1000"), keys=KEYS).fault()
    assert form(RECORD.replace("305", "0"), keys=KEYS).fault()


def test_an_object_that_the_budget_cut_is_not_blamed() -> None:
    assert not form(RECORD[:20], finish="length", keys=KEYS).fault()


def test_a_quoted_text_may_be_cut_or_be_followed_by_more() -> None:
    grammar = 'root ::= "a\\"b\\n"'
    assert not form('a"', grammar=grammar).fault()
    assert not form('a"b\nc', grammar=grammar).fault()
    assert "character 3" in form('a"c', grammar=grammar).fault()


def test_letters_go_round() -> None:
    assert not form("acbd", cycle=("ab", "cd")).fault()
    assert "character 4 is 'b'" in form("acbb", cycle=("ab", "cd")).fault()


def test_where_a_block_begins_again() -> None:
    assert list(doubled((1, 2, 3, 4))) == []
    assert list(doubled((1, 2, 2, 3))) == [2]
    assert list(doubled((1, 2, 3, 2, 3, 4))) == [3]
    assert repetition((1, 2, 3, 2, 3, 4)) == pytest.approx(2 / 6)
    assert repetition(()) == 0
