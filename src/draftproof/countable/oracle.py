"""The exact laws of a pair of models small enough to count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from draftproof.core.distribution import Law
from draftproof.core.errors import UsageError
from draftproof.countable import gguf
from draftproof.countable.transformer import Context, Transformer


class CountablePair:
    """Target and draft with exact laws after every context: a `KnownModel`.

    `target`/`draft` give float64[vocabulary] log-probabilities after one non-empty context, `target_many`/`draft_many`
    float64[n, vocabulary] after n contexts, which is far cheaper; `target_logits`/`draft_logits` give the same before the
    softmax, which a repeat penalty needs. Built from two GGUF files or two `Transformer`s.
    `alphabet` has the letter of each token id. Raises UsageError for files that are not such models.
    """

    def __init__(
        self,
        target: Path | Transformer,
        draft: Path | Transformer,
        *,
        name: str = "",
        alphabet: str = "",
    ) -> None:
        if isinstance(target, Path):
            opened = gguf.read(target)
            name, alphabet, target = name or opened.name, alphabet or opened.alphabet, opened.model
        if isinstance(draft, Path):
            draft = gguf.read(draft).model
        if target.architecture.vocabulary != draft.architecture.vocabulary:
            raise UsageError("Target and draft have vocabularies of different sizes.")
        self.name = name
        self.alphabet = alphabet
        self.vocabulary = target.architecture.vocabulary
        self.target_model = target
        self.draft_model = draft

    def target(self, context: Context) -> Law:
        row: Law = self.target_model.logprobs([context])[0]
        return row

    def draft(self, context: Context) -> Law:
        row: Law = self.draft_model.logprobs([context])[0]
        return row

    def target_many(self, contexts: Sequence[Context]) -> Law:
        return self.target_model.logprobs(contexts)

    def draft_many(self, contexts: Sequence[Context]) -> Law:
        return self.draft_model.logprobs(contexts)

    def target_logits(self, contexts: Sequence[Context]) -> Law:
        return self.target_model.logits(contexts)

    def draft_logits(self, contexts: Sequence[Context]) -> Law:
        return self.draft_model.logits(contexts)
