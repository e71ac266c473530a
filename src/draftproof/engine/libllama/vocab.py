"""Token ids and the bytes they stand for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from draftproof.core.errors import UsageError
from draftproof.engine.backend import UnknownToken

if TYPE_CHECKING:
    from draftproof.engine.libllama.model import Model

PIECE_BYTES = 64
LONGEST_TEXT = 2**30


class Vocab:
    """The vocabulary of a model; lives as long as the model does."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._pieces: dict[tuple[int, bool], bytes] = {}
        self.size = int(self._lib.llama_vocab_n_tokens(self._pointer))
        self.adds_bos = bool(self._lib.llama_vocab_get_add_bos(self._pointer))
        self.adds_eos = bool(self._lib.llama_vocab_get_add_eos(self._pointer))

    @property
    def _lib(self) -> Any:
        return self._model.library.lib

    @property
    def _pointer(self) -> Any:
        return self._lib.llama_model_get_vocab(self._model.pointer)

    @property
    def pointer(self) -> Any:
        """The C pointer, for those who build on a vocabulary."""
        return self._pointer

    @property
    def bos(self) -> int | None:
        """The token that begins a text; None when there is none."""
        return self._special(self._lib.llama_vocab_bos)

    @property
    def eos(self) -> int | None:
        """The token that ends a text; None when there is none."""
        return self._special(self._lib.llama_vocab_eos)

    @property
    def eot(self) -> int | None:
        """The token that ends a turn of a conversation; None when there is none."""
        return self._special(self._lib.llama_vocab_eot)

    @cached_property
    def eog(self) -> frozenset[int]:
        """Every token that ends a generation."""
        is_eog, pointer = self._lib.llama_vocab_is_eog, self._pointer
        return frozenset(token for token in range(self.size) if is_eog(pointer, token))

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal. Equal for two models exactly when every token id has the same text in both."""
        text, pointer, string = self._lib.llama_vocab_get_text, self._pointer, self._model.library.ffi.string
        digest = hashlib.sha256()
        for token in range(self.size):
            piece = string(text(pointer, token))
            digest.update(b"%d:%b" % (len(piece), piece))
        return digest.hexdigest()

    def is_control(self, token: int) -> bool:
        """Whether the token has a meaning for the model only. Raises UnknownToken."""
        return bool(self._lib.llama_vocab_is_control(self._pointer, self._known(token)))

    def piece(self, token: int, *, special: bool = True) -> bytes:
        """The bytes of one token; not always UTF-8 by themselves. `special`: control tokens are written out, else empty.

        Raises UnknownToken.
        """
        key = (token, special)
        found = self._pieces.get(key)
        if found is None:
            found = self._pieces[key] = self._read_piece(self._known(token), special=special)
        return found

    def pieces(self) -> list[bytes]:
        """The bytes of every token, control tokens written out. Takes a second where there are some hundred thousand."""
        return [self._read_piece(token, special=True) for token in range(self.size)]

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Token ids of a text.

        add_special: with the tokens that the model wants around a text. parse_special: a control token written in the text
        becomes that token. Raises UsageError for a text with lone surrogates, or of a gigabyte.
        """
        try:
            raw = text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"The text is no valid Unicode: {error}") from error
        if len(raw) > LONGEST_TEXT:
            raise UsageError(f"A text of {len(raw)} bytes is too long to tokenize.")
        ffi = self._model.library.ffi
        room = len(raw) + 2
        tokens = ffi.new("llama_token[]", room)
        args = (self._pointer, raw, len(raw))
        count = self._lib.llama_tokenize(*args, tokens, room, add_special, parse_special)
        if count < 0:
            room = -count
            tokens = ffi.new("llama_token[]", room)
            count = self._lib.llama_tokenize(*args, tokens, room, add_special, parse_special)
        return list(ffi.unpack(tokens, count)) if count else []

    def detokenize(self, tokens: Sequence[int], *, remove_special: bool = False, unparse_special: bool = True) -> bytes:
        """The bytes of a text; the inverse of `tokenize` where the vocabulary has one.

        remove_special: without the tokens that `add_special` adds. unparse_special: control tokens are written out.
        Raises UnknownToken.
        """
        ffi = self._model.library.ffi
        ids = ffi.new("llama_token[]", [self._known(token) for token in tokens])
        room = 8 * len(tokens) + PIECE_BYTES
        while True:
            buffer = ffi.new("char[]", room)
            count = self._lib.llama_detokenize(
                self._pointer, ids, len(tokens), buffer, room, remove_special, unparse_special
            )
            if count >= 0:
                return bytes(ffi.buffer(buffer, count))
            room = -count

    def _special(self, read: Any) -> int | None:
        token = int(read(self._pointer))
        return token if 0 <= token < self.size else None

    def _known(self, token: int) -> int:
        if not 0 <= token < self.size:
            raise UnknownToken(f"Token id {token} is outside [0, {self.size}).")
        return token

    def _read_piece(self, token: int, *, special: bool) -> bytes:
        ffi = self._model.library.ffi
        room = PIECE_BYTES
        while True:
            buffer = ffi.new("char[]", room)
            count = self._lib.llama_token_to_piece(self._pointer, token, buffer, room, 0, special)
            if count >= 0:
                return bytes(ffi.buffer(buffer, count))
            room = -count
