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


class BatchNoise:
    """Measures, once per number of rows, how far a law by a batch of rows is from the same law by one row.

    `one_token` asks anew each time, one request at a time, the server's prompt cache on.
    """

    def __init__(self, one_token: OneToken) -> None:
        self._one_token = one_token
        self._squares: dict[int, float] = {}

    def rms(self, contexts: Sequence[Prompt], batches: Sequence[int]) -> float:
        """The largest RMS difference in nats over contexts and the numbers of rows in `batches`.

        Numbers of rows that were measured before are not measured again. Contexts of token ids are read backwards, so that
        no slot has cached them before; texts are asked twice as they are, which sees only what changes by itself.
        """
        new = [rows for rows in batches if rows not in self._squares]
        if new:
            self._squares.update(dict.fromkeys(new, 0.0))
            for context in contexts[:CONTEXTS]:
                self._measure(context, new)
        return math.sqrt(max((self._squares[rows] for rows in batches), default=0.0))

    def _measure(self, context: Prompt, batches: Sequence[int]) -> None:
        if isinstance(context, str):
            found = dict.fromkeys(batches, self._one_token(context))
            alone = self._one_token(context)
        else:
            fresh = (context * math.ceil(2 * max(batches) / len(context)))[::-1]
            found = {rows: self._after(fresh, rows) for rows in batches}
            alone = self._after(fresh, 1)
        for rows, row in found.items():
            self._squares[rows] = max(self._squares[rows], squared_difference(row, alone))

    def _after(self, context: tuple[int, ...], rows: int) -> OracleRow:
        """The law after `context`, its last `rows` tokens worked out in one batch."""
        self._one_token(context[:-rows])
        return self._one_token(context)


def noise_requests(batches: Sequence[int], contexts: int = CONTEXTS) -> int:
    """How many requests `BatchNoise` sends for contexts of token ids."""
    return contexts * 2 * (len(batches) + 1)


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
