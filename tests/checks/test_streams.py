"""Samples of a server that counts no drafts where a request asks for several answers, and how short answers may be."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import pytest
from tests.fakes import FACTS, FakeProbe

from draftproof.checks.drafting import Drafting
from draftproof.checks.sampling.streams import ALONE, TRIAL, Collector, Condition, Shortest, shortest
from draftproof.core.ask import Ask, Completion
from draftproof.core.sampling import NEUTRAL

CONDITION = Condition("The cat", NEUTRAL, 6, 1.0)


@dataclass
class Counting(FakeProbe):
    """Each answer drafts 4 tokens, of which 3 pass; `alone`, `several`: whether answers of such requests say so."""

    alone: bool = True
    several: bool = False
    singles: list[Ask] = field(default_factory=list)

    def ask(self, ask: Ask) -> Completion:
        self.singles.append(ask)
        return self._answer(ask, told=self.alone)

    def ask_many(self, asks: Iterable[Ask]) -> Iterator[Completion]:
        for ask in asks:
            for n in range(ask.count):
                yield self._answer(replace(ask, count=1, seed=(ask.seed or 0) + n), told=self.several)

    def _answer(self, ask: Ask, *, told: bool) -> Completion:
        return Completion(ask, 1, "/v1/completions", 200, drafted=4 if told else None, accepted=3 if told else None)


def collected(probe: Counting, *batches: int) -> Collector:
    collector = Collector(CONDITION)
    for n in batches:
        collector.more(probe, n)
    return collector


@pytest.fixture
def probe() -> Counting:
    return Counting(lambda: None, replace(FACTS, batch_seeds=8))


def test_some_answers_are_asked_for_again_each_by_itself_and_only_their_drafts_count(probe: Counting) -> None:
    collector = collected(probe, 16, 16)
    assert [ask.seed for ask in probe.singles] == list(range(ALONE))
    assert {ask.count for ask in probe.singles} == {1}
    assert (collector.drafted, collector.accepted) == (4 * ALONE, 3 * ALONE)
    assert len(collector.samples) == 32


def test_a_server_that_never_counts_is_asked_once(probe: Counting) -> None:
    collector = collected(replace(probe, alone=False), 16)
    assert collector.drafted == 0
    assert len(probe.singles) == 1


def test_nobody_is_asked_again_who_counts_or_has_no_such_requests(probe: Counting) -> None:
    assert collected(replace(probe, several=True), 16).drafted == 4 * 16
    assert collected(replace(probe, facts=FACTS), 16).drafted == 0
    assert probe.singles == []


@pytest.mark.parametrize(
    ("state", "tokens"),
    [
        (Drafting.OFF, 2),
        (Drafting.DECLINED, 2),
        (Drafting.UNKNOWN, 6),
        (Drafting.SILENT, 6),
        (Drafting.SEEN, 6),
    ],
)
def test_a_server_that_counts_no_drafts_gives_whole_answers_unless_it_does_not_speculate(
    probe: Counting, state: Drafting, tokens: int
) -> None:
    assert shortest(probe, Ask("The cat", 6), state) == Shortest(tokens), "no trial tells how long one takes"
    assert shortest(probe, Ask("The cat", 1), state) == Shortest(1), "never more than now"


def test_an_answer_that_was_shortened_does_not_tell_how_long_a_whole_one_takes(
    probe: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr("draftproof.checks.sampling.streams.time.monotonic", lambda: float(next(seconds)))
    collector = collected(replace(probe, several=True), 16)
    assert collector.answer_s == 1 / 16
    collector.shorten(3)
    collector.more(replace(probe, several=True), 32)
    assert collector.answer_s == 1 / 16


def test_how_long_a_short_answer_takes_is_seen_in_the_trial_else_by_its_tokens(
    probe: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr("draftproof.checks.sampling.streams.time.monotonic", lambda: float(next(seconds)))
    counting = replace(probe, several=True)
    assert collected(counting, 16).shortest(counting, Drafting.SEEN) == Shortest(3, 1 / TRIAL)
    collector = Collector(CONDITION, samples=[(1, 2)] * 10, took_s=40.0)
    assert collector.shortest(counting, Drafting.OFF) == Shortest(2, 4.0)


def test_each_answer_of_a_trial_must_have_drafts(probe: Counting) -> None:
    class Sometimes(Counting):
        def _answer(self, ask: Ask, *, told: bool) -> Completion:
            answer = super()._answer(ask, told=told)
            return replace(answer, drafted=0) if ask.max_tokens == 3 and ask.seed == TRIAL - 1 else answer

    counting = replace(probe, several=True)
    assert shortest(counting, Ask("The cat", 6), Drafting.SEEN).tokens == 3
    sometimes = Sometimes(lambda: None, probe.facts, several=True)
    assert shortest(sometimes, Ask("The cat", 6), Drafting.SEEN).tokens == 4
