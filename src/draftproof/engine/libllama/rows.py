"""How many rows a batch may have before its numbers differ from those of single rows, and what a batch costs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

from draftproof.engine.backend import Rows
from draftproof.engine.libllama.batch import Row
from draftproof.engine.libllama.context import Context

STRIDE = 7919
"""Prime, so that the tokens of the test are spread over the vocabulary."""
CELLS_SPLIT_AMONG_THREADS = 512
CELLS_ROUNDED_TO = 256


@dataclass(frozen=True, slots=True)
class RowTest:
    """What was measured on sequence 0, which is empty again.

    exact: the largest n up to the limit for which a batch of any size up to n gave bit for bit the logits of single rows.
    seconds[n - 1]: time of a batch of n rows, as far as it was tried; of the processor with one thread, else by the wall
    clock. can_truncate: whether the memory forgot a last token when asked.
    """

    exact: int
    seconds: tuple[float, ...]
    can_truncate: bool


def measure(context: Context, limit: int) -> RowTest:
    """Reads 2 to `limit` tokens (at least 2) one by one and then in batches of every size. Needs sequence 0 to be empty."""
    limit = max(2, min(limit, context.batch, context.outputs, context.tokens))
    vocab = context.model.vocab.size
    clock = time.thread_time if context.options.threads == 1 else time.perf_counter
    rows = [Row(0, i, (1 + i * STRIDE) % vocab, True) for i in range(limit)]
    single: list[Rows] = []
    took = []
    for row in rows:
        start = clock()
        logits = context.decode([row])
        took.append(clock() - start)
        single.append(logits[0].copy())
    seconds = [median(took[limit // 2 :])]  # the first ones warm up
    can_truncate = context.remove(0, limit - 1)
    exact = 1
    for n in range(2, limit + 1):
        context.remove(0, 0)
        start = clock()
        logits = context.decode(rows[:n])
        seconds.append(clock() - start)
        if any(a.tobytes() != b.tobytes() for a, b in zip(logits, single, strict=False)):
            break
        exact = n
    context.remove(0, 0)
    return RowTest(min(exact, _known_bound(context)), tuple(seconds), can_truncate)


def _known_bound(context: Context) -> int:
    # libllama's flash attention on the processor gives each thread a part of the cache when there is one row and 512 cells
    # or more (the number of cells is rounded up to 256), so then a single row is summed in another order than two are.
    splits = context.options.threads > 1 and context.tokens > CELLS_SPLIT_AMONG_THREADS - CELLS_ROUNDED_TO
    return 1 if splits else context.batch
