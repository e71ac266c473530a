"""How far a server's one-token laws move with the number of rows that it works out in one batch.

Verification of k drafted tokens evaluates k + 1 rows at once, plain decoding one; other kernels and other orders of summation
then give slightly different logits for the same context. The same shapes are had without any draft: a prompt whose
beginning the server has cached is continued by the remaining tokens in one batch, or by a single one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from draftproof.core.ask import Prompt
from draftproof.core.probe import OracleRow

CONTEXTS = 3

OneToken = Callable[[Prompt], OracleRow]


def batch_noise(one_token: OneToken, contexts: Sequence[Prompt], batches: Sequence[int]) -> float:
    """The largest RMS difference in nats, over contexts and batches, between the law by one row and by a batch of each
    of the numbers of rows in `batches`.

    `one_token` asks anew each time, one request at a time, the server's prompt cache on. Contexts of token ids are read
    backwards, so that no slot has cached them before; texts are asked twice as they are, which sees only what changes by itself.
    """
    squares: list[float] = []
    for context in contexts[:CONTEXTS]:
        if isinstance(context, str):
            squares.append(squared_difference(one_token(context), one_token(context)))
            continue
        fresh = (context * math.ceil(2 * max(batches) / len(context)))[::-1]
        for rows in batches:
            one_token(fresh[:-rows])
            batch = one_token(fresh)
            one_token(fresh[:-1])
            squares.append(squared_difference(batch, one_token(fresh)))
    return math.sqrt(max(squares, default=0.0))


def noise_requests(batches: Sequence[int]) -> int:
    """How many requests `batch_noise` sends for contexts of token ids."""
    return CONTEXTS * 4 * len(batches)


def squared_difference(a: OracleRow, b: OracleRow) -> float:
    """Mean squared difference in nats over the tokens that both rows list, weighted by a's probabilities."""
    theirs = dict(zip(zip(b.ids, b.texts, strict=True), b.logprobs, strict=True))
    total = weight = 0.0
    for key, x in zip(zip(a.ids, a.texts, strict=True), a.logprobs, strict=True):
        y = theirs.get(key)
        if y is not None and math.isfinite(x) and math.isfinite(y):
            p = math.exp(min(x, 0.0))
            total += p * (x - y) ** 2
            weight += p
    return total / weight if weight else 0.0
