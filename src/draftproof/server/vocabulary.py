"""Token ids and their texts, as far as the server needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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
    """One letter is one token, as in the countable models. What is no letter of theirs is left out, as libllama does with them."""

    bos: int | None = None
    eos: int | None = None
    adds_bos = False

    def __init__(self, alphabet: str) -> None:
        self.size = len(alphabet)
        self._ids = {letter: i for i, letter in enumerate(alphabet)}
        self._pieces = [letter.encode() for letter in alphabet]

    def piece(self, token: int, *, special: bool = True) -> bytes:  # noqa: ARG002 - there are no control tokens
        if not 0 <= token < self.size:
            raise UnknownToken(f"Token id {token} is outside [0, {self.size}).")
        return self._pieces[token]

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:  # noqa: ARG002 - there are no control tokens
        return [self._ids[letter] for letter in text if letter in self._ids]

    def detokenize(self, tokens: Sequence[int], *, remove_special: bool = False, unparse_special: bool = True) -> bytes:  # noqa: ARG002 - there are no control tokens
        return b"".join(map(self.piece, tokens))
