"""The one-token oracle: a request for one token is not speculated, so its logprobs are the server's own truth."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from draftproof.client.noise import BatchNoise
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.errors import TargetError
from draftproof.core.facts import Facts
from draftproof.core.probe import KnownModel, OracleRow
from draftproof.core.tokens import Alternative, TokenRecord

_SEED = 0
_NOISE_ALTERNATIVES = 50
_MASS = 1e-3
_REMEMBERED = 400_000
"""Alternatives kept over all remembered rows, about 50 MB."""

_MOST_SEEDS = 40
"""A server may say nothing of a token that is a piece of a character: the law is the same whatever token is drawn."""

AskMany = Callable[[Iterable[Ask]], Iterator[Completion]]


class Oracle:
    """Asks for one token after a context and remembers the answer. Safe to use from several threads.

    `know` has rows of token contexts worked out instead of asked for.
    """

    def __init__(self, ask_many: AskMany, facts: Facts) -> None:
        self._ask_many = ask_many
        self._facts = facts
        self._rows: OrderedDict[tuple[Prompt, int], OracleRow] = OrderedDict()
        self._known: tuple[KnownModel, OracleRow] | None = None
        self._held = 0
        self._lock = threading.Lock()
        self._batch_noise = BatchNoise(self._anew)

    def know(self, model: KnownModel, seen: OracleRow) -> None:
        """From now on the law of token contexts is the model's. `seen` is a complete row of the server: it names the tokens."""
        self._known = (model, seen)

    def rows(
        self, contexts: Sequence[Prompt], alternatives: int | None = None, *, by_server: bool = False
    ) -> list[OracleRow]:
        """One row per context, in order; those not yet known are asked for, several per request or requests in flight."""
        k = self._facts.max_alternatives if alternatives is None else alternatives
        if self._known is not None and not by_server and k and all(isinstance(c, tuple) for c in contexts):
            return _worked_out(*self._known, [c for c in contexts if isinstance(c, tuple)], k)
        found = {context: self._recall(context, k) for context in contexts}
        unknown = [context for context, row in found.items() if row is None]
        for seed in range(_SEED, _SEED + _MOST_SEEDS):
            silent = []
            for context, answer in zip(unknown, self._ask_many(self._asks(unknown, k, seed)), strict=True):
                if _is_silent(answer) and seed < _SEED + _MOST_SEEDS - 1:
                    silent.append(context)
                    continue
                row = self._row(answer)
                found[context] = row
                self._remember(context, k, row)
            unknown = silent
            if not unknown:
                break
        return [row for row in (found[context] for context in contexts) if row is not None]

    def noise(self, contexts: Sequence[Prompt], batches: Sequence[int]) -> float:
        """See `noise.BatchNoise`."""
        return self._batch_noise.rms(contexts, batches)

    def _anew(self, context: Prompt) -> OracleRow:
        k = min(self._facts.max_alternatives, _NOISE_ALTERNATIVES)
        for seed in range(_SEED, _SEED + _MOST_SEEDS):
            answer = next(iter(self._ask_many([self._ask(context, k, seed)])))
            if not _is_silent(answer):
                break
        return self._row(answer)

    def _asks(self, contexts: Sequence[Prompt], k: int, seed: int) -> Iterator[Ask]:
        """As few requests as the server allows."""
        most = self._facts.batch_prompts
        for start in range(0, len(contexts), most):
            some = contexts[start : start + most]
            yield replace(self._ask(some[0], k, seed), also=tuple(some[1:]))

    def _ask(self, context: Prompt, k: int, seed: int) -> Ask:
        return Ask(context, max_tokens=1, alternatives=k, seed=seed)

    def _row(self, answer: Completion) -> OracleRow:
        if answer.error is not None:
            raise TargetError(
                f"The server refused to give the law of one token: {answer.error}.", exchange=answer.exchange
            )
        if not answer.tokens:
            raise TargetError("The server gave no logprobs for a single token.", exchange=answer.exchange)
        return lawful(oracle_row(answer.tokens[0], answer.exchange, self._facts.vocabulary))

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


def _is_silent(answer: Completion) -> bool:
    """Whether a token came, whose text is no whole character, without its logprobs."""
    return answer.error is None and not answer.tokens and answer.text.endswith("\ufffd")


def _worked_out(
    model: KnownModel, seen: OracleRow, contexts: Sequence[tuple[int, ...]], alternatives: int
) -> list[OracleRow]:
    """The model's rows, the most likely `alternatives` of each, with the server's names for the tokens."""
    if not contexts:
        return []
    names = dict(zip(seen.ids, seen.texts, strict=True))
    rows = []
    for law in model.target_many(contexts):
        ids = np.argsort(-law, kind="stable")[:alternatives].tolist()
        texts = tuple(names.get(i, "") for i in ids)
        rows.append(
            OracleRow(tuple(ids), texts, tuple(law[ids].tolist()), seen.exchange, complete=len(ids) == law.size)
        )
    return rows


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


def lawful(row: OracleRow) -> OracleRow:
    """The row, to be held against answers. Raises TargetError when its values cannot be log-probabilities."""
    mass = math.fsum(math.exp(min(x, 1.0)) for x in row.logprobs)
    if mass <= 1 + _MASS:
        return row
    raise TargetError(
        f"What the server gives for a single token are no log-probabilities: the probabilities add to {mass:.3f}.",
        "Nothing can be held against them. See logprobs/well_formed.",
        row.exchange,
    )
