"""The one-token oracle: a request for one token is not speculated, so its logprobs are the server's own truth."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.core.ask import Ask, Completion, Prompt, Scalar
from draftproof.core.errors import TargetError
from draftproof.core.facts import Facts
from draftproof.core.probe import OracleRow
from draftproof.core.tokens import Alternative, TokenRecord

_SEED = 0
_REMEMBERED = 400_000
"""Alternatives kept over all remembered rows, about 50 MB."""

AskMany = Callable[[Iterable[Ask]], Iterator[Completion]]


@dataclass(frozen=True, slots=True)
class Noise:
    """How far the server differs from itself on the same contexts, in nats of log-probability.

    `repeated`: RMS difference of two equal requests, weighted by probability; `paths`: of the whole context decoded at once and
    of its second half decoded on top of a cached first one (None where the cache cannot be switched off); `largest`: the largest
    difference of any value with probability above 1e-4; `contexts`: how many were tried.
    """

    repeated: float
    paths: float | None
    largest: float
    contexts: int

    @property
    def nu(self) -> float:
        return max(self.repeated, self.paths or 0.0)


class Oracle:
    """Asks for one token after a context and remembers the answer. Safe to use from several threads."""

    def __init__(self, ask_many: AskMany, facts: Facts, uncached: tuple[tuple[str, Scalar], ...] = ()) -> None:
        self._ask_many = ask_many
        self._facts = facts
        self._uncached = uncached
        self._rows: OrderedDict[tuple[Prompt, int], OracleRow] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    def rows(self, contexts: Sequence[Prompt], alternatives: int | None = None) -> list[OracleRow]:
        """One row per context, in order; contexts not yet known are asked with several requests in flight."""
        k = self._facts.max_alternatives if alternatives is None else alternatives
        found = {context: self._recall(context, k) for context in contexts}
        unknown = [context for context, row in found.items() if row is None]
        for context, answer in zip(unknown, self._ask_many(self._ask(c, k) for c in unknown), strict=True):
            row = self._row(answer)
            found[context] = row
            self._remember(context, k, row)
        return [row for row in (found[context] for context in contexts) if row is not None]

    def noise(self, contexts: Sequence[Prompt]) -> Noise:
        """Asks every context by several paths through the server's cache. Remembers nothing."""
        k = self._facts.max_alternatives
        first = self._fresh(contexts, k)
        repeated = [_difference(a, b) for a, b in zip(first, self._fresh(contexts, k), strict=True)]
        paths: list[tuple[float, float]] = []
        if self._uncached:
            whole = self._fresh(contexts, k, self._uncached)
            self._fresh([c[: len(c) // 2] for c in contexts if len(c) > 1], 1, self._uncached)
            halves = self._fresh(contexts, k)
            paths = [_difference(a, b) for a, b in zip(whole, halves, strict=True)]
            paths += [_difference(a, b) for a, b in zip(whole, first, strict=True)]
        return Noise(
            repeated=_rms([d for d, _ in repeated]),
            paths=_rms([d for d, _ in paths]) if self._uncached else None,
            largest=max((worst for _, worst in repeated + paths), default=0.0),
            contexts=len(contexts),
        )

    def _fresh(self, contexts: Sequence[Prompt], k: int, extra: tuple[tuple[str, Scalar], ...] = ()) -> list[OracleRow]:
        return [self._row(answer) for answer in self._ask_many(replace(self._ask(c, k), extra=extra) for c in contexts)]

    def _ask(self, context: Prompt, k: int) -> Ask:
        return Ask(context, max_tokens=1, alternatives=k, seed=_SEED)

    def _row(self, answer: Completion) -> OracleRow:
        if answer.error is not None:
            raise TargetError(
                f"The server refused to give the law of one token: {answer.error}.", exchange=answer.exchange
            )
        if not answer.tokens:
            raise TargetError("The server gave no logprobs for a single token.", exchange=answer.exchange)
        return oracle_row(answer.tokens[0], answer.exchange, self._facts.vocabulary)

    def _recall(self, context: Prompt, k: int) -> OracleRow | None:
        with self._lock:
            row = self._rows.get((context, k))
            if row is not None:
                self._rows.move_to_end((context, k))
            return row

    def _remember(self, context: Prompt, k: int, row: OracleRow) -> None:
        with self._lock:
            if (context, k) not in self._rows:
                self._rows[context, k] = row
                self._held += len(row.ids) + len(context)
            while self._held > _REMEMBERED and len(self._rows) > 1:
                (old, _), dropped = self._rows.popitem(last=False)
                self._held -= len(dropped.ids) + len(old)


def oracle_row(token: TokenRecord, exchange: int, vocabulary: int | None) -> OracleRow:
    """The alternatives of one token and the token itself, best first. Ids that the server does not give are -1.

    Raises TargetError when there are no alternatives.
    """
    if not token.alternatives:
        raise TargetError("The server gave no alternatives for a single token.", exchange=exchange)
    listed = [a for a in token.alternatives if a.logprob is not None]
    same = {(a.id, a.text) for a in listed}
    if token.logprob is not None and (token.id, token.text) not in same:
        listed.append(Alternative(token.id, token.text, token.logprob))
    listed.sort(key=lambda a: -a.logprob if a.logprob is not None else 0.0)
    return OracleRow(
        ids=tuple(-1 if a.id is None else a.id for a in listed),
        texts=tuple(a.text for a in listed),
        logprobs=tuple(a.logprob for a in listed if a.logprob is not None),
        exchange=exchange,
        complete=vocabulary is not None and len({a.id for a in listed if a.id is not None}) == vocabulary,
    )


def _difference(a: OracleRow, b: OracleRow) -> tuple[float, float]:
    """(probability-weighted RMS, largest) difference over the tokens that both rows list."""
    theirs = dict(zip(zip(b.ids, b.texts, strict=True), b.logprobs, strict=True))
    total = weight = worst = 0.0
    for key, x in zip(zip(a.ids, a.texts, strict=True), a.logprobs, strict=True):
        y = theirs.get(key)
        if y is None or not (math.isfinite(x) and math.isfinite(y)):
            continue
        p = math.exp(min(x, 0.0))
        total += p * (x - y) ** 2
        weight += p
        if p > 1e-4:
            worst = max(worst, abs(x - y))
    return (math.sqrt(total / weight) if weight else 0.0), worst


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(sum(v * v for v in values) / len(values)) if values else 0.0
