"""Which tokens a GBNF grammar allows next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from draftproof.engine.backend import UnknownToken
from draftproof.engine.libllama.errors import GrammarRejected
from draftproof.engine.libllama.model import Model
from draftproof.engine.libllama.owner import Owner

CANDIDATE = np.dtype([("id", "i4"), ("logit", "f4"), ("p", "f4")])


class Grammar(Owner):
    """The state of one text under a grammar: what was accepted so far decides what is allowed next."""

    def __init__(self, model: Model, state: Any) -> None:
        """Takes over a C object. See `parse`."""
        super().__init__(model.library, state, model.library.lib.llama_sampler_free)
        self.model = model

    @classmethod
    def parse(cls, model: Model, text: str, root: str = "root") -> Self:
        """The grammar `text` before the first token.

        Raises GrammarRejected when the text does not parse, or has no rule `root`.
        """
        if not text.strip() or "\0" in text + root:
            raise GrammarRejected("A grammar must be a text without NUL, and not empty.")
        library = model.library
        library.log.forget()
        state = library.lib.llama_sampler_init_grammar(model.vocab.pointer, text.encode(), root.encode())
        if state == library.ffi.NULL:
            raise GrammarRejected(f"The grammar does not parse: {library.log.trouble() or 'libllama gives no reason'}.")
        return cls(model, state)

    def allowed(self, tokens: Sequence[int] | NDArray[np.integer] | None = None) -> NDArray[np.bool_]:
        """bool[n]: which of `tokens` (None: of all token ids) may come next. The state stays. Raises UnknownToken."""
        vocab = self.model.vocab
        ids = np.arange(vocab.size) if tokens is None else np.asarray(tokens, np.int64)
        if ids.size and (ids.min() < 0 or ids.max() >= vocab.size):
            raise UnknownToken(f"A token id is outside [0, {vocab.size}).")
        _ = vocab.pointer  # raises when the model was closed: the grammar looks into its vocabulary
        candidates = np.zeros(ids.size, CANDIDATE)
        candidates["id"] = ids
        ffi = self.library.ffi
        array = ffi.new("llama_token_data_array *")
        array.data = ffi.cast("llama_token_data *", candidates.ctypes.data)
        array.size, array.selected, array.sorted = ids.size, -1, False
        if ids.size:
            self.library.lib.llama_sampler_apply(self.pointer, array)
        allowed: NDArray[np.bool_] = candidates["logit"] == 0
        return allowed

    def accept(self, token: int) -> None:
        """The text goes on with `token`. Raises ValueError when it is not allowed: libllama would abort the process."""
        if not self.allowed([token])[0]:
            raise ValueError(f"the grammar does not allow token {token} here")
        self.library.lib.llama_sampler_accept(self.pointer, token)

    def clone(self) -> Grammar:
        """A second state that goes its own way, for drafts that may be rejected."""
        return Grammar(self.model, self.library.lib.llama_sampler_clone(self.pointer))
