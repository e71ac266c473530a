"""Two servers asked the same questions, the second perhaps long ago."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from draftproof.checks.prompts import ORDINARY, REPEATING, is_chat, is_small, ordinary, repeating
from draftproof.checks.sampling.streams import Stream
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.errors import InstrumentError, TargetError
from draftproof.core.probe import Probe


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a server answered in an earlier audit: single answers, and samples for their law."""

    answers: tuple[Completion, ...] = ()
    streams: tuple[Stream, ...] = ()


@runtime_checkable
class PairProbe(Probe, Protocol):
    """A probe of the first server that knows the second one: live (`second`), or by what it answered once (`recorded`).

    `same_seeds`: whether both are said to draw the same tokens for the same seed.
    """

    second: Probe | None
    recorded: Recorded
    same_seeds: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers to one question."""

    first: Completion
    second: Completion

    @property
    def ok(self) -> bool:
        return self.first.ok and self.second.ok

    @property
    def exchanges(self) -> tuple[int, ...]:
        """Evidence numbers; an answer of an earlier audit's file has none here."""
        return tuple(a.exchange for a in (self.first, self.second) if a.exchange)


def as_pair(probe: Probe) -> PairProbe:
    """Raises InstrumentError for a probe of one server."""
    if not isinstance(probe, PairProbe):
        raise InstrumentError("A comparison needs two servers.", "Use `draftproof compare`.")
    return probe


def prompts(pair: PairProbe, ordinary_ones: int) -> list[Prompt]:
    """Prompts that mean the same to both: token ids where both take them and they stand for the same, else text.

    The first is one that repeats itself. Raises TargetError for little vocabularies of different sizes.
    """
    both = [p for p in (pair, pair.second) if p is not None]
    if len({(is_small(p), p.facts.vocabulary if is_small(p) else None) for p in both}) > 1:
        raise TargetError(
            f"The vocabularies differ: {' and '.join(str(p.facts.vocabulary) for p in both)} tokens.",
            "The servers do not run the same model.",
        )
    first, *others = ([repeating(p), *ordinary(p, ordinary_ones)] for p in both)
    return first if all(first == other for other in others) else [REPEATING, *ORDINARY[:ordinary_ones]]


def ask_both(pair: PairProbe, asks: Sequence[Ask]) -> Iterator[Pair]:
    """The same questions to both; a prompt that one of them has cached is read anew.

    Where one of them has only a chat, both are asked by chat.
    """
    assert pair.second is not None
    both = (pair, pair.second)
    chat = any(all(map(is_chat, p.facts.routes)) for p in both)
    yield from map(Pair, *(p.once([_on(p, ask, chat) for ask in asks]) for p in both))


def _on(probe: Probe, ask: Ask, chat: bool) -> Ask:
    route = next((r for r in probe.facts.routes if is_chat(r)), None) if chat else None
    return replace(ask, route=route, extra=(*ask.extra, *probe.facts.uncached))


def ask_again(pair: PairProbe, wanted: Iterable[Completion], most: int) -> Iterator[Pair]:
    """What was asked once, asked of the first server now: one request for each different question, `most` of them."""
    fit = {a.ask: a for a in wanted if a.ok and a.ask.count == 1 and a.route in pair.facts.routes}
    for ask, answer in list(fit.items())[:most]:
        yield Pair(pair.once([replace(ask, route=answer.route)])[0], replace(answer, exchange=0))


def by_id(pairs: Iterable[Pair]) -> bool:
    """Whether all tokens can be compared by their ids."""
    answers = [a for p in pairs if p.ok for a in (p.first, p.second)]
    return all(a.token_ids is not None and all(t.id is not None for t in a.tokens) for a in answers)


def keys(answer: Completion, ids: bool) -> tuple[int | str, ...]:
    """The answer as a sequence of tokens: their ids, else their texts, else the whole text as one."""
    if ids and answer.token_ids is not None:
        return answer.token_ids
    return tuple(t.text for t in answer.tokens) or (answer.text,)


def first_difference(pair: Pair) -> tuple[int | None, int]:
    """(place of the first token that differs or None, tokens compared)."""
    ids = by_id([pair])
    mine, other = keys(pair.first, ids), keys(pair.second, ids)
    for place, (a, b) in enumerate(zip(mine, other, strict=False)):
        if a != b:
            return place, place + 1
    shorter = min(len(mine), len(other))
    return (None if len(mine) == len(other) else shorter), shorter
