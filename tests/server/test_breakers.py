"""Texts that end a repetition, as sequences of tokens, against looking through the whole vocabulary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from draftproof.server.breakers import breakers_of
from draftproof.server.vocabulary import Letters

BITS = st.binary(max_size=3).map(lambda raw: bytes(b"ab\n"[byte % 3] for byte in raw))
TEXTS = st.text(alphabet="ab\n", max_size=5)


def one_by_one(text: str, vocabulary: Letters) -> set[tuple[int, ...]]:
    wanted = text.encode()
    found: set[tuple[int, ...]] = set()
    for token in range(vocabulary.size):
        piece = vocabulary.piece(token)
        if wanted in piece:
            found.add((token,))
            continue
        for n in range(1, len(wanted)):
            if piece.endswith(wanted[:n]):
                found.add((token, *vocabulary.tokenize(wanted[n:].decode())))
    return found


@given(pieces=st.lists(BITS, min_size=1, max_size=8), texts=st.lists(TEXTS, max_size=3))
def test_every_way_to_lie_in_tokens_is_found(pieces: list[bytes], texts: list[str]) -> None:
    vocabulary = Letters(pieces)
    expected = set().union(*(one_by_one(text, vocabulary) for text in texts if text))
    found = breakers_of(tuple(texts), vocabulary)
    assert set(found) == expected
    assert len(found) == len(expected)


def test_a_text_may_begin_in_one_token_and_end_in_another() -> None:
    vocabulary = Letters([b"a", b"b", b"xa", b"bb", b"abb"])
    assert set(breakers_of(("ab",), vocabulary)) == {(0, 1), (2, 1), (4,)}
