"""How many tokens to draft: as many as pay for their rows, and none where none do.

The length is settled before anything is drawn, from what was accepted earlier in the same answer and from costs that were
measured once. So it depends on no token of the draft, and a seeded request drafts alike every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from draftproof.core.coin import Coin
from draftproof.engine.backend import Backend
from draftproof.engine.draft.drafter import NOTHING, Draft, Drafter

_MEMORY = 0.95
"""Weight of a draft in the statistics when the next one comes: about the last 20 count."""
_PRIOR = 2.0
"""So many drafted tokens the prior is worth; half of them accepted."""
_FIRST_PAUSE = 8
_LONGEST_PAUSE = 256


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds (or any other unit) of one pass of the target with 1, 2, .. rows, and of drafting one token.

    rows[n - 1] is the cost of n rows; beyond the last entry the cost grows as between the last two. Raises ValueError when a
    cost is not positive.
    """

    rows: tuple[float, ...] = (1.0,)
    draft: float = 0.0

    def __post_init__(self) -> None:
        if not self.rows or min(self.rows) <= 0 or self.draft < 0:
            raise ValueError(f"costs must be positive, not {self}")

    def of(self, k: int) -> float:
        """One step that drafts k tokens and verifies them."""
        n = len(self.rows)
        if k < n:
            return self.rows[k] + k * self.draft
        slope = max(self.rows[-1] - self.rows[-2], 0.0) if n > 1 else 0.0
        return self.rows[-1] + (k + 1 - n) * slope + k * self.draft


class LengthPolicy:
    """Chooses k to make the most tokens in a unit of cost.

    Acceptance is tracked for each position of a draft, for each drafter anew. While drafting does not pay it is tried again
    after 8, 16, .. 256 plain steps, so that what is lost to trying shrinks to under one step in 256.
    """

    def __init__(self, costs: Costs, n_max: int) -> None:
        self._costs = costs
        self._n_max = n_max
        self._drafted = [0.0] * n_max
        self._accepted = [0.0] * n_max
        self._pause = _FIRST_PAUSE
        self._resting = 0

    def expected(self, k: int) -> float:
        """Tokens that a step with k drafted ones is expected to emit: 1 + a1 + a1 a2 + .."""
        overall = (sum(self._accepted) + _PRIOR / 2) / (sum(self._drafted) + _PRIOR)
        total, survive = 1.0, 1.0
        for drafted, accepted in zip(self._drafted[:k], self._accepted[:k], strict=True):
            survive *= (accepted + _PRIOR * overall) / (drafted + _PRIOR)
            total += survive
        return total

    def choose(self, k: int) -> int:
        """The number of tokens to draft now, at most k; 0 rests. To be called once for each step."""
        k = min(k, self._n_max)
        best = max(range(k + 1), key=lambda n: self.expected(n) / self._costs.of(n), default=0)
        if best or not k:
            return best
        self._resting += 1
        if self._resting < self._pause:
            return 0
        self._resting, self._pause = 0, min(2 * self._pause, _LONGEST_PAUSE)
        return min(2, k)

    def observe(self, drafted: int, accepted: int) -> None:
        """Of `drafted` tokens the first `accepted` were emitted; the one after them was judged and refused."""
        for i in range(min(drafted, self._n_max)):
            self._drafted[i] = _MEMORY * self._drafted[i] + (i <= accepted)
            self._accepted[i] = _MEMORY * self._accepted[i] + (i < accepted)
        if drafted and accepted == drafted:
            self._pause = _FIRST_PAUSE


class Paced:
    """A drafter whose drafts are as long as its policy says."""

    def __init__(self, drafter: Drafter, policy: LengthPolicy) -> None:
        self.name = drafter.name
        self._drafter = drafter
        self._policy = policy

    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Draft:
        k = self._policy.choose(k)
        return self._drafter.propose(context, k, coin) if k else NOTHING

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        self._policy.observe(len(draft.tokens), accepted)
        self._drafter.observe(context, draft, accepted)

    def close(self) -> None:
        self._drafter.close()


def measure(
    target: Backend,
    draft: Backend | None = None,
    *,
    most: int = 8,
    repeats: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> Costs:
    """Times passes of 1 .. `most` rows on a sequence of its own, and one-row passes of the draft model; medians of `repeats`."""
    rows = tuple(_time(target, n, repeats, clock) for n in range(1, most + 1))
    # a batch that seems cheaper than a smaller one was disturbed less
    rising = tuple(max(rows[: n + 1]) for n in range(most))
    return Costs(rising, _time(draft, 1, repeats, clock) if draft else 0.0)


def _time(backend: Backend, rows: int, repeats: int, clock: Callable[[], float]) -> float:
    sequence = backend.sequence()
    took = []
    try:
        sequence.extend([0] * rows)
        for _ in range(repeats):
            start = clock()
            sequence.extend([0] * rows)
            took.append(max(clock() - start, 1e-9))
    finally:
        sequence.close()
    return median(took)
