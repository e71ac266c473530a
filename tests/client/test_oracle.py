from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from draftproof.client.oracle import Oracle, oracle_row
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
    """Answers every Ask with one law, shifted by `shift` when the cache is off."""

    def __init__(self, shift: float = 0.0, **answer: Any) -> None:
        self.asks: list[Ask] = []
        self.shift = shift
        self.answer = answer

    def ask_many(self, asks: Iterable[Ask]) -> Iterator[Completion]:
        for ask in asks:
            self.asks.append(ask)
            shift = self.shift if ("cache_prompt", False) in ask.extra else 0.0
            record = token(*(lp + shift * (-1) ** i for i, lp in enumerate(LAW)))
            yield Completion(ask, len(self.asks), "/completion", 200, **({"tokens": (record,)} | self.answer))


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
        TokenRecord(None, "a", None, -0.1, (Alternative(None, "a", -0.1), Alternative(None, "b", -2.0))), 3, 2
    )
    assert (row.ids, row.texts, row.complete) == ((-1, -1), ("a", "b"), False)


@pytest.mark.parametrize(
    "answer", [{"error": "HTTP 400: no"}, {"tokens": ()}, {"tokens": (TokenRecord(0, "a", None, 0.0, ()),)}]
)
def test_no_law_is_an_error_with_its_exchange(answer: dict[str, Any]) -> None:
    with pytest.raises(TargetError) as caught:
        Oracle(Server(**answer).ask_many, FACTS).rows([(1,)])
    assert caught.value.exchange == 1


def test_a_server_that_agrees_with_itself_has_no_noise() -> None:
    server = Server()
    noise = Oracle(server.ask_many, FACTS, (("cache_prompt", False),)).noise([(1, 2), (3, 4)])
    assert (noise.nu, noise.largest, noise.contexts) == (0.0, 0.0, 2)
    # Twice as it comes, once whole and uncached, a first half, and the rest on top of it: five requests per context.
    assert len(server.asks) == 10
    assert server.asks[6].prompt == (1,)


def test_noise_between_cached_and_uncached_is_measured() -> None:
    noise = Oracle(Server(shift=0.01).ask_many, FACTS, (("cache_prompt", False),)).noise([(1, 2), (3, 4)])
    assert noise.repeated == 0.0
    assert noise.paths == pytest.approx(0.01)
    assert noise.nu == pytest.approx(0.01)
    assert noise.largest == pytest.approx(0.01)


def test_without_a_switch_for_the_cache_only_repetition_is_measured() -> None:
    server = Server(shift=0.01)
    noise = Oracle(server.ask_many, FACTS).noise([(1, 2)])
    assert (noise.paths, noise.nu, len(server.asks)) == (None, 0.0, 2)
