"""How far do two answers to one request agree, entry by entry?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from draftproof.core.ask import Completion
from draftproof.core.tokens import Alternative, TokenRecord


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers to one request at temperature 0."""

    whole: Completion
    other: Completion


def absent(token: TokenRecord) -> bool:
    """Whether this stands for text that came without a logprob entry."""
    return token.logprob is None and not token.alternatives


def _same(a: TokenRecord, b: TokenRecord) -> bool:
    return a.id == b.id if a.id is not None and b.id is not None else a.text == b.text


def _values(token: TokenRecord) -> dict[int | str, float]:
    """The token's own value and those of its list, by id or text."""
    values: dict[int | str, float] = {}
    own = Alternative(token.id, token.text, token.logprob)
    for entry in (*(token.alternatives or ()), own):
        if entry.logprob is not None:
            values.setdefault(entry.text if entry.id is None else entry.id, entry.logprob)
    return values


def differences(a: TokenRecord, b: TokenRecord) -> list[float]:
    """The differences in nats between the values of two entries; infinite where one of them lacks its own.

    The least likely entries of two lists may be others, where they are as likely as each other.
    """
    if (a.logprob is None) != (b.logprob is None) or bool(a.alternatives) != bool(b.alternatives):
        return [math.inf]
    mine, theirs = _values(a), _values(b)
    least = max(min(mine.values(), default=0.0), min(theirs.values(), default=0.0))
    return [abs(mine.get(k, least) - theirs.get(k, least)) for k in mine.keys() | theirs.keys()]


def in_common(pair: Pair) -> list[tuple[TokenRecord, TokenRecord]]:
    """The entries of both answers, up to the first token that differs; absent ones of the other answer left out."""
    pairs = []
    for a, b in zip(pair.whole.tokens, (t for t in pair.other.tokens if not absent(t)), strict=False):
        if not _same(a, b):
            break
        pairs.append((a, b))
    return pairs


def noise_of(repeats: Sequence[Pair]) -> float:
    """RMS difference in nats of all values of the lists, the worst of the pairs.

    Not of the drawn tokens alone: at temperature 0 they are likely, and the value of a likely token hardly moves.
    """
    found = [0.0]
    for pair in repeats:
        squares = [d * d for a, b in in_common(pair) for d in differences(a, b) if math.isfinite(d)]
        if squares:
            found.append(math.sqrt(math.fsum(squares) / len(squares)))
    return max(found)


def near_tie(pair: Pair, n: int, limit: float) -> bool:
    """Whether the two most likely tokens at place n of the whole answer are so near that numerics may decide between them."""
    listed = sorted((e.logprob for e in pair.whole.tokens[n].alternatives or () if e.logprob is not None), reverse=True)
    return len(listed) > 1 and listed[0] - listed[1] <= 2 * limit


def copied(stream: Completion, whole: Completion) -> bool:
    """Whether different tokens of one event carry one list, which they do not in the whole answer."""
    start = 0
    for n in stream.event_tokens:
        places = range(start, start + n)
        start += n
        lists = [stream.tokens[i].alternatives for i in places if i < len(stream.tokens)]
        truly = [whole.tokens[i].alternatives for i in places if i < len(whole.tokens)]
        if len(lists) > 1 and lists[0] and len(set(lists)) == 1 and len(set(truly)) > 1:
            return True
    return False
