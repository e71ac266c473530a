"""The one-token oracle: a request for one token is not speculated, so its logprobs are the server's own truth."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence

from draftproof.client.noise import batch_noise
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.errors import TargetError
from draftproof.core.facts import Facts
from draftproof.core.probe import OracleRow
from draftproof.core.tokens import Alternative, TokenRecord

_SEED = 0
_NOISE_ALTERNATIVES = 50
_REMEMBERED = 400_000
"""Alternatives kept over all remembered rows, about 50 MB."""

AskMany = Callable[[Iterable[Ask]], Iterator[Completion]]


class Oracle:
    """Asks for one token after a context and remembers the answer. Safe to use from several threads."""

    def __init__(self, ask_many: AskMany, facts: Facts) -> None:
        self._ask_many = ask_many
        self._facts = facts
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

    def noise(self, contexts: Sequence[Prompt], batches: Sequence[int]) -> float:
        """See `noise.batch_noise`. Remembers nothing."""
        k = min(self._facts.max_alternatives, _NOISE_ALTERNATIVES)
        return batch_noise(
            lambda context: self._row(next(iter(self._ask_many([self._ask(context, k)])))), contexts, batches
        )

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
