"""Which tokens a JSON schema allows next, or a grammar in the notation of llguidance, which llama-server hands them to as well."""

from __future__ import annotations

import json
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from draftproof.core.errors import UsageError
from draftproof.core.law import Ids
from draftproof.engine.libllama.vocab import Vocab

HEADER = "%llguidance"
"""What a grammar in this notation begins with."""
_KEPT = 32
_REMEDY = "Leave that out, or say it otherwise."
_OF_SCHEMA = f"{HEADER} {{}}\nstart: "


def grammar_of(schema: object) -> str:
    """The grammar of the documents that a JSON schema allows, as llama-server writes it; `Guides.guide` says if there is none."""
    return f"{_OF_SCHEMA}%json {json.dumps(schema, separators=(',', ':'))}"


def rule_of(grammar: str) -> str:
    """What stands for such documents in a grammar of more than that, from one that `grammar_of` made; "" for any other."""
    rule = grammar.removeprefix(_OF_SCHEMA)
    return rule if rule != grammar and rule.startswith("%json ") and "\n" not in rule else ""


class Guide:
    """The state of one text under a grammar: a `Constraint`."""

    def __init__(self, matcher: LLMatcher, vocab: int) -> None:
        self._matcher = matcher
        self._vocab = vocab
        self._mask: NDArray[np.bool_] | None = None

    def allowed(self, ids: Ids) -> NDArray[np.bool_]:
        """bool[len(ids)]. Raises ValueError where no token of the vocabulary can come, or the grammar is too complex."""
        if self._mask is None:
            bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
            if self._matcher.is_error():
                raise self._broken("no token of this model fits the grammar here")
            self._mask = np.unpackbits(bits, count=self._vocab, bitorder="little").view(np.bool_)
        return self._mask[ids]

    def advance(self, token: int) -> None:
        """Raises ValueError for a token that is not allowed, and where the grammar is too complex."""
        self._mask = None
        if not self._matcher.consume_token(token):
            raise self._broken(f"the grammar does not allow token {token} here")

    def _broken(self, what: str) -> ValueError:
        """What is wrong, with llguidance's own reason if it has one."""
        why = _sentence(self._matcher.get_error()) if self._matcher.is_error() else ""
        return ValueError(f"{what} ({why})" if why else what)


class Guides:
    """Makes guides for one vocabulary. The first takes a second or more where that is large; from any thread."""

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab
        self._compiled = lru_cache(maxsize=_KEPT)(self._compile)

    def guide(self, text: str) -> Guide:
        """A guide before the first token. Raises UsageError for a grammar that does not parse, or a schema that has none."""
        return Guide(self._compiled(text).deep_copy(), self._vocab.size)

    def _compile(self, text: str) -> LLMatcher:
        matcher = LLMatcher(self._tokenizer, text, log_level=0)
        if matcher.is_error():
            raise UsageError(f"The grammar or JSON schema cannot be served: {_sentence(matcher.get_error())}.", _REMEDY)
        return matcher

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        pieces = _Pieces(self._vocab)
        return LLTokenizer(TokenizerWrapper(pieces), eos_token=pieces.ends)


class _Pieces:
    """A vocabulary as llguidance takes it."""

    def __init__(self, vocab: Vocab) -> None:
        ids = range(vocab.size)
        self.ends = sorted(vocab.eog) or [vocab.size]  # llguidance wants one: a token that the model never has
        self.tokens = [*vocab.pieces(), b""]
        self.eos_token_id = self.ends[0]
        self.bos_token_id = vocab.bos
        self.special_token_ids = sorted({*self.ends, *(token for token in ids if vocab.is_control(token))})
        self._vocab = vocab

    def __call__(self, text: Any) -> list[int]:
        return self._vocab.tokenize(bytes(text).decode("utf-8", "replace"), add_special=False)


def _sentence(error: str) -> str:
    """The first line, without the place in the text, which is the schema's only where it was written by hand."""
    first = error.strip().splitlines()[0].strip() if error.strip() else "llguidance gives no reason"
    return first.partition("failed to compile JSON schema: ")[2] or first
