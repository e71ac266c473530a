"""Texts that end a repetition, for DRY, as sequences of token ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from draftproof.server.vocabulary import Vocabulary

_MOST_BYTES = 40
_MOST_TOKENS = 20


@lru_cache(maxsize=8)
def breakers_of(texts: tuple[str, ...], vocabulary: Vocabulary) -> tuple[tuple[int, ...], ...]:
    """Every way in which one of the texts can lie in tokens: within one, or from the end of one into those after it."""
    found: dict[tuple[int, ...], None] = {}
    pieces = _pieces(vocabulary)
    for text in texts:
        wanted = text.encode("utf-8", "replace")[:_MOST_BYTES]
        if wanted:
            found.update(dict.fromkeys(pieces.sequences(wanted)))
    return tuple(found)


class _Pieces:
    """The texts of all tokens, and the tokens by the last byte of their texts: to look through all for each text takes long."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._all = [vocabulary.piece(token) for token in range(vocabulary.size)]
        self._by_end: dict[int, list[int]] = defaultdict(list)
        for token, piece in enumerate(self._all):
            if piece:
                self._by_end[piece[-1]].append(token)

    def sequences(self, wanted: bytes) -> Iterator[tuple[int, ...]]:
        whole = {token for token, piece in enumerate(self._all) if wanted in piece}
        yield from ((token,) for token in whole)
        for n in range(1, len(wanted)):
            begun = wanted[:n]
            ending = [t for t in self._by_end[begun[-1]] if self._all[t].endswith(begun) and t not in whole]
            if ending:
                tail = self._vocabulary.tokenize(wanted[n:].decode("utf-8", "replace"), add_special=False)
                yield from ((token, *tail[:_MOST_TOKENS]) for token in ending)


_pieces = lru_cache(maxsize=2)(_Pieces)
