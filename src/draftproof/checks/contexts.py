"""Contexts of the one-token oracle along an answer, and what the oracle says of the tokens in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from draftproof.checks.prompts import is_chat
from draftproof.core.ask import Completion, Prompt
from draftproof.core.probe import OracleRow, Probe
from draftproof.core.tokens import TokenRecord


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
        """An upper bound for the log-probability of a token that is not in the row: the smallest entry, or what mass is left."""
        left = 1 - math.fsum(math.exp(x) for x in self.row.logprobs)
        return min(min(self.row.logprobs, default=0.0), math.log(left) if left > 0 else -math.inf)


def score(probe: Probe, answer: Completion, limit: int | None = None) -> tuple[Scored, ...]:
    """Each token of an answer beside the oracle's row, as far as the contexts can be written down."""
    rows = probe.oracle_many(contexts(answer, limit))
    return tuple(Scored(token, row) for token, row in zip(answer.tokens, rows, strict=False))
