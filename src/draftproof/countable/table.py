"""Language models given by a table of transition probabilities of any order."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray

from draftproof.core.distribution import Law, log_softmax
from draftproof.core.errors import UsageError
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.countable.incremental import Context


class Table:
    """`law[..., x, y, z]` is the probability of z after ... x, y: float64[vocabulary] * (order + 1).

    A context shorter than the order gets the mean over all letters that could stand before it; of a longer one the last
    `order` tokens count. Raises UsageError unless every row is a law.
    """

    def __init__(self, law: NDArray[np.float64]) -> None:
        law = np.asarray(law, dtype=np.float64)
        if law.ndim < 1 or len(set(law.shape)) != 1:
            raise UsageError(
                f"A table has one axis per token, all of the vocabulary's size; this has shape {law.shape}."
            )
        if not np.isfinite(law).all() or (law < 0).any() or np.abs(law.sum(axis=-1) - 1).max() > 1e-9:
            raise UsageError("Every row of a table must be a law: no number below 0, sum 1.")
        self.law = law
        self.order = law.ndim - 1
        self.vocabulary = law.shape[-1]
        with np.errstate(divide="ignore"):
            self._logs = [np.log(law.mean(axis=tuple(range(missing)))) for missing in range(self.order, -1, -1)]

    def logprobs(self, contexts: Sequence[Context]) -> Law:
        """float64[len(contexts), vocabulary]: log-probabilities, -inf for 0. Raises UsageError for an unknown token."""
        return np.stack([self._row(context) for context in contexts])

    def _row(self, context: Context) -> Law:
        seen = context[-self.order :] if self.order else ()
        if context and not 0 <= min(context) <= max(context) < self.vocabulary:
            raise UsageError(f"Token ids must be 0..{self.vocabulary - 1}: {context}.")
        row: Law = self._logs[len(seen)][seen]
        return row

    def noisy(self, noise: float, seed: int) -> Table:
        """A copy with normal noise of standard deviation `noise` on its log-probabilities; what is 0 stays 0."""
        logs = self._logs[-1] + noise * np.random.RandomState(seed).standard_normal(self.law.shape)
        return Table(np.exp(log_softmax(logs)))


def random_table(vocabulary: int, order: int, seed: int, spread: float = 1.5) -> Table:
    """Softmax of normal logits of standard deviation `spread`: near 0 flat, above 5 nearly deterministic."""
    logits = spread * np.random.RandomState(seed).standard_normal((vocabulary,) * (order + 1))
    return Table(np.exp(log_softmax(logits)))


class TablePair:
    """Target and draft as tables: a `KnownModel`.

    `prompt` and `sampling` are the conditions under which the pair shows what it is for; `alphabet` has a letter per token.
    Methods and the rest as of `CountablePair`, but the empty context has a law too and the logits are the log-probabilities. Raises
    UsageError for unlike vocabularies.
    """

    def __init__(
        self, name: str, target: Table, draft: Table, prompt: Context = (), sampling: Sampling = NEUTRAL
    ) -> None:
        if target.vocabulary != draft.vocabulary:
            raise UsageError("Target and draft have vocabularies of different sizes.")
        self.name = name
        self.vocabulary = target.vocabulary
        self.alphabet = ascii_lowercase[: target.vocabulary]
        self.pieces = tuple(letter.encode() for letter in self.alphabet)
        self.end: int | None = None
        self.target_table = target
        self.draft_table = draft
        self.prompt = prompt
        self.sampling = sampling

    def target(self, context: Context) -> Law:
        row: Law = self.target_table.logprobs([context])[0]
        return row

    def draft(self, context: Context) -> Law:
        row: Law = self.draft_table.logprobs([context])[0]
        return row

    def target_many(self, contexts: Sequence[Context]) -> Law:
        return self.target_table.logprobs(contexts)

    def draft_many(self, contexts: Sequence[Context]) -> Law:
        return self.draft_table.logprobs(contexts)

    def target_logits(self, contexts: Sequence[Context]) -> Law:
        return self.target_table.logprobs(contexts)

    def draft_logits(self, contexts: Sequence[Context]) -> Law:
        return self.draft_table.logprobs(contexts)
