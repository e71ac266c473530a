"""Does a long prompt get the same numbers when its beginning comes from the cache?

It is then evaluated in other batches than one that is worked out anew, by other kernels, so a quantised model's values move. That
is rounding, and a user must know how large it is; a cache that holds another text's rows moves them by far more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks.prompts import SMALL_VOCABULARY, prose
from draftproof.checks.randomness.repeats import SMALL_DRIFT, Repeat, compare, difference
from draftproof.core.ask import Ask, Prompt
from draftproof.core.facts import Facts
from draftproof.core.probe import Probe
from draftproof.core.tokens import Alternative, TokenRecord
from draftproof.core.verdict import Cell

PARTLY, ELSEWHERE = "a long prompt, its beginning from the cache", "less of its beginning from the cache"
PLACES = {PARTLY: 64 + 37, ELSEWHERE: 64 + 21}
"""Where the cached beginning ends: where no block of a cache does, and so that fewer, and more, than 64 rows are left: from
there on libraries take other kernels."""
LEAST_CONTEXT = 320
LEAST, RATIO = 0.05, 8
ROUNDING, FAULT = 0.5, 1.0
"""One value in nats: up to ROUNDING caches of 4-bit models were seen to move it (.33 at most); a block of another text in the cache
moves some value by more than FAULT."""


def applies(facts: Facts) -> bool:
    """Not to small models, whose prompts are all short."""
    small = facts.vocabulary is not None and facts.vocabulary <= SMALL_VOCABULARY
    return not small and (facts.context or LEAST_CONTEXT) >= LEAST_CONTEXT


def collect(probe: Probe, greedy: Ask) -> Iterator[Repeat]:
    """A long prompt anew, and with its beginning cached; where that moves something, with less of its beginning cached too."""
    if not applies(probe.facts):
        return
    ask = replace(greedy, prompt=prose(probe))
    first = probe.ask(ask)
    for condition, place in PLACES.items():
        probe.ask(Ask(_beginning(ask.prompt, place), 1, seed=0, extra=probe.facts.uncached))
        repeat = compare(probe, condition, first, probe.ask(replace(ask, extra=probe.facts.drafting)))
        yield repeat
        if not (repeat.first.ok and repeat.again.ok) or not Cached.of([repeat]).moves:
            return


def _beginning(prompt: Prompt, tokens: int) -> Prompt:
    """The first tokens; of a text about as much, up to the end of a word."""
    return prompt[:tokens] if isinstance(prompt, tuple) else prompt[: 4 * tokens].rpartition(" ")[0]


@dataclass(frozen=True, slots=True)
class Cached:
    """`largest` difference in nats between the values anew and those with either cached beginning, up to the first token that
    differs; `rms` of those with the longer one; `noise`: RMS between the two beginnings, which a wrong cache leaves alone. None
    where there are no values. `tied`: where a text parts, its two tokens were as near each other as values move.
    """

    n: int = 0
    parted: bool = False
    tied: bool = True
    largest: float | None = None
    rms: float | None = None
    noise: float | None = None

    @classmethod
    def of(cls, repeats: Sequence[Repeat]) -> Cached:
        by = {r.condition: r for r in repeats if r.first.ok and r.again.ok}
        if PARTLY not in by:
            return cls()
        repeat = by[PARTLY]
        other = _moves(Repeat(ELSEWHERE, repeat.again, by[ELSEWHERE].again)) if ELSEWHERE in by else []
        parted = [r for r in by.values() if difference(r.first, r.again) is not None]
        largest = max((move for r in by.values() for move in _moves(r)), default=None)
        return cls(1, bool(parted), all(map(_tied, parted)), largest, _rms(_moves(repeat)), _rms(other))

    @property
    def moves(self) -> bool:
        return self.parted or (self.largest is not None and self.largest > SMALL_DRIFT)

    @property
    def is_fault(self) -> bool:
        return self.largest is not None and self.largest > FAULT

    @property
    def unclear(self) -> bool:
        """Whether what moves may be more than rounding."""
        if not self.moves:
            return False
        if self.largest is None or self.rms is None or self.noise is None or not self.tied:
            return True
        return self.largest > ROUNDING or self.rms > max(LEAST, RATIO * self.noise)

    @property
    def row(self) -> tuple[Cell, ...]:
        explained = self.parted and not self.unclear and not self.is_fault
        return PARTLY, self.n, int(self.parted), int(explained), self.largest

    @property
    def caution(self) -> str:
        """What a pass must not hide; "" where nothing moves."""
        if not self.moves:
            return ""
        text = f"logprobs move by up to {self.largest or 0.0:.2g} nat with how much of a prompt was cached"
        return text + (", and greedy text with them" if self.parted else "; greedy text can change with them")


def _moves(repeat: Repeat) -> list[float]:
    """Differences in nats of all values that both answers list at one place, the first token that differs included.

    A token that only one of them lists has at most the other's least value: it moved by at least the difference.
    """
    place = difference(repeat.first, repeat.again)
    pairs = list(zip(repeat.first.tokens, repeat.again.tokens, strict=False))[: None if place is None else place + 1]
    found: list[float] = []
    for mine, other in ((_listed(a), _listed(b)) for a, b in pairs):
        if mine and other:
            found += [abs(mine[key] - other[key]) for key in mine.keys() & other.keys()]
            found += [max(0.0, x - min(other.values())) for key, x in mine.items() if key not in other]
            found += [max(0.0, x - min(mine.values())) for key, x in other.items() if key not in mine]
    return found


def _tied(repeat: Repeat) -> bool:
    """Whether the values of two answers that differ let the first token that differs be either: it leads the other by no more than
    both moved. Not where one answer ends or has no values there.
    """
    place = difference(repeat.first, repeat.again)
    tokens = [t for a in (repeat.first, repeat.again) for t in a.tokens[place : None if place is None else place + 1]]
    lists = [_listed(token) for token in tokens]
    if len(lists) < 2 or not all(lists):
        return False
    values = [[listed.get(_name(token), min(listed.values())) for token in tokens] for listed in lists]
    return max(abs(one - other) for one, other in values) <= 2 * max(SMALL_DRIFT, *_moves(repeat))


def _listed(token: TokenRecord) -> dict[int | str, float]:
    """The values of a token and of its alternatives, by id or else by text; {} for a placeholder, which has none.

    Without those that their text does not tell from others, as pieces of characters.
    """
    if not token.alternatives:
        return {}
    entries: list[Alternative | TokenRecord] = [*token.alternatives, token]
    known = (e for e in entries if e.id is not None or (e.text and "\ufffd" not in e.text))
    return {_name(e): e.logprob for e in known if e.logprob is not None and math.isfinite(e.logprob)}


def _name(entry: Alternative | TokenRecord) -> int | str:
    return entry.text if entry.id is None else entry.id


def _rms(moves: Sequence[float]) -> float | None:
    return math.sqrt(math.fsum(x * x for x in moves) / len(moves)) if moves else None
