"""The exact laws of a pair of models small enough to count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from draftproof.core.distribution import Law
from draftproof.core.errors import UsageError
from draftproof.countable import gguf
from draftproof.countable.incremental import Context, LanguageModel
from draftproof.countable.vocabulary import Vocabulary


class CountablePair:
    """Target and draft with exact laws after every context: a `KnownModel`.

    `target`/`draft` give float64[vocabulary] log-probabilities after one non-empty context, `target_many`/`draft_many`
    float64[n, vocabulary] after n contexts, which is far cheaper; `target_logits`/`draft_logits` give the same before the
    softmax, which a repeat penalty needs. Built from GGUF files or models in memory; without a draft file the target's own
    prediction head is the draft. `alphabet` has a letter for each token id, `pieces` its bytes, `end` the token that ends a
    text. Raises UsageError for files that are not such models.
    """

    def __init__(
        self,
        target: Path | LanguageModel,
        draft: Path | LanguageModel | None,
        *,
        name: str = "",
        vocabulary: Vocabulary | None = None,
    ) -> None:
        if isinstance(target, Path):
            opened = gguf.read(target)
            name, vocabulary, target = name or opened.name, vocabulary or opened.vocabulary, opened.model
        if isinstance(draft, Path):
            draft = gguf.read(draft).model
        draft = draft or gguf.head_of(target)
        if draft is None:
            raise UsageError("The target has no draft beside it and no prediction head in it.")
        if target.vocabulary != draft.vocabulary:
            raise UsageError("Target and draft have vocabularies of different sizes.")
        vocabulary = vocabulary or Vocabulary(())
        self.name = name
        self.alphabet = vocabulary.alphabet
        self.pieces = vocabulary.pieces
        self.end = vocabulary.end
        self.vocabulary = target.vocabulary
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
