from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.recorded import exchange

from draftproof.client.wire import Field, answer_json, server_words, strict_json
from draftproof.core.errors import NoNumber, TargetError


@pytest.mark.parametrize("text", ["NaN", '{"a": Infinity}', "[-Infinity]", '{"a": 1', "", "[" * 100_000, "{'a': 1}"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not JSON|line 1|nested"):
        strict_json(text)


def test_an_empty_body_is_told_from_a_broken_one() -> None:
    with pytest.raises(TargetError, match="empty body") as caught:
        answer_json(exchange(" \n"))
    assert caught.value.exchange == 7
    with pytest.raises(TargetError, match="not valid JSON") as caught:
        answer_json(exchange('{"content": "a'))
    assert caught.value.exchange == 7


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_what_is_no_number_is_told_from_other_damage(number: str) -> None:
    broken = exchange(f'{{"logprob": {number}}}')
    with pytest.raises(NoNumber):
        Field(broken).number(answer_json(broken)["logprob"], "logprob")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ('{"error": {"message": "prompt must not be empty", "code": 400}}', "HTTP 400: prompt must not be empty"),
        ('{"error": "slow down"}', "HTTP 400: slow down"),
        ('{"detail": "no"}', "HTTP 400: no"),
        ('{"error": {}, "message": "x"}', "HTTP 400: x"),
        ("<html><style>b {}</style><h1>Bad\n &amp; Request</h1></html>", "HTTP 400: Bad & Request"),
        ("", "HTTP 400 without a word"),
        ('{"error": {"message": {"deep": 1}}}', 'HTTP 400: {"deep": 1}'),
    ],
)
def test_a_refusal_is_repeated_in_the_servers_words(answer: str, words: str) -> None:
    assert server_words(exchange(answer, status=400)) == words


def test_long_words_are_cut() -> None:
    assert len(server_words(exchange("x" * 10_000, status=500))) < 400


@given(st.text(max_size=200))
def test_any_refusal_makes_one_short_line(answer: str) -> None:
    words = server_words(exchange(answer, status=500))
    assert words.startswith("HTTP 500")
    assert "\n" not in words


FIELD = Field(exchange("{}"))


@pytest.mark.parametrize("value", [True, "1", float("inf"), 10**400, [1]])
def test_only_finite_numbers_are_numbers(value: object) -> None:
    with pytest.raises(TargetError, match="'logprob' should be a finite number"):
        FIELD.number(value, "logprob")


def test_numbers_and_absence() -> None:
    assert FIELD.number(None, "x") is None
    assert FIELD.number(3, "x") == 3.0
    assert FIELD.integer(None, "x") is None


@pytest.mark.parametrize("value", [[1, True], [1.0], ["a"], 3, None])
def test_only_whole_numbers_are_ids(value: object) -> None:
    with pytest.raises(TargetError, match="token ids"):
        FIELD.ids(value, "tokens")
