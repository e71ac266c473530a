"""A grammar that holds from a trigger on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from draftproof.core.law import Ids
from draftproof.server.tools.lazy import Lazily

PIECES = [b"a", b"<", b"call", b">", b"x<call>", b">1", b"1", b"2", b" ", b"\xc3", b"\xa9"]
IDS = np.arange(len(PIECES))


class Only:
    """Allows the tokens of one text, one after the other."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.left = list(tokens)

    def allowed(self, ids: Ids) -> NDArray[np.bool_]:
        return np.asarray(ids == self.left[0])

    def advance(self, token: int) -> None:
        if token != self.left[0]:
            raise ValueError("not allowed")
        del self.left[0]


def tokenize(text: str) -> list[int]:
    tokens = {"<call>": [1, 2, 3], "<call>1": [1, 2, 3, 6], "<call>a": [1, 2, 3, 0]}
    return tokens[text]


def after(*tokens: int, at_start: bool = False) -> NDArray[np.bool_]:
    """What may come after these tokens, where the grammar is <call>12."""
    lazily = Lazily(Only([1, 2, 3, 6, 7]), "<call>", at_start=at_start, bytes_of=PIECES.__getitem__, tokenize=tokenize)
    for token in tokens:
        assert lazily.allowed(IDS)[token]
        lazily.advance(token)
    return lazily.allowed(IDS)


@pytest.mark.parametrize("tokens", [(), (0, 1, 2), (1, 1, 2), (9, 10, 3), (6, 7)])
def test_before_the_trigger_everything_is_allowed(tokens: tuple[int, ...]) -> None:
    assert after(*tokens).all()


@pytest.mark.parametrize("tokens", [(1, 2, 3), (0, 0, 0, 1, 2, 3), (4,), (9, 4), (1, 1, 2, 3)])
def test_from_the_trigger_on_the_grammar_holds(tokens: tuple[int, ...]) -> None:
    assert after(*tokens).tolist() == [i == 6 for i in IDS]


def test_what_is_in_the_trigger_s_last_token_counts() -> None:
    assert after(1, 2, 5).tolist() == [i == 7 for i in IDS]


def test_a_token_that_goes_on_otherwise_has_not_called() -> None:
    pieces = [*PIECES[:3], b">a"]
    lazily = Lazily(Only([1, 2, 3, 6]), "<call>", at_start=False, bytes_of=pieces.__getitem__, tokenize=tokenize)
    for token in (1, 2, 3, 0, 1, 2):
        assert lazily.allowed(IDS).all()
        lazily.advance(token)


def test_where_only_a_beginning_counts() -> None:
    assert after(8, 1, 2, 3, at_start=True).tolist() == [i == 6 for i in IDS]
    assert after(8, 1, 2, at_start=True).all()
    assert after(0, 1, 2, 3, at_start=True).all()
    assert after(4, 1, 2, 3, at_start=True).all()


def test_once_it_holds_other_tokens_are_errors() -> None:
    lazily = Lazily(Only([1, 2, 3, 6]), "<call>", at_start=False, bytes_of=PIECES.__getitem__, tokenize=tokenize)
    for token in (1, 2, 3):
        lazily.advance(token)
    with pytest.raises(ValueError, match="not allowed"):
        lazily.advance(0)
