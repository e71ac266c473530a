"""How many rows a batch may have before its numbers differ from those of single rows, and what a batch costs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from draftproof.engine.backend import Rows
from draftproof.engine.libllama.batch import Row
from draftproof.engine.libllama.context import Context

STRIDE = 7919
"""Prime, so that the tokens of the test are spread over the vocabulary."""
HELD = 72
"""Tokens that are held before the rows are compared. Kernels that add in another order differ only where the sums are longer
than what the processor adds at once: attention over a few tokens is the same in any of them."""
CELLS_SPLIT_AMONG_THREADS = 512
CELLS_ROUNDED_TO = 256


@dataclass(frozen=True, slots=True)
class RowTest:
    """What was measured.

    exact: the largest n up to the limit for which a batch of any size up to n gave bit for bit the logits of single rows.
    seconds[n - 1]: time of a batch of n rows up to the limit, exact or not; of the processor with one thread, else by the wall
    clock. longer: larger sizes that were tried one by one, and gave the logits of single rows too, with their seconds.
    """

    exact: int
    seconds: tuple[float, ...]
    longer: Mapping[int, float] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Every size of a batch that is known to be exact, ascending."""
        return (*range(1, self.exact + 1), *(n for n in self.longer if n > self.exact))


def can_truncate(context: Context) -> bool:
    """Whether the memory forgets a last token when asked. Needs sequence 0 to be empty, and leaves it so."""
    context.decode([Row(0, i, i % context.model.vocab.size, False) for i in range(2)])
    able = context.remove(0, 1)
    context.remove(0, 0)
    return able


def measure(context: Context, limit: int, longer: Sequence[int] = (), *, tokens: int = 0) -> RowTest:
    """Reads 2 to `limit` tokens (at least 2) one by one and then in batches of every size, then of `longer` sizes.

    They come after tokens that are held already, as many as half of the context at most. The longer ones are left out where
    the others differed. Needs sequence 0 to be empty, and leaves it so.
    tokens: the most that one sequence will hold where the numbers are used, if that is another context.
    """
    held = min(HELD, context.tokens // 2)
    room = min(context.batch, context.outputs, context.tokens - held)
    limit = max(2, min(limit, room))
    vocab = context.model.vocab.size
    clock = time.thread_time if context.options.threads == 1 else time.perf_counter
    single: list[Rows] = []
    took: list[float] = []

    def timed(rows: Sequence[Row]) -> Rows:
        start = clock()
        logits = context.decode(rows)
        took.append(clock() - start)
        return logits

    def go_back() -> None:
        if context.length(0) >= held and context.remove(0, held):
            return
        context.remove(0, 0)
        for start in range(0, held, context.batch):
            context.decode(
                [Row(0, i, i * STRIDE % vocab, False) for i in range(start, min(start + context.batch, held))]
            )

    def read_single(n: int) -> list[Row]:
        rows = [Row(0, i, (1 + i * STRIDE) % vocab, True) for i in range(held, held + n)]
        single.extend(timed([row])[0].copy() for row in rows[len(single) :])
        return rows

    def is_exact(rows: Sequence[Row]) -> bool:
        go_back()
        return all(a.tobytes() == b.tobytes() for a, b in zip(timed(rows), single, strict=False))

    go_back()
    rows = read_single(limit)
    seconds = [median(took[limit // 2 :])]  # the first ones warm up
    exact = 1
    for n in range(2, limit + 1):
        if is_exact(rows[:n]) and exact == n - 1:
            exact = n
        seconds.append(took[-1])
    bound = _known_bound(context, tokens or context.tokens)
    found: dict[int, float] = {}
    sizes = [n for n in sorted(longer) if limit < n <= min(room, bound)] if exact == limit else []
    if sizes:
        go_back()
        context.decode(rows)
        rows = read_single(sizes[-1])
        for n in sizes:
            if not is_exact(rows[:n]):
                break
            found[n] = took[-1]
    context.remove(0, 0)
    return RowTest(min(exact, bound), tuple(seconds), found)


def _known_bound(context: Context, tokens: int) -> int:
    # libllama's flash attention on the processor gives each thread a part of the cache when there is one row and 512 cells
    # or more (the number of cells is rounded up to 256), so then a single row is summed in another order than two are.
    # Without flash attention it multiplies one row with the cache by another kernel than several, which adds in another order;
    # on a few tokens the two may agree by chance.
    several = context.options.threads_of_one_row > 1
    splits = several and tokens > CELLS_SPLIT_AMONG_THREADS - CELLS_ROUNDED_TO
    return 1 if splits or not context.options.flash else context.batch
