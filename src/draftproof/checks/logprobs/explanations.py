"""What are reported values really, where they are not the target's own?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from draftproof.checks.contexts import Scored
from draftproof.core.ask import Completion


@dataclass(frozen=True, slots=True)
class Rescored:
    """An answer, the oracle's row before each of its tokens, and the draft model's logprob of the token where it is known."""

    answer: Completion
    tokens: tuple[Scored, ...]
    draft: tuple[float, ...] = ()


Explanation = Callable[[Rescored], Iterator[tuple[float, float | None]]]
"""Pairs of a reported value and what it would be; None where that is not known."""


def _reported(tokens: Sequence[Scored]) -> list[tuple[int, float]]:
    return [(n, s.token.logprob) for n, s in enumerate(tokens) if n and s.token.logprob is not None]


def _value_of_neighbour(lag: int) -> Explanation:
    def pairs(r: Rescored) -> Iterator[tuple[float, float | None]]:
        for n, value in _reported(r.tokens):
            if 0 <= n + lag < len(r.tokens):
                yield value, r.tokens[n + lag].true

    return pairs


def _row_of_neighbour(lag: int) -> Explanation:
    def pairs(r: Rescored) -> Iterator[tuple[float, float | None]]:
        for n, value in _reported(r.tokens):
            if 0 <= n + lag < len(r.tokens):
                yield value, r.tokens[n + lag].of(r.tokens[n].token)

    return pairs


def _draft(r: Rescored) -> Iterator[tuple[float, float | None]]:
    for n, value in _reported(r.tokens):
        if n < len(r.draft):
            yield value, r.draft[n]


def _tempered(temperature: float) -> Explanation:
    def pairs(r: Rescored) -> Iterator[tuple[float, float | None]]:
        for n, value in _reported(r.tokens):
            s = r.tokens[n]
            mass = math.fsum(math.exp(x / temperature) for x in s.row.logprobs)
            yield value, None if s.true is None else s.true / temperature - math.log(mass)

    return pairs


EXPLANATIONS: tuple[tuple[str, str, Explanation], ...] = (
    ("SHIFTED", "they are the values of the next token", _value_of_neighbour(1)),
    ("SHIFTED", "they are the values of the token before", _value_of_neighbour(-1)),
    ("SHIFTED", "they are the token's values one position early", _row_of_neighbour(-1)),
    ("SHIFTED", "they are the token's values one position late", _row_of_neighbour(1)),
    ("DRAFTS_OWN", "they are the draft model's values", _draft),
    *(("CLASS_MIX", f"they are values at temperature {t}", _tempered(t)) for t in (0.5, 0.7, 0.8, 1.5, 2.0)),
)


def _median_gap(pairs: Iterator[tuple[float, float | None]]) -> float:
    gaps = sorted(abs(a - b) for a, b in pairs if b is not None)
    return gaps[len(gaps) // 2] if len(gaps) >= 4 else math.inf


def explain(answers: Sequence[Rescored], wrong_tokens: Sequence[Scored], limit: float) -> tuple[str, str]:
    """The code and the words for what the reported values really are, of which those of `wrong_tokens` are wrong."""
    later = [value for r in answers for _, value in _reported(r.tokens)]
    wrong = [s.token.logprob for s in wrong_tokens]
    value, times = Counter(wrong).most_common(1)[0] if wrong else (None, 0)
    if times >= 2 and 2 * times > len(wrong):
        some = "all of them are" if times == len(wrong) else f"{times} of the {len(wrong)} are"
        return "PLACEHOLDER", f"{some} {value}"
    fits = ((_median_gap(p for r in answers for p in pairs(r)), code, text) for code, text, pairs in EXPLANATIONS)
    gap, code, text = min(fits, key=lambda fit: fit[0])
    return (code, text) if later and gap <= limit else ("CORRUPT", "they fit no known pattern")
