"""The tokens of a model small enough to count: their bytes, and how GGUF files spell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from draftproof.core.errors import UsageError

MOST_TOKENS = 11
END_TEXT = "<end>"
_END_LETTERS = ".$#"


def _spellings() -> dict[int, str]:
    """Byte to letter, as GPT-2's tokenizer files write bytes (github.com/openai/gpt-2, src/encoder.py)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


_LETTER = _spellings()
_BYTE = {letter: byte for byte, letter in _LETTER.items()}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`pieces[i]`: the bytes of token i, not always UTF-8 by themselves; `end`: the token that ends a text, which has none."""

    pieces: tuple[bytes, ...]
    end: int | None = None

    def __post_init__(self) -> None:
        if len(self.pieces) > MOST_TOKENS:
            raise UsageError(
                f"{len(self.pieces)} letters: llama.cpp takes token {MOST_TOKENS} of such a vocabulary for the end of a text.",
                f"Use at most {MOST_TOKENS} letters.",
            )

    @classmethod
    def of_letters(cls, letters: str, *, end: bool = False) -> Self:
        """One letter, one token, and after them one that ends a text."""
        pieces = tuple(letter.encode() for letter in letters)
        return cls((*pieces, b""), len(pieces)) if end else cls(pieces)

    @classmethod
    def of_spellings(cls, spellings: Sequence[str], end: int | None) -> Self:
        """From a GGUF file's list of tokens. Raises UsageError for one that no bytes stand behind."""
        try:
            pieces = [b"" if i == end else bytes(_BYTE[letter] for letter in text) for i, text in enumerate(spellings)]
        except KeyError as error:
            raise UsageError(f"A token of the model holds {error}, which stands for no byte.") from error
        return cls(tuple(pieces), end)

    @property
    def spellings(self) -> list[str]:
        """The tokens as a GGUF file lists them."""
        return [
            END_TEXT if i == self.end else "".join(_LETTER[byte] for byte in piece)
            for i, piece in enumerate(self.pieces)
        ]

    @property
    def alphabet(self) -> str:
        """One letter for each token, all different: its text, or for bytes that are no letter a spelling of their own."""
        letters: list[str] = []
        for i, piece in enumerate(self.pieces):
            text = piece.decode(errors="replace")
            spelt = [text] if len(text) == 1 and "\ufffd" not in text else [_LETTER[byte] for byte in piece]
            usable = [x for x in (_END_LETTERS if i == self.end else spelt) if x not in letters]
            if not usable:
                raise UsageError(f"Token {i} of the model has no letter of its own.", "Every token must be one letter.")
            letters.append(usable[0])
        return "".join(letters)
