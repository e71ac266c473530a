"""Token ids and their texts, as far as the server needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from draftproof.countable.vocabulary import END_TEXT
from draftproof.engine.backend import UnknownToken


class Vocabulary(Protocol):
    """The vocabulary of a loaded model."""

    def __hash__(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def bos(self) -> int | None: ...
    @property
    def eos(self) -> int | None: ...
    @property
    def adds_bos(self) -> bool: ...

    def piece(self, token: int, *, special: bool = True) -> bytes:
        """The bytes of one token, not always UTF-8 by themselves; control tokens only if `special`. Raises UnknownToken."""
        ...

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Token ids of a text, with those that belong around it, and with control tokens recognised. Raises UsageError."""
        ...

    def detokenize(self, tokens: Sequence[int], *, remove_special: bool = False, unparse_special: bool = True) -> bytes:
        """The bytes of a text. Raises UnknownToken."""
        ...


class Letters:
    """The vocabulary of a countable model; texts are taken apart greedily, longest token first.

    What is no token of theirs is left out, as libllama does with them.
    """

    bos: int | None = None
    adds_bos = False

    def __init__(self, pieces: Sequence[bytes], end: int | None = None) -> None:
        self.size = len(pieces)
        self.eos = end
        self._pieces = list(pieces)
        self._ids = sorted(((p, i) for i, p in enumerate(pieces) if p), key=lambda item: -len(item[0]))

    def piece(self, token: int, *, special: bool = True) -> bytes:
        if not 0 <= token < self.size:
            raise UnknownToken(f"Token id {token} is outside [0, {self.size}).")
        if token == self.eos:
            return (self._pieces[token] or END_TEXT.encode()) if special else b""
        return self._pieces[token]

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:  # noqa: ARG002 - nothing belongs around a text
        left, out = text.encode(), []
        while left:
            if parse_special and self.eos is not None and left.startswith(END_TEXT.encode()):
                out.append(self.eos)
                left = left[len(END_TEXT) :]
                continue
            piece, token = next((item for item in self._ids if left.startswith(item[0])), (left[:1], None))
            left = left[len(piece) :]
            if token is not None:
                out.append(token)
        return out

    def detokenize(self, tokens: Sequence[int], *, remove_special: bool = False, unparse_special: bool = True) -> bytes:
        special = unparse_special and not remove_special
        return b"".join(self.piece(token, special=special) for token in tokens)
