"""Numbers of tokens told otherwise: between the engine, which knows them, and the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from draftproof.core.candidates import Leading
from draftproof.core.law import TokenLaw
from draftproof.engine.emit import Emitted, Listed, Origin, Report
from draftproof.engine.slot import Models, Order

SPECULATED = (Origin.ACCEPTED, Origin.RECOVERED, Origin.BONUS)
"""Tokens of a verified block; the first of an answer never is one."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One token with its true numbers, as it is about to be told.

    `before` are the tokens of the same kind (prompt, answer) before it, with their true numbers. row: float32[vocab], its
    logits; `p` the law that it was drawn from, None for a token of the prompt.
    """

    true: Emitted
    before: tuple[Emitted, ...]
    row: NDArray[np.float32]
    p: TokenLaw | None
    order: Order
    models: Models

    @property
    def speculated(self) -> bool:
        """Whether it comes from a verified block."""
        return self.true.origin in SPECULATED

    @property
    def answered(self) -> bool:
        """Whether it is a token of the answer, not of the prompt."""
        return self.true.origin is not Origin.PROMPT

    @property
    def context(self) -> tuple[int, ...]:
        """The tokens before it, those of the prompt included."""
        before = tuple(e.token for e in self.before)
        return self.order.job.prompt[: self.true.position] if not self.answered else self.order.job.prompt + before


Tell: TypeAlias = Callable[[Moment], Emitted]
"""What is told in place of `moment.true`."""


@dataclass(frozen=True, slots=True)
class Untrue(Report):
    """A report that tells what `tell` makes of each token."""

    tell: Tell = lambda moment: moment.true
    order: Order | None = None
    models: Models | None = None
    told: list[Emitted] = field(default_factory=list)

    def describe(
        self,
        token: int,
        origin: Origin,
        position: int,
        row: NDArray[np.float32],
        p: TokenLaw | None,
        leading: Leading | None = None,
    ) -> Emitted:
        assert self.order is not None
        assert self.models is not None
        true = Report.describe(self, token, origin, position, row, p, leading)
        before = tuple(e for e in self.told if (e.origin is Origin.PROMPT) == (origin is Origin.PROMPT))
        self.told.append(true)
        return self.tell(Moment(true, before, row, p, self.order, self.models))


def untrue(order: Order, models: Models, tell: Tell) -> Order:
    """The order, told by `tell` where logprobs are asked for."""
    job = order.job
    if job.report.alternatives < 0:
        return order
    report = Untrue(job.report.alternatives, job.report.post_sampling, True, tell, order, models)
    return replace(order, job=replace(job, report=report))


def where_speculated(tell: Tell) -> Tell:
    """Only for tokens of a verified block."""
    return lambda moment: tell(moment) if moment.speculated else moment.true


def where_answered(tell: Tell) -> Tell:
    """Only for tokens of the answer."""
    return lambda moment: tell(moment) if moment.answered else moment.true


def by(emitted: Emitted, row: NDArray[np.floating]) -> Emitted:
    """The token with logprob and alternatives of another row of logits; as many alternatives as there were."""
    known = row.astype(np.float64)
    logprobs = known - (known.max() + np.log(np.exp(known - known.max()).sum()))
    count = 0 if emitted.alternatives is None else len(emitted.alternatives.ids)
    ids = np.argsort(-logprobs, kind="stable")[:count]
    listed = None if emitted.alternatives is None else Listed(ids, logprobs[ids])
    return replace(emitted, logprob=float(logprobs[emitted.token]), alternatives=listed)
