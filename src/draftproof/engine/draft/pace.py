"""How many tokens to draft: as many as pay for their rows, and none where none do.

The length is settled before anything is drawn, from what was accepted earlier in the same answer and from costs that were
measured once. So it depends on no token of the draft, and a seeded request drafts alike every time; where its length cannot
change what an answer says, it depends on how many others are made too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median

from draftproof.core.coin import Coin
from draftproof.engine.backend import Backend
from draftproof.engine.draft.drafter import NOTHING, Draft, Drafter, Proposal
from draftproof.engine.in_step import run_alone
from draftproof.engine.passes import RowCosts, Sizes, of_single_rows

_MEMORY = 0.95
"""Weight of a draft in the statistics when the next one comes: about the last 20 count."""
_PRIOR = 2.0
"""So many drafted tokens the prior is worth; half of them accepted."""
_SHARE = 0.015
"""Of the cost so far, what drafting may lose. That is one failed trial in about 200 tokens."""
_FIRST_TRIAL = 4
_LONG_RUN = 8
_CREDIT = 4.0
"""Gains of earlier drafts pay for so many later failures at most."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What passes of the target take, and drafting one token, in the same unit.

    `draft` is for a draft model, `head` for the prediction head, or the EAGLE-3 draft in its place. `together`: how many rows
    of several answers one pass may have. Raises ValueError when a cost is negative.
    """

    target: RowCosts = field(default_factory=RowCosts)
    draft: float = 0.0
    head: float = 0.0
    together: Sizes = (1,)

    def __post_init__(self) -> None:
        if min(self.draft, self.head) < 0:
            raise ValueError(f"costs must not be negative: {self}")

    def of(self, k: int, company: int = 1) -> float:
        """One step that drafts k tokens and verifies them, where `company` answers are made, this one among them.

        A step that drafts none shares its pass. A draft has another length than what is read beside it, so it has a pass of its
        own, and what was one pass for all the others may become two, of the sequences before it and of those after it.
        """
        share = self._shared(company) / company
        if not k:
            return share
        before, after = (company - 1) // 2, company // 2
        parted = self._shared(before) + self._shared(after) + share - self._shared(company)
        return self.target.of(k + 1) + k * self.draft + max(parted, 0.0)

    def _shared(self, answers: int) -> float:
        return of_single_rows(answers, self.together, self.target)


class _Steps:
    """costs[n]: of a step that drafts n tokens, in a company. `first_that_pays`: the least of `lengths` that may save something."""

    def __init__(self, costs: Costs, company: int, n_max: int, lengths: tuple[int, ...]) -> None:
        self.costs = [costs.of(n, company) for n in range(n_max + 1)]
        self.first_that_pays = next((n for n in lengths if self.gain(n) > 0), n_max + 1)

    def gain(self, n: int) -> float:
        """What a draft of n tokens saves where all of it is accepted."""
        return (n + 1) * self.costs[0] - self.costs[n]


_steps = lru_cache(maxsize=256)(_Steps)
"""The same for all answers with the same speculation."""


class LengthPolicy:
    """Chooses k to make the most tokens in a unit of cost, and never stays slower than no drafts at all.

    Acceptance is tracked for each position of a draft, for each drafter anew. What drafts cost more than the plain steps
    they replaced is kept below 1.5 % of all that was spent, plus the cost of one failure: a draft that could fail beyond
    that is not made. Within it, drafts that do not pay yet are tried, longer after each that was accepted whole; never
    where not even whole acceptance would pay. Where drafts were accepted whole one after the other, 8 tokens or more, the
    next may be as long as all of them together and fail beyond that: a long repetition is worth it. So may the first one be
    half as long as what the prompt repeated of itself.

    fits: which lengths may be chosen; None: all. Costs are those of the company in which a step is made: batches of many
    answers use what a draft alone would leave idle.
    """

    def __init__(self, costs: Costs, n_max: int, fits: Callable[[int], bool] | None = None) -> None:
        self._costs = costs
        self._n_max = n_max
        self._lengths = tuple(n for n in range(1, n_max + 1) if fits is None or fits(n))
        self._drafted = [0.0] * n_max
        self._accepted = [0.0] * n_max
        self._allowed = self._allowance(min(_FIRST_TRIAL, n_max))
        self._lost = self._spent = 0.0
        self._whole = 0
        """The length of the last draft, if it was accepted whole."""
        self._run = 0
        """The tokens of the last drafts that were accepted whole, one after the other."""

    def rehearse(self, drafter: Drafter, context: Sequence[int], coin: Coin) -> None:
        """Before the first draft: whether the end of the context would have been drafted from what is before it.

        Only for drafters that look drafts up, and only in this context: it must cost nothing, and show something. Half of what
        the context repeated at its end, of at most two of the longest drafts, counts as accepted.
        """
        n = min(self._n_max, len(context) // 2)
        if n <= _FIRST_TRIAL or not self.can_pay(n):
            return
        end = len(context)
        repeated, at = 0, max(n, end - 2 * n)
        while at < end:
            draft = run_alone(drafter.propose(context[:at], min(n, end - at), coin)).tokens
            if draft and draft == tuple(context[at : at + len(draft)]):
                repeated, at = repeated + len(draft), at + len(draft)
            else:
                repeated, at = 0, end - n if at < end - n else end
        if repeated:
            self._whole, self._run = repeated // 4, repeated // 2

    def can_pay(self, longest: int) -> bool:
        """Whether any draft of at most `longest` tokens saves something where all of it is accepted."""
        return self._in(1).first_that_pays <= min(longest, self._n_max)

    def _in(self, company: int) -> _Steps:
        return _steps(self._costs, company, self._n_max, self._lengths)

    def _allowance(self, longest: int) -> float:
        """The cost of one failure, and what the first trial loses even where it is accepted whole."""
        single = self._in(1)
        trial = max(range(1, longest + 1), key=lambda n: (n + 1) / single.costs[n], default=0)
        failure = self._costs.of(max(single.first_that_pays, trial)) - single.costs[0]
        return failure + max(0.0, -single.gain(trial))

    def expected(self, k: int) -> list[float]:
        """[n]: the tokens that a step with n drafted ones is expected to emit, 1 + a1 + a1 a2 + ..; for n = 0 .. k."""
        overall = (sum(self._accepted) + _PRIOR / 2) / (sum(self._drafted) + _PRIOR)
        total = survive = 1.0
        found = [total]
        for drafted, accepted in zip(self._drafted[:k], self._accepted[:k], strict=True):
            survive *= (accepted + _PRIOR * overall) / (drafted + _PRIOR)
            total += survive
            found.append(total)
        return found

    def choose(self, k: int, behind: int = 0, company: int = 1) -> int:
        """The number of tokens to draft now, at most k; 0 rests.

        behind: how many tokens the drafter has to read first. company: how many answers are being made, this one among them.
        """
        k, steps = min(k, self._n_max), self._in(company)
        if k < steps.first_that_pays:
            return 0
        costs, catching_up = steps.costs, behind * self._costs.draft
        room = self._allowed + _SHARE * self._spent - self._lost + costs[0] - catching_up
        affordable = [n for n in self._lengths if n <= k and (costs[n] <= room or _LONG_RUN <= self._run >= n)]
        expected = self.expected(k)
        best = max((0, *affordable), key=lambda n: expected[n] / costs[n])
        if best and not self._whole:
            return best
        longest = max(2 * self._whole + 1, self._run) if self._whole else _FIRST_TRIAL
        tried = [n for n in affordable if n <= longest]
        return max(best, max(tried, key=lambda n: (n + 1) / costs[n], default=0))

    def observe(self, drafted: int, accepted: int, behind: int = 0, company: int = 1) -> None:
        """Of `drafted` tokens the first `accepted` were emitted; the one after them was judged and refused."""
        for i in range(min(drafted, self._n_max)):
            self._drafted[i] = _MEMORY * self._drafted[i] + (i <= accepted)
            self._accepted[i] = _MEMORY * self._accepted[i] + (i < accepted)
        cost = self._costs.of(drafted, company) + (behind * self._costs.draft if drafted else 0.0)
        self._spent += cost
        self._lost += cost - (accepted + 1) * self._in(company).costs[0]
        self._lost = max(self._lost, -_CREDIT * self._allowed)
        if drafted:
            self._whole = drafted if accepted == drafted else 0
            self._run = self._run + drafted if self._whole else 0


def alone() -> int:
    """The company of an answer that is made alone."""
    return 1


class Paced:
    """A drafter whose drafts are as long as its policy says.

    rehearses: the same drafter, where it looks drafts up in the answer's own context; it is asked before the first draft what it
    would have drafted, which is not to be noted. company: how many answers are being made, this one among them.
    """

    def __init__(
        self,
        drafter: Drafter,
        policy: LengthPolicy,
        *,
        rehearses: Drafter | None = None,
        company: Callable[[], int] = alone,
    ) -> None:
        self.name = drafter.name
        self._drafter = drafter
        self._policy = policy
        self._rehearses = rehearses
        self._count = company
        self._company = 1
        self._known = 0
        self._behind = 0
        self.longest_refused = 0
        """The most tokens that it was asked for when it rested."""

    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Proposal:
        if self._rehearses is not None:
            self._policy.rehearse(self._rehearses, context, coin)
            self._rehearses = None
        # the prompt is not counted: a slot may hold it
        self._known = self._known or len(context)
        self._behind = len(context) - self._known
        self._company = self._count()
        chosen = self._policy.choose(k, self._behind, self._company)
        if not chosen:
            self.longest_refused = max(self.longest_refused, k)
            return NOTHING
        return (yield from self._drafter.propose(context, chosen, coin))

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        self._policy.observe(len(draft.tokens), accepted, self._behind, self._company)
        if draft.tokens:
            self._known = len(context)
        self._drafter.observe(context, draft, accepted)

    def close(self) -> None:
        self._drafter.close()


def time_row(backend: Backend, *, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of a pass of one row on a new sequence; the median of three."""
    sequence = backend.sequence()
    took = []
    try:
        sequence.extend([0, 0], 1)  # one before it: some backends have no row after the very first token
        for _ in range(3):
            start = clock()
            sequence.extend([0])
            took.append(max(clock() - start, 1e-9))
    finally:
        sequence.close()
    return median(took)
