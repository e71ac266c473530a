"""Little models and helpers that the tests of the engine share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from draftproof.core.coin import RngCoin
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.speculation import DraftModel
from draftproof.engine.backends.law import LawSequence
from draftproof.engine.backends.table import TableBackend
from draftproof.engine.draft.drafter import Drafter
from draftproof.engine.draft.model import ModelDrafter
from draftproof.engine.emit import Emitted, Report
from draftproof.engine.generate import Generation, Job
from draftproof.engine.in_step import run_alone
from draftproof.engine.verify.rule import Rule

ALL_NUMBERS = Report(alternatives=3, post_sampling=True, rows=True)


def random_table(seed: int, vocab: int = 5, order: int = 2, **options: Any) -> TableBackend:
    """Independent normal logits after every `order` tokens."""
    table = np.random.default_rng(seed).normal(size=(vocab,) * (order + 1)) * 1.5
    return TableBackend(table, **options)


def noisy(target: TableBackend, seed: int, noise: float = 1.0) -> TableBackend:
    """A draft of the target: the same logits with noise."""
    table = target.table + noise * np.random.default_rng(seed).normal(size=target.table.shape)
    return TableBackend(table, can_truncate=target.can_truncate)


def cycle(period: int, vocab: int, sharpness: float = 3.0) -> TableBackend:
    """After token t most likely t + 1 modulo `period`: a model that repeats itself."""
    table = np.zeros((vocab, vocab))
    table[np.arange(vocab), (np.arange(vocab) + 1) % period] = sharpness
    return TableBackend(table)


def model_drafter(
    draft: TableBackend, k: int = 3, sampling: Sampling = NEUTRAL, *, drawn: bool = True, p_min: float = 0.0
) -> ModelDrafter:
    return ModelDrafter(draft, draft.sequence(), sampling, DraftModel(n_max=k, p_min=p_min), drawn=drawn)


@dataclass
class Words:
    """Which streams were asked for, in order."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)


class WatchedCoin(RngCoin):
    """An RngCoin that notes every stream that is asked for."""

    words = Words()

    def at(self, purpose: str, *place: int) -> WatchedCoin:
        self.words.asked.append((purpose, *place))
        stream = super().at(purpose, *place)
        stream.words = self.words
        return stream


def watched(seed: int) -> WatchedCoin:
    coin = WatchedCoin(seed)
    coin.words = Words()
    return coin


@dataclass
class Run:
    """A finished generation and all it left behind."""

    generation: Generation
    sequence: LawSequence
    emitted: list[Emitted]
    blocks: list[list[Emitted]]

    @property
    def tokens(self) -> list[int]:
        return [e.token for e in self.emitted]


def run(target: TableBackend, job: Job, drafter: Drafter | None, rule: Rule, **options: Any) -> Run:
    """Runs to the end; after every step the memory holds a prefix of what was said."""
    sequence = target.sequence()
    generation = Generation(target, sequence, job, drafter=drafter, rule=rule, **options)
    blocks = []
    while not generation.finish:
        feed = run_alone(generation.feed())
        if block := generation.take(sequence.extend(feed.tokens, feed.rows)):
            blocks.append(block)
            assert sequence.tokens == generation.context[: sequence.length]
    return Run(generation, sequence, [e for b in blocks for e in b], blocks)
