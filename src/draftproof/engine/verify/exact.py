"""The law that a rule really has: every branch of the engine's own loop on a table, multiplied out. No sampling, no tolerance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from draftproof.core import mirostat
from draftproof.core.coin import Coin, enumerate_branches
from draftproof.core.distribution import Law, TokenLaw, shape
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.engine.backends.table import TableBackend
from draftproof.engine.draft.drafter import Drafter
from draftproof.engine.emit import NOTHING_ASKED
from draftproof.engine.generate import Generation, Job, generate
from draftproof.engine.in_step import run_alone
from draftproof.engine.verify.rule import Rule

Open: TypeAlias = Callable[[], Drafter]
"""A new drafter for each branch: what it learns in one must not be known in another."""
Blocks: TypeAlias = dict[tuple[int, ...], float]


def block_law(
    rule: Rule, target: TableBackend, drafter: Open, k: int, context: Sequence[int], sampling: Sampling = NEUTRAL
) -> Blocks:
    """What one block of at most k drafted tokens emits after `context`, with its probability. k >= 0."""
    job = Job(tuple(context), k + 1, sampling, ignore_eog=True, report=NOTHING_ASKED)

    def run(coin: Coin) -> tuple[int, ...]:
        sequence = target.sequence()
        if len(context) > 1:
            sequence.extend(context[:-1], rows=0)
        generation = Generation(target, sequence, job, drafter=drafter(), rule=rule, n_max=k, coin=coin)
        while True:
            feed = run_alone(generation.feed())
            if emitted := generation.take(sequence.extend(feed.tokens, feed.rows)):
                return tuple(e.token for e in emitted)

    return _collect(run)


def _collect(run: Callable[[Coin], tuple[int, ...]]) -> Blocks:
    blocks: Blocks = {}
    for tokens, probability in enumerate_branches(run):
        blocks[tokens] = blocks.get(tokens, 0.0) + probability
    return blocks


def answer_law(
    rule: Rule,
    target: TableBackend,
    drafter: Open,
    k: int,
    m: int,
    *,
    context: Sequence[int] = (0,),
    sampling: Sampling = NEUTRAL,
) -> Law:
    """float64[vocab] * m: like `law_of`, but whole answers are enumerated, with all state between their blocks. Slower."""
    job = Job(tuple(context), m, sampling, ignore_eog=True, report=NOTHING_ASKED)

    def run(coin: Coin) -> tuple[int, ...]:
        return tuple(e.token for e in generate(target, job, drafter=drafter(), rule=rule, n_max=k, coin=coin))

    out = np.zeros((target.vocab,) * m)
    for tokens, probability in _collect(run).items():
        out[tokens] += probability
    return out


def law_of(
    rule: Rule,
    target: TableBackend,
    drafter: Open,
    k: int,
    m: int,
    *,
    context: Sequence[int] = (0,),
    sampling: Sampling = NEUTRAL,
    memory: int | None = None,
) -> Law:
    """float64[vocab] * m: the joint law of the first m tokens that blocks of at most k drafted tokens emit after `context`.

    memory: how many of the last tokens the models, samplers and drafters look at; None: all. Mirostat's state is more than
    the context, so it is not served. Raises ValueError for it.
    """
    if sampling.mirostat:
        raise ValueError("blocks do not compose under mirostat: its state is not in the context")
    laws: dict[tuple[tuple[int, ...], int], Law] = {}

    def law(before: tuple[int, ...], left: int) -> Law:
        known = before if memory is None else before[max(0, len(before) - memory) :]
        if (known, left) not in laws:
            out = np.zeros((target.vocab,) * left)
            for block, probability in block_law(rule, target, drafter, k, known, sampling).items():
                if len(block) >= left:
                    out[block[:left]] += probability
                else:
                    out[block] += probability * law((*known, *block), left - len(block))
            laws[known, left] = out
        return laws[known, left]

    return law(tuple(context), m)


def target_law(
    target: TableBackend,
    m: int,
    context: Sequence[int] = (0,),
    sampling: Sampling = NEUTRAL,
    mu: float | None = None,
) -> Law:
    """float64[vocab] * m: what the target alone emits; no coin, no rule, no draft. mu: mirostat's state after `context`."""
    p = shape(target.row(context), context, sampling, mu)
    if m == 1:
        return p
    mu = mirostat.first_mu(sampling) if mu is None else mu
    out = np.zeros((target.vocab,) * m)
    for token in np.flatnonzero(p).tolist():
        after = mirostat.next_mu(mu, TokenLaw.of(p), token, sampling)
        out[token] = p[token] * target_law(target, m - 1, (*context, token), sampling, after)
    return out
