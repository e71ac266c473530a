from __future__ import annotations

import itertools
import math

import pytest

from draftproof.client.noise import BatchNoise, noise_requests, squared_difference
from draftproof.core.ask import Prompt
from draftproof.core.probe import OracleRow

ROWS = (4, 9)
LAW = (math.log(0.5), math.log(0.3), math.log(0.2))


def row(*logprobs: float) -> OracleRow:
    return OracleRow(tuple(range(len(logprobs))), tuple("abc"[: len(logprobs)]), logprobs, 1)


class Cached:
    """A server with one cached prompt; a batch of rows moves its logprobs by `shift`, up and down."""

    def __init__(self, shift: float) -> None:
        self.shift = shift
        self.cached: Prompt = ()
        self.asked: list[Prompt] = []

    def one_token(self, context: Prompt) -> OracleRow:
        pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(context, self.cached, strict=False))
        kept = sum(1 for _ in pairs)
        rows = max(1, len(context) - kept)
        self.cached = context
        self.asked.append(context)
        shift = self.shift if rows > 1 else 0.0
        return row(*(lp + shift * (-1) ** i for i, lp in enumerate(LAW)))


def test_a_server_whose_batches_agree_with_its_rows_has_no_noise() -> None:
    assert BatchNoise(Cached(0.0).one_token).rms([(1, 2, 3)], ROWS) == 0.0


def test_the_noise_between_batches_and_single_rows_is_measured() -> None:
    server = Cached(0.01)
    assert BatchNoise(server.one_token).rms([(1, 2, 3), (4, 5)], ROWS) == pytest.approx(0.01)
    assert len(server.asked) == noise_requests(ROWS, 2)
    assert all(len(context) >= max(ROWS) for context in server.asked)


def test_each_number_of_rows_is_measured_once() -> None:
    server = Cached(0.01)
    noise = BatchNoise(server.one_token)
    assert noise.rms([(1, 2, 3)], ROWS) == noise.rms([(4, 5)], ROWS[:1]) == pytest.approx(0.01)
    assert len(server.asked) == noise_requests(ROWS, 1)
    noise.rms([(1, 2, 3)], (*ROWS, 72))
    assert len(server.asked) == noise_requests(ROWS, 1) + noise_requests((72,), 1)


def test_texts_are_asked_twice_as_they_are() -> None:
    server = Cached(0.0)
    assert BatchNoise(server.one_token).rms(["text"], ROWS) == 0.0
    assert server.asked == ["text", "text"]


def test_without_contexts_there_is_nothing_to_measure() -> None:
    assert BatchNoise(Cached(0.5).one_token).rms([], ROWS) == 0.0


def test_differences_are_weighted_by_probability_over_the_tokens_that_both_list() -> None:
    a = row(*LAW)
    b = OracleRow((0, 2, 9), ("a", "c", "x"), (LAW[0] + 0.1, LAW[2], -3.0), 2)
    assert squared_difference(a, b) == pytest.approx(0.5 * 0.01 / 0.7)
    assert squared_difference(a, OracleRow((), (), (), 2)) == 0.0
    assert squared_difference(row(-math.inf), row(-1.0)) == 0.0
