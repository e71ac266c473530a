"""Texts that end a repetition, for DRY, as sequences of token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from draftproof.server.vocabulary import Vocabulary

_MOST_BYTES = 40
_MOST_TOKENS = 20


@lru_cache(maxsize=8)
def breakers_of(texts: tuple[str, ...], vocabulary: Vocabulary) -> tuple[tuple[int, ...], ...]:
    """Every way in which one of the texts can lie in tokens: within one, or from the end of one into those after it."""
    found: dict[tuple[int, ...], None] = {}
    for text in texts:
        wanted = text.encode("utf-8", "replace")[:_MOST_BYTES]
        if wanted:
            found.update(dict.fromkeys(_sequences(wanted, vocabulary)))
    return tuple(found)


def _sequences(wanted: bytes, vocabulary: Vocabulary) -> Iterable[tuple[int, ...]]:
    for token in range(vocabulary.size):
        piece = vocabulary.piece(token)
        if wanted in piece:
            yield (token,)
            continue
        for n in _overlaps(piece, wanted):
            tail = vocabulary.tokenize(wanted[n:].decode("utf-8", "replace"), add_special=False)
            yield (token, *tail[:_MOST_TOKENS])


def _overlaps(piece: bytes, wanted: bytes) -> Sequence[int]:
    """Lengths n such that `piece` ends with the first n bytes of `wanted`."""
    return [n for n in range(1, min(len(piece), len(wanted) - 1) + 1) if piece.endswith(wanted[:n])]
