from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from draftproof.client.oracle import Oracle, lawful, oracle_row
from draftproof.core.ask import Ask, Completion
from draftproof.core.errors import TargetError
from draftproof.core.facts import Facts
from draftproof.core.tokens import Alternative, TokenRecord

FACTS = Facts("http://x", "test", "test", vocabulary=3, max_alternatives=3)
LAW = (math.log(0.5), math.log(0.3), math.log(0.2))


def token(*logprobs: float, sampled: int = 0) -> TokenRecord:
    alternatives = tuple(Alternative(i, "abc"[i], lp) for i, lp in enumerate(logprobs))
    return TokenRecord(sampled, "abc"[sampled], None, logprobs[sampled], alternatives)


class Server:
    """Answers every Ask with one law."""

    def __init__(self, **answer: Any) -> None:
        self.asks: list[Ask] = []
        self.answer = answer

    def ask_many(self, asks: Iterable[Ask]) -> Iterator[Completion]:
        for ask in asks:
            self.asks.append(ask)
            yield Completion(ask, len(self.asks), "/completion", 200, **({"tokens": (token(*LAW),)} | self.answer))


def test_one_token_with_all_alternatives_is_asked_for_once() -> None:
    server = Server()
    oracle = Oracle(server.ask_many, FACTS)
    rows = oracle.rows([(1, 2), "text", (1, 2)])
    assert rows[0] is rows[2]
    assert rows[0].logprobs == LAW
    assert rows[0].complete
    assert oracle.rows([(1, 2)]) == rows[:1]
    assert [(a.prompt, a.max_tokens, a.alternatives) for a in server.asks] == [((1, 2), 1, 3), ("text", 1, 3)]


def test_another_number_of_alternatives_is_another_question() -> None:
    server = Server()
    oracle = Oracle(server.ask_many, FACTS)
    oracle.rows([(1,)])
    oracle.rows([(1,)], 2)
    assert [a.alternatives for a in server.asks] == [3, 2]


def test_memory_is_bounded_and_the_longest_unused_row_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("draftproof.client.oracle._REMEMBERED", 12)
    server = Server()
    oracle = Oracle(server.ask_many, FACTS)
    oracle.rows([(1,), (2,), (3,)])
    oracle.rows([(1,)])
    oracle.rows([(4,)])
    assert len(server.asks) == 4
    oracle.rows([(1,), (3,), (4,)])
    assert len(server.asks) == 4
    oracle.rows([(2,)])
    assert len(server.asks) == 5


def test_rows_are_best_first_and_hold_the_sampled_token() -> None:
    listed = (Alternative(4, "x", -2.0), Alternative(5, "y", -1.0), Alternative(6, "z", None))
    row = oracle_row(TokenRecord(9, "s", None, -1.5, listed), 3, 8)
    assert (row.ids, row.texts, row.logprobs) == ((5, 9, 4), ("y", "s", "x"), (-1.0, -1.5, -2.0))
    assert not row.complete


def test_texts_without_ids_have_the_id_minus_one() -> None:
    row = oracle_row(
        TokenRecord(None, "a", None, -0.1, (Alternative(None, "a", -0.1), Alternative(None, "b", -3.0))), 3, 2
    )
    assert (row.ids, row.texts, row.complete) == ((-1, -1), ("a", "b"), False)


def test_probabilities_in_the_place_of_logprobs_are_no_law() -> None:
    token = TokenRecord(0, "a", None, 0.6, (Alternative(0, "a", 0.6), Alternative(1, "b", 0.4)))
    with pytest.raises(TargetError, match="no log-probabilities") as caught:
        lawful(oracle_row(token, 7, 2))
    assert caught.value.exchange == 7


@pytest.mark.parametrize(
    "answer", [{"error": "HTTP 400: no"}, {"tokens": ()}, {"tokens": (TokenRecord(0, "a", None, 0.0, ()),)}]
)
def test_no_law_is_an_error_with_its_exchange(answer: dict[str, Any]) -> None:
    with pytest.raises(TargetError) as caught:
        Oracle(Server(**answer).ask_many, FACTS).rows([(1,)])
    assert caught.value.exchange == 1
