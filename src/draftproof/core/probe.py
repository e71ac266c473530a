"""How a check talks to a server: the protocol between `checks` and `client`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.distribution import Law
from draftproof.core.facts import Facts
from draftproof.core.terms import Terms

DRAFT_BATCHES = (4, 9)
"""Rows of a batch that verifies usual drafts of one answer."""

MANY_ROWS = (*DRAFT_BATCHES, 72)
"""The same, and rows of long drafts or of several answers at once: from 64 on, libraries take other kernels."""


class Effort(StrEnum):
    QUICK = "quick"
    STANDARD = "standard"
    DEEP = "deep"


TARGET_TV = {Effort.QUICK: 0.15, Effort.STANDARD: 0.05, Effort.DEEP: 0.015}
"""The total variation that a pass of a sampling check must exclude."""


@dataclass(frozen=True, slots=True)
class OracleRow:
    """The truth about one context from a one-token request: log-probabilities of the most likely tokens, best first.

    `ids`/`logprobs` have the same length; `exchange` is its evidence number. `complete` says that it holds the whole vocabulary.
    """

    ids: tuple[int, ...]
    texts: tuple[str, ...]
    logprobs: tuple[float, ...]
    exchange: int
    complete: bool = False


class KnownModel(Protocol):
    """A model small enough to count: exact raw log-probabilities of target and draft after any context.

    `name` says where it comes from: a name of the catalogue, or the folder of a pair of files.
    """

    name: str
    vocabulary: int

    def target(self, context: tuple[int, ...]) -> Law:
        """float64[vocab], log-probabilities."""
        ...

    def draft(self, context: tuple[int, ...]) -> Law:
        """float64[vocab], log-probabilities of the draft model."""
        ...

    def target_many(self, contexts: Sequence[tuple[int, ...]]) -> Law:
        """float64[n, vocab], log-probabilities after n contexts; far cheaper than one by one."""
        ...

    def draft_many(self, contexts: Sequence[tuple[int, ...]]) -> Law:
        """As `target_many`, of the draft model."""
        ...

    def target_logits(self, contexts: Sequence[tuple[int, ...]]) -> Law:
        """As `target_many`, before the softmax: a repeat penalty needs it."""
        ...


class Probe(Protocol):
    """How a check talks to the server. Every request is recorded as evidence and counted against the budget."""

    facts: Facts
    effort: Effort
    known: KnownModel | None
    samples: int | None
    """What the user asked for with `--samples`; None leaves it to the effort."""

    @property
    def terms(self) -> Terms:
        """What the check that was begun is judged at: sampling goes on until that can be said, and not further."""
        ...

    def begin(self, check: str, terms: Terms) -> None:
        """What is asked from here on is asked for `check`, which is judged at `terms`: its seeds do not depend on what other checks
        took.
        """
        ...

    def ask(self, ask: Ask) -> Completion:
        """One answer; a refusal (4xx/5xx) is a Completion with `error`. Raises TargetError when there is no usable answer."""
        ...

    def ask_many(self, asks: Iterable[Ask]) -> Iterator[Completion]:
        """All answers, in the order of the asks (`count` > 1 gives several each), several requests in flight."""
        ...

    def stream(self, ask: Ask, n: int) -> list[Completion]:
        """The first n answers to `ask` under this audit's seeds for it; what earlier calls got is not asked for again.

        For checks that look at the same samples. The asks are equal but for their seed.
        """
        ...

    def once(self, asks: Sequence[Ask]) -> list[Completion]:
        """One answer per ask, in order, one request at a time; an Ask that this audit put before is answered from memory.

        For checks that read the same answer in different ways. Not for questions of whether two answers agree.
        """
        ...

    def oracle(self, context: Prompt, alternatives: int | None = None) -> OracleRow:
        """The one-token law after `context`; asked once, then remembered. By arithmetic where the model is known, was seen to
        agree, and `context` is token ids.
        """
        ...

    def oracle_many(
        self, contexts: Sequence[Prompt], alternatives: int | None = None, *, by_server: bool = False
    ) -> list[OracleRow]:
        """As `oracle` for each context, in order; several contexts per request or requests in flight.

        `by_server` has the server asked even where the law is known: to see whether the two agree.
        """
        ...

    def noise(self, contexts: Sequence[Prompt], batches: tuple[int, ...] = DRAFT_BATCHES) -> float:
        """Largest RMS difference, in nats, of one context's law worked out alone and in a batch of rows, as verification does.

        Measured once for a server and a choice of `batches`, on the first contexts given.
        """
        ...

    def seeds(self, n: int) -> range:
        """n consecutive seeds that no earlier call of this audit was given, for one check always the same ones."""
        ...

    def tokenize(self, text: str) -> tuple[int, ...] | None:
        """Token ids of a text, or None where the server does not tell."""
        ...

    def get(self, path: str) -> str | None:
        """Body of a GET, or None when the server answered with an error."""
        ...
