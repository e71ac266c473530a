"""What of a text is a call, however it is cut into pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.tools.templates import BARE, FORMS, LISTED, MARKED, form_of, written

from draftproof.server.tools.reader import Argued, Called, CallReader, News, Said

NAMES = ("get_weather", "get", "sum-2")


def read(source: str, pieces: Sequence[str]) -> tuple[str, list[tuple[str, str]]]:
    """The text that is no call, and the calls."""
    reader = CallReader(form_of(source), NAMES)
    news: list[News] = [one for piece in pieces for one in reader.take(piece)] + reader.finish()
    names = [one.name for one in news if isinstance(one, Called)]
    calls = [""] * len(names)
    for one in news:
        if isinstance(one, Argued):
            calls[one.index] += one.text
    assert reader.calls == len(names)
    return "".join(one.text for one in news if isinstance(one, Said)), list(zip(names, calls, strict=True))


def cuts(text: str, places: Sequence[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {len(text)})
    return [text[a:b] for a, b in zip([0, *ends], ends, strict=False)]


ARGUMENTS = st.dictionaries(
    st.text(max_size=5), st.recursive(st.text(max_size=8) | st.integers(), st.lists), max_size=3
)
CALLS = st.lists(st.tuples(st.sampled_from(NAMES), ARGUMENTS.map(json.dumps)), min_size=1, max_size=3)


@given(st.sampled_from(sorted(FORMS)), CALLS, st.lists(st.integers(0, 10**6), max_size=12), st.text(max_size=9))
def test_what_a_template_writes_is_read_back(
    kind: str, calls: list[tuple[str, str]], places: list[int], said: str
) -> None:
    source = FORMS[kind]
    form = form_of(source)
    calls = calls if form.between is not None else calls[:1]
    text = written(source, calls)
    text = text[text.index(form.before) :]
    before = said if form.anywhere and not set(said) & set(form.trigger) else ""
    content, found = read(source, cuts(before + text, places))
    assert content == before
    assert [(name, json.loads(arguments)) for name, arguments in found] == [(n, json.loads(a)) for n, a in calls]


PARTS = (
    '<tool|_call>|\n|{"name": "|get|_weather|", "arguments": |{}|{"a": [1|]}|}\n</|tool_call>|<|x|"|</tool_call>|'
    '{"name": "get", "arguments": {}}|{"name": "get", "parameters": {}}'
)
SNIPPETS = st.lists(st.sampled_from(PARTS.split("|")), max_size=14)


@given(SNIPPETS, st.lists(st.integers(0, 10**6), max_size=12))
@pytest.mark.parametrize("source", [MARKED, BARE], ids=["marked", "bare"])
def test_nothing_is_lost_and_cuts_change_nothing(source: str, snippets: list[str], places: list[int]) -> None:
    text = "".join(snippets)
    content, calls = read(source, [text])
    assert read(source, cuts(text, places)) == (content, calls)
    if not calls:
        assert content == text


@pytest.mark.parametrize(
    "text",
    [
        "a <tool_call> is what they write",
        '<tool_call>\n{"name": "unknown", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "get", "arguments": []}\n</tool_call>',
        '<tool_call>\n{"name": "get_weather_of_everywhere, on and on',
        '<tool_call>\n{"name": "get_wea',
        "<tool_",
        "<<tool_call><",
    ],
)
def test_what_only_looks_like_a_call_is_text(text: str) -> None:
    assert read(MARKED, [text]) == (text, [])
    assert read(MARKED, list(text)) == (text, [])


def test_an_answer_that_was_cut_has_the_beginning_of_its_call() -> None:
    whole = written(LISTED, [("get", '{"a": "}\\""}')])
    for end in range(len(whole)):
        content, calls = read(LISTED, [whole[:end]])
        if calls:
            assert not content
            assert '{"a": "}\\""}'.startswith(calls[0][1])
        else:
            assert content == whole[:end]
    assert read(LISTED, [whole]) == ("", [("get", '{"a": "}\\""}')])


def test_text_goes_on_after_calls() -> None:
    one = '<tool_call>\n{"name": "get", "arguments": {}}\n</tool_call>'
    assert read(MARKED, [f"first {one} then {one}!"]) == ("first  then !", [("get", "{}"), ("get", "{}")])
    assert read(BARE, [' {"name": "get", "parameters": {}} {"name": "get", "parameters": {}}']) == (
        ' {"name": "get", "parameters": {}}',
        [("get", "{}")],
    )


def test_pieces_are_told_as_soon_as_they_are_certain() -> None:
    reader = CallReader(form_of(MARKED), NAMES)
    assert reader.take("Well <b>") == [Said("Well <b>")]
    assert reader.take(" <tool_c") == [Said(" ")]
    assert reader.take('all>\n{"name": "get", "arguments": ') == []
    assert reader.take('{"a"') == [Called(0, "get"), Argued(0, '{"a"')]
    assert reader.take(": 1}") == [Argued(0, ": 1}")]
    assert reader.take("}\n</tool_call>") == []
    assert reader.finish() == []
