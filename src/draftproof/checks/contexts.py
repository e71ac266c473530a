"""Contexts of the one-token oracle along an answer, and what the oracle says of the tokens in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from draftproof.checks.prompts import is_chat, is_small
from draftproof.client.noise import squared_difference
from draftproof.client.oracle import lawful, oracle_row
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.probe import OracleRow, Probe
from draftproof.core.tokens import TokenRecord

CHAIN_ALTERNATIVES = 100


def after(prompt: Prompt, answer: Completion, n: int) -> Prompt | None:
    """The context before token n of an answer: token ids where the server deals in them, text otherwise.

    None where it cannot be written down exactly (a chat prompt, ids unknown, a token that is no whole text).
    """
    if is_chat(answer.route):
        return None
    if isinstance(prompt, tuple):
        ids = answer.token_ids or tuple(-1 if t.id is None else t.id for t in answer.tokens)
        return None if len(ids) < n or -1 in ids[:n] else prompt + ids[:n]
    texts = [t.text for t in answer.tokens[:n]]
    return None if len(texts) < n or "\ufffd" in "".join(texts) else prompt + "".join(texts)


def contexts(answer: Completion, limit: int | None = None) -> list[Prompt]:
    """The contexts before tokens 0, 1, ... of an answer, as far as they can be written down."""
    known = max(len(answer.tokens), len(answer.token_ids or ()))
    found: list[Prompt] = []
    for n in range(min(known, limit or known)):
        context = after(answer.ask.prompt, answer, n)
        if context is None:
            break
        found.append(context)
    return found


@dataclass(frozen=True, slots=True)
class Scored:
    """One token beside the oracle's row for the same context."""

    token: TokenRecord
    row: OracleRow

    @property
    def true(self) -> float | None:
        """The oracle's log-probability of the token, None when it is not among the row's entries."""
        return self.of(self.token)

    def of(self, token: TokenRecord) -> float | None:
        for i, text, logprob in zip(self.row.ids, self.row.texts, self.row.logprobs, strict=True):
            if (token.id is not None and token.id == i) or (token.id is None and token.text == text):
                return logprob
        return None

    @property
    def ceiling(self) -> float:
        return ceiling(self.row)


def ceiling(row: OracleRow) -> float:
    """An upper bound for the log-probability of a token that is not in the row: what mass is left, or the least listed value.

    The one-token answer's own token may stand in the row besides the list, below it: so the second least is taken.
    """
    left = 1 - math.fsum(math.exp(x) for x in row.logprobs)
    least = sorted(row.logprobs)[:2]
    return min(least[-1] if least else 0.0, math.log(left) if left > 0 else -math.inf)


def chain(probe: Probe, answer: Completion, limit: int | None = None) -> tuple[OracleRow, ...]:
    """The one-token chain along an answer: the oracle's row before each of its tokens.

    The first context is worked out anew, the others one after the other with the server's prompt cache on, so that each adds
    one token: the numeric path of plain decoding after an uncached prompt (ask for the answer with `Facts.uncached`). A model of a
    few letters has no such paths, and is asked for many contexts at once.
    """
    places = contexts(answer, limit)
    if is_small(probe) or not probe.facts.uncached:
        return tuple(probe.oracle_many(places))
    rows = []
    for n, context in enumerate(places):
        ask = Ask(context, 1, min(probe.facts.max_alternatives, CHAIN_ALTERNATIVES), seed=0)
        one = probe.ask(ask if n else replace(ask, extra=probe.facts.uncached))
        if not one.ok or not one.tokens:
            break
        rows.append(lawful(oracle_row(one.tokens[0], one.exchange, probe.facts.vocabulary)))
    return tuple(rows)


def cache_noise(probe: Probe, answers: Sequence[tuple[Completion, Sequence[Scored]]]) -> float:
    """The largest RMS difference in nats, over answers, between the law of an answer's last known context as it was had for
    `score`, the beginning read from the cache, and the same law worked out anew.

    Text that a server cannot be told to work out anew is asked for backwards, twice: it cannot be cached the first time. 0 for a
    model of a few letters, whose few rows are all worked out alike.
    """
    squares = [0.0]
    for answer, scored in answers:
        if is_small(probe) or not scored:
            continue
        context = contexts(answer, len(scored))[-1]
        row, anew = scored[-1].row, fresh_row(probe, context)
        if anew is None:
            backwards = " ".join(context.split()[::-1]) if isinstance(context, str) else context[::-1]
            ask = Ask(backwards, 1, min(probe.facts.max_alternatives, CHAIN_ALTERNATIVES), seed=0)
            both = [probe.ask(ask) for _ in range(2)]
            if not all(one.ok and one.tokens for one in both):
                continue
            anew, row = (oracle_row(one.tokens[0], one.exchange, probe.facts.vocabulary) for one in both)
        squares.append(squared_difference(row, anew))
    return math.sqrt(max(squares))


def fresh_row(probe: Probe, context: Prompt) -> OracleRow | None:
    """The oracle's row with the whole context worked out anew; None where the server cannot be told to.

    Beside a row of `chain` or `Probe.oracle`, which read the beginning of the context from the cache, it shows the numerical noise
    between those two ways at the length of this context.
    """
    if not probe.facts.uncached:
        return None
    ask = Ask(context, 1, min(probe.facts.max_alternatives, CHAIN_ALTERNATIVES), seed=0, extra=probe.facts.uncached)
    one = probe.ask(ask)
    return oracle_row(one.tokens[0], one.exchange, probe.facts.vocabulary) if one.ok and one.tokens else None


def score(probe: Probe, answer: Completion, limit: int | None = None) -> tuple[Scored, ...]:
    """Each token of an answer beside the oracle's row, as far as the contexts can be written down.

    Where an entry is lost, those after it belong to no known context.
    """
    rows = chain(probe, answer, limit)
    return tuple(Scored(token, row) for token, row in zip(entries_in_place(answer), rows, strict=False))


def entries_in_place(answer: Completion) -> tuple[TokenRecord, ...]:
    """The logprob entries from the first on that are those of the tokens at their own places.

    A server may leave out the entry of a token that is a piece of a character; those after it stand too early.
    """
    if not answer.token_ids:
        return answer.tokens
    pairs = zip(answer.tokens, answer.token_ids, strict=False)
    return tuple(entry for entry, _ in takewhile(lambda pair: pair[0].id in (None, pair[1]), pairs))
