"""Answers under one sampler setting each, beside the tokens that the setting must give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from draftproof.checks.contexts import ceiling, contexts
from draftproof.checks.sampling.settings import BY_NAME, Kind, shortfalls
from draftproof.client.oracle import oracle_row
from draftproof.core.ask import Completion
from draftproof.core.distribution import Law, log_softmax
from draftproof.core.probe import KnownModel, OracleRow

Token = int | str


@dataclass(frozen=True, slots=True)
class Trial:
    """An answer under the setting `name`. `own`: one-token requests with the same setting, at contexts along the answer.

    `row`: for a setting that leaves the most likely token alone, the oracle's law before the first token that differs from
    the greedy answer's.
    """

    name: str
    answer: Completion
    own: tuple[Completion, ...] = ()
    row: OracleRow | None = None

    def own_at(self, position: int) -> tuple[Completion, ...]:
        """The one-token answers at that position."""
        base = len(self.answer.ask.prompt)
        return tuple(o for o in self.own if o.ok and len(o.ask.prompt) - base == position)


@dataclass(frozen=True, slots=True)
class Place:
    """One token of an answer: what came, what the setting must give, what comes without it.

    `gap`: nats by which the model's values would have to move for `emitted` to be right; None where that is not known.
    """

    position: int
    emitted: Token
    choice: Token
    plain: Token
    gap: float | None

    @property
    def differs(self) -> bool:
        return self.emitted != self.choice


def sequence(answer: Completion) -> tuple[Token, ...]:
    """The tokens of an answer: ids where the server tells them, texts otherwise."""
    return answer.token_ids or tuple(t.text for t in answer.tokens)


def places(trial: Trial, greedy: Completion, known: KnownModel | None, vocabulary: int | None) -> list[Place]:
    """The tokens of an answer that can be judged.

    Penalties may count the prompt's tokens (llama.cpp) or the answer's alone (OpenAI's description): an answer is held against
    the reading that suits it better.
    """
    setting = BY_NAME[trial.name]
    if setting.kind is Kind.BEST and known is None:
        return list(_against_greedy(trial, greedy))
    whole = list(_along(trial, known, vocabulary, skip=0))
    if trial.name not in ("frequency_penalty", "presence_penalty"):
        return whole
    alone = list(_along(trial, known, vocabulary, skip=len(trial.answer.ask.prompt)))
    return min(whole, alone, key=lambda found: sum(p.differs for p in found))


def _along(trial: Trial, known: KnownModel | None, vocabulary: int | None, skip: int) -> Iterator[Place]:
    setting, answer = BY_NAME[trial.name], trial.answer
    found = [c for c in contexts(answer) if isinstance(c, tuple)]
    if not found or not answer.token_ids:
        return
    laws = None if known is None else known.target_logits(found)
    for n, (context, emitted) in enumerate(zip(found, answer.token_ids, strict=False)):
        own = next(iter(trial.own_at(n)), None)
        logits = laws[n] if laws is not None else _listed(own, vocabulary)
        if logits is None:
            continue
        plain = int(np.argmax(logits))
        if known is None and not setting.additive:
            choice = own.token_ids[0] if own is not None and own.token_ids else plain
            yield Place(n, emitted, choice, plain, 0.0 if choice == emitted else None)
            continue
        short = shortfalls(logits, context[skip:], answer.ask.sampling)
        choice = int(np.argmin(short))
        if known is None and not _is_listed(own, choice):
            continue
        yield Place(n, emitted, choice, plain, float(short[emitted]))


def _row(own: Completion | None) -> OracleRow | None:
    """The model's own law from a one-token answer: its list is that before the samplers."""
    if own is None or not own.tokens or not own.tokens[0].alternatives:
        return None
    listed = own.tokens[0]
    return oracle_row(listed, own.exchange, None)


def _listed(own: Completion | None, vocabulary: int | None) -> Law | None:
    """float64[vocab] log-probabilities; tokens that are not listed get the most that they can have."""
    row = _row(own)
    if row is None or -1 in row.ids:
        return None
    out = np.full(max(vocabulary or 0, max(row.ids) + 1), min(ceiling(row), *row.logprobs))
    out[list(row.ids)] = row.logprobs
    return out


def _is_listed(own: Completion | None, token: int) -> bool:
    row = _row(own)
    return row is not None and token in row.ids


def _against_greedy(trial: Trial, greedy: Completion) -> Iterator[Place]:
    """Up to the first token that is another than the greedy answer's: after it the contexts differ."""
    for n, (emitted, choice) in enumerate(zip(sequence(trial.answer), sequence(greedy), strict=False)):
        gap = 0.0 if emitted == choice else _gap(trial.row, emitted)
        yield Place(n, emitted, choice, choice, gap)
        if emitted != choice:
            return


def _gap(row: OracleRow | None, emitted: Token) -> float | None:
    if row is None:
        return None
    listed: Sequence[Token] = row.ids if isinstance(emitted, int) else row.texts
    value = row.logprobs[listed.index(emitted)] if emitted in listed else ceiling(row)
    return row.logprobs[0] - value


def chance_of_best(trial: Trial, known: KnownModel, temperature: float) -> float:
    """The probability that a server without the setting gives the same tokens after the first, at that temperature."""
    found = [c for c in contexts(trial.answer) if isinstance(c, tuple)]
    if len(found) < 2 or not trial.answer.token_ids:
        return 1.0
    hot = log_softmax(known.target_logits(found) / temperature)
    own = hot[np.arange(len(found)), list(trial.answer.token_ids[: len(found)])]
    return float(np.exp(own[1:].sum()))
