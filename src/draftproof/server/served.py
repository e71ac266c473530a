"""The model that a server serves: its backends, its words, and what is known of it. All of it loaded objects, not settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from draftproof.core.errors import UsageError
from draftproof.core.sampling import Sampling
from draftproof.core.speculation import OFF, Speculation
from draftproof.engine.draft.ngram_pool import NgramPool
from draftproof.engine.shape import Constraint
from draftproof.engine.slot import Models
from draftproof.server.vocabulary import Vocabulary

LLAMA_SAMPLING = Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, dry_penalty_last_n=64)
"""What llama-server takes for samplers that a request does not name."""
ENOUGH_ROWS = 4
"""A batch of so many rows verifies drafts that are worth making, and is worth sharing."""
BREAKERS = ("\n", ":", '"', "*")
"""Where a repetition ends, for DRY, by default."""


@dataclass(frozen=True, slots=True)
class About:
    """Facts of the target's file, by llama-server's names; 0 and "" where they mean nothing."""

    ftype: str = ""
    n_ctx_train: int = 0
    n_embd: int = 0
    n_params: int = 0
    size: int = 0
    vocab_type: int = 0
    notes: Callable[[], Mapping[str, object]] = dict
    """What was measured, for /props."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for a request that does not say otherwise.

    `max_tokens` -1: until the context is full. `seed` -1: another for each request. `reuse`: what is held of a prompt is not
    read again. `strict_greedy`: at temperature 0 drafts are no longer than is bit for bit like plain decoding, where that
    leaves room for drafts at all. `breakers`: texts that end a repetition, for DRY. `grammar`: of every answer; "" for
    none. `template_options`: what the chat template is told beside the messages.
    """

    sampling: Sampling = LLAMA_SAMPLING
    speculation: Speculation = OFF
    max_tokens: int = -1
    seed: int = -1
    reuse: bool = True
    strict_greedy: bool = True
    ignore_eos: bool = False
    breakers: tuple[str, ...] = BREAKERS
    grammar: str = ""
    template_options: Mapping[str, Any] = field(default_factory=dict)


LLAMA_DEFAULTS = Defaults()


@dataclass(frozen=True, slots=True)
class Served:
    """`name` is what clients see as the model, `path` where it came from. `template` is the chat template, "" for none.

    `grammar` makes a constraint from a grammar and raises UsageError for a bad one; None where grammars cannot be had.
    """

    name: str
    path: str
    models: Models
    vocabulary: Vocabulary
    template: str = ""
    about: About = About()
    defaults: Defaults = LLAMA_DEFAULTS
    draft_path: str = ""
    grammar: Callable[[str], Constraint] | None = None

    def constraint(self, grammar: str) -> Constraint | None:
        """None for no grammar, "". Raises UsageError for one that does not parse, or that this model cannot have."""
        if not grammar:
            return None
        if self.grammar is None:
            raise UsageError("Grammars are not supported with this model.")
        return self.grammar(grammar)

    @property
    def strict_greedy(self) -> bool:
        """Whether drafts at temperature 0 are kept short enough to be bit for bit like plain decoding."""
        return self.defaults.strict_greedy and self.models.target.max_rows_exact >= ENOUGH_ROWS

    @property
    def context(self) -> int:
        """The most tokens that one answer and its prompt can have."""
        return self.models.target.context


def with_pool(models: Models) -> Models:
    """The same models with the memory that n-gram drafters share."""
    return replace(models, pool=models.pool or NgramPool())
