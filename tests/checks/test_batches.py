"""Sampling that ends when an e-value says so: the one that is reported is that one, and none grows on average.

The laws here have two letters, so that all that can come is worked through, each with its probability: nothing is sampled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import cast

import numpy as np
import pytest
from tests.fakes import FACTS, FakeProbe

from draftproof.auditing import codec
from draftproof.checks import examples as made
from draftproof.checks.sampling import arms, collecting, distribution, streams, unchanged
from draftproof.checks.sampling.assessment import Assessment, assess
from draftproof.checks.sampling.laws import LawBook, PrefixRow
from draftproof.checks.sampling.streams import UNSEEDED, Samples, Stream
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.probe import Effort, OracleRow, Probe
from draftproof.core.sampling import NEUTRAL
from draftproof.core.terms import Terms
from draftproof.core.tokens import Alternative, TokenRecord
from draftproof.core.verdict import Judgement, Verdict
from draftproof.report.plots.sequential import running

P = 0.7
FIRST = {(): P, (0,): 0.9, (1,): 0.5, (0, 0): 0.2, (0, 1): 0.6}
"""How likely the first letter is after some contexts; P after all others."""
SURE = (0,)
"""Token 1 of every answer where it does not matter, so that there are fewer of them."""


def row(prefix: tuple[int, ...]) -> OracleRow:
    p = FIRST.get(prefix, P)
    return OracleRow((0, 1), ("a", "b"), (math.log(p), math.log(1 - p)), 2, complete=True)


ROW = row(())


def stream(samples: Sequence[tuple[int, ...]], *batches: int) -> Stream:
    return Stream(made.PROMPT, NEUTRAL, (UNSEEDED,) * len(samples), tuple(samples), batches=batches)


def answers(n: int, tokens: int) -> Iterator[tuple[Samples, float]]:
    """All that n answers of so many tokens after the first can be, with their probability."""
    for letters in itertools.product((0, 1), repeat=n * tokens):
        each = tuple(SURE + letters[i * tokens : (i + 1) * tokens] for i in range(n))
        yield each, math.exp(sum(row(s[:i]).logprobs[s[i]] for s in each for i in range(1, tokens + 1)))


def rows(n_streams: int = 1, depth: int = 3) -> list[PrefixRow]:
    prefixes = [p for d in range(depth) for p in itertools.product((0, 1), repeat=d)]
    return [PrefixRow(n, prefix, row(prefix)) for n in range(n_streams) for prefix in prefixes]


def e_value(some: Sequence[Stream], known: Sequence[PrefixRow]) -> float:
    return math.exp(assess(None, some, known, 2, 0.0).later.log_e)


def test_whatever_a_batch_showed_the_next_one_adds_nothing_on_average() -> None:
    """So that ending or going on because of what was seen gains nothing. In one batch, position by position, it does."""
    gained = []
    for first, _ in answers(1, 2):
        before = e_value([stream(first, 1)], rows())
        after = sum(p * e_value([stream(first + second, 1, 2)], rows()) for second, p in answers(1, 2))
        assert after == pytest.approx(before, rel=1e-9)
        as_one = sum(p * e_value([stream(first + second)], rows()) for second, p in answers(1, 2))
        gained.append(as_one - before)
    assert max(gained) > 1e-4, "what the order by position over all batches would let a rule for stopping gain"


@dataclass
class Few(FakeProbe):
    """An oracle with the law of every context."""

    def oracle_many(
        self, contexts: Sequence[Prompt], alternatives: int | None = None, *, by_server: bool = False
    ) -> list[OracleRow]:
        return [row(c[len(made.PROMPT) :]) for c in contexts if isinstance(c, tuple)]


def test_which_contexts_get_a_law_gains_nothing_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer in one stream and two in another, and one law for three contexts: the most visited, whichever stream it is in."""
    monkeypatch.setattr(collecting, "ORACLE_ROWS", {Effort.QUICK: 5})
    probe = cast("Probe", Few(lambda: None, replace(FACTS, countable="countable-2")))
    total, deepest = 0.0, set()
    for drawn, p in answers(3, 2):
        both = [stream(drawn[:1], 1), stream(drawn[1:], 2)]
        chosen = collecting._oracle_rows(probe, both, ())
        deepest |= {(r.stream, r.prefix) for r in chosen if len(r.prefix) == 2}
        total += p * e_value(both, chosen)
    assert {n for n, _ in deepest} == {0, 1}, "the tokens of one stream decide about the other's"
    assert total == pytest.approx(1.0, abs=1e-9)


def test_a_law_that_came_later_judges_no_token_that_came_before() -> None:
    late = [r if len(r.prefix) < 2 else replace(r, batch=1) for r in rows()]
    drawn = ((0, 1, 0), (0, 0, 1), (0, 1, 1))
    for told, tokens in ((stream(drawn, 2, 3), 2 + 2), (stream(drawn), 6)):
        found = assess(None, [told], late, 2, 0.0)
        assert (found.later.tokens, found.first.tokens) == (tokens, 3)
    both = [stream(drawn, 2, 3), stream(drawn)]
    twice = [*late, *(replace(r, stream=1) for r in late)]
    assert assess(None, both, twice, 2, 0.0).later.tokens == 4 + 3, "a stream that tells no batches came with the first"


def test_batch_by_batch_is_what_observing_as_they_come_is() -> None:
    drawn = ((0, 1, 0), (0, 0, 1), (0, 1, 1), (0, 0, 0), (0, 1, 1))
    first, second = rows(depth=2), [replace(r, batch=1) for r in rows(depth=3) if len(r.prefix) == 2]
    grown = Assessment(LawBook(None, (), 2, 0.0), "")
    grown.observe([stream(drawn[:2])], rows=first)
    grown.observe([stream(drawn)], rows=second)
    found = assess(None, [stream(drawn, 2, 5)], first + second, 2, 0.0)
    assert (found.later.log_e, found.later.max_log_e) == (grown.later.log_e, grown.later.max_log_e)
    assert found.counts == grown.counts
    whole = assess(None, [stream(drawn)], first + second, 2, 0.0)
    assert found.later.log_e != whole.later.log_e


def test_the_e_values_on_the_way_are_kept() -> None:
    drawn = tuple(itertools.product((0, 1), repeat=3))
    found = assess(None, [stream(drawn, 3, 8)], rows(), 2, 0.0)
    way = np.concatenate(found.later_log_e)
    assert len(way) == found.later.tokens == 16
    assert (way[-1], max(0.0, way.max())) == (found.later.log_e, found.later.max_log_e)
    assert len(np.concatenate(found.first_log_e)) == found.first.tokens == 8


def test_samples_after_the_last_batch_that_was_told_are_judged_too() -> None:
    assert assess(None, [stream(((0, 1),) * 5, 2, 4)], rows(), 2, 0.0).later.tokens == 5


# --- from the first request to the verdict


@dataclass
class Server(FakeProbe):
    """Draws each token from the same law by a generator of its own; `bias` more often the first letter where it drafts.

    Its answers draft as many tokens as they have beyond `no_drafts_within`.
    """

    bias: float = 0.0
    no_drafts_within: int = 2
    asked: int = 0

    def oracle_many(
        self, contexts: Sequence[Prompt], alternatives: int | None = None, *, by_server: bool = False
    ) -> list[OracleRow]:
        return [ROW for _ in contexts]

    def noise(self, contexts: Sequence[Prompt], batches: tuple[int, ...] = ()) -> float:
        return 1e-9

    def tokenize(self, text: str) -> tuple[int, ...] | None:
        return tuple(ord(c) % 2 for c in text)

    def once(self, asks: Sequence[Ask]) -> list[Completion]:
        return [self._answer(a) for a in asks]

    def stream(self, ask: Ask, n: int) -> list[Completion]:
        return [self._answer(replace(ask, seed=i)) for i in range(n)]

    def ask(self, ask: Ask) -> Completion:
        return self._answer(ask)

    def ask_many(self, asks: Iterable[Ask]) -> Iterator[Completion]:
        for ask in asks:
            for n in range(ask.count):
                yield self._answer(replace(ask, count=1, seed=None if ask.seed is None else ask.seed + n))

    def _answer(self, ask: Ask) -> Completion:
        self.asked += 1
        on = ("speculative", False) not in ask.extra
        later = P + self.bias if on else P
        u = np.random.default_rng(self.asked).random(ask.max_tokens) * (ask.sampling.temperature > 0)
        ids = tuple(int(x >= (later if i else P)) for i, x in enumerate(u))
        told = tuple(Alternative(i, "ab"[i], ROW.logprobs[i]) for i in range(2))
        tokens = tuple(TokenRecord(i, "ab"[i], None, ROW.logprobs[i], told) for i in ids)
        drafted = max(0, ask.max_tokens - self.no_drafts_within) if on else 0
        return Completion(
            ask, 1, "/completion", 200, "".join("ab"[i] for i in ids), tokens, token_ids=ids, drafted=drafted
        )


def server(bias: float = 0.0, effort: Effort = Effort.QUICK, no_drafts_within: int = 2) -> Server:
    facts = replace(FACTS, countable="", vocabulary=2, max_alternatives=2, coupling="")
    return Server(lambda: None, facts, effort, bias=bias, no_drafts_within=no_drafts_within)


def watched(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Assessment]:
    """Those that are made while samples are collected."""
    seen: list[Assessment] = []

    class Watched(Assessment):
        def __post_init__(self) -> None:
            super().__post_init__()
            seen.append(self)

    monkeypatch.setattr(module, "Assessment", Watched)
    return seen


@pytest.mark.parametrize("bias", [0.0, 0.06])
def test_the_judge_and_the_picture_have_the_e_value_that_sampling_ended_at(
    bias: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watched(collecting, monkeypatch)
    monkeypatch.setattr(streams, "LONG", 7)
    monkeypatch.setattr(collecting, "ORACLE_ROWS", {Effort.QUICK: 300})
    monkeypatch.setattr(collecting, "BY_COUNTS", 128)
    monkeypatch.setattr(collecting, "MOST_SAMPLES", {Effort.QUICK: 256})
    evidence = collecting.collect(server(bias))
    (live,) = seen
    assert len(evidence.streams[0].batches) > 1
    assert {r.batch for r in evidence.rows} > {0}, "laws came with later batches too"
    judged = collecting.assessed(codec.from_json(collecting.Evidence, codec.to_json(evidence)))
    for now, then in ((judged.later, live.later), (judged.first, live.first)):
        assert (now.tokens, now.log_e, now.max_log_e) == (then.tokens, then.log_e, then.max_log_e)
    later, _ = running(evidence)
    assert (later.log_e[-1], max(0.0, *later.log_e)) == (live.later.log_e, live.later.max_log_e)


@pytest.mark.parametrize("bias", [0.0, 0.06])
def test_so_it_is_with_speculation_and_without(bias: float, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watched(arms, monkeypatch)
    monkeypatch.setattr(arms, "working", lambda _probe: ("speculative", False))
    evidence = arms.collect(server(bias))
    (live,) = seen
    assert evidence.on is not None
    assert evidence.off is not None
    assert len(evidence.on.batches) == len(evidence.off.batches) > 1
    judged = arms.assessed(evidence, evidence.on)
    assert (judged.later.tokens, judged.later.max_log_e) == (live.later.tokens, live.later.max_log_e)
    assert judged.bound([evidence.on], 0.01) == live.bound([evidence.on], 0.01)


# --- what the judge wants is what sampling goes on for

STRICT = Terms(alpha=1e-60, target_tv=0.2, pass_error=1e-12)
"""An audit that goes on from others has half of their error probabilities, and --alpha may be anything."""


def drawn_and_judged(probe: Server, terms: Terms) -> Iterator[Judgement]:
    probe.begin("sampling/distribution", terms)
    yield distribution.judge(collecting.collect(probe), terms)
    probe.begin("sampling/unchanged", terms)
    yield unchanged.judge(arms.collect(probe), terms)


@pytest.mark.parametrize(("bias", "verdict"), [(0.0, Verdict.PASS), (0.2, Verdict.FAIL)])
@pytest.mark.parametrize("terms", [STRICT, replace(STRICT, pass_error=1e-3)])
def test_sampling_ends_when_the_judge_can_decide(
    bias: float, verdict: Verdict, terms: Terms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn by counts alone, always by the same numbers: a sound server stays open with a probability of at most 2 %."""
    monkeypatch.setattr(streams, "LONG", 7)
    monkeypatch.setattr(arms, "working", lambda _probe: ("speculative", False))
    for judgement in drawn_and_judged(server(bias), terms):
        assert judgement.verdict is verdict, judgement.summary


# --- shorter answers where only counts decide


def lengths(samples: Samples) -> list[int]:
    return sorted({len(s) for s in samples})


@pytest.mark.parametrize(
    ("effort", "no_drafts_within", "later"),
    [
        (Effort.STANDARD, 2, 3),
        (Effort.STANDARD, 3, 4),
        (Effort.STANDARD, 4, 6),
        (Effort.QUICK, 2, 6),
    ],
)
def test_after_many_answers_the_first_condition_has_as_few_tokens_as_still_draft(
    effort: Effort, no_drafts_within: int, later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a quick audit it has six all along."""
    monkeypatch.setattr(streams, "LONG", 7)
    monkeypatch.setattr(collecting, "MOST_LONG", 128)
    monkeypatch.setattr(collecting, "BY_COUNTS", 128)
    monkeypatch.setattr(collecting, "MOST_SAMPLES", dict.fromkeys(Effort, 256))
    monkeypatch.setattr(collecting, "ORACLE_ROWS", dict.fromkeys(Effort, 40))
    evidence = collecting.collect(server(effort=effort, no_drafts_within=no_drafts_within))
    first, *others = evidence.streams
    long = first.batches[1]
    assert lengths(first.samples[:long]) == [6]
    assert lengths(first.samples[long:]) == [later]
    assert {max(lengths(s.samples)) for s in others} == {7}
    assert evidence.shortened_to == (0 if effort is Effort.QUICK else later)
    judged = collecting.assessed(evidence)
    assert sum(sum(c.values()) for c in judged.counts[0].values()) == len(first.samples), "token 2 of each counts"
    told = distribution.judge(evidence, Terms()).measured
    assert told.get("tokens per answer where only counts decide", 0) == evidence.shortened_to


@pytest.mark.parametrize(("effort", "later"), [(Effort.STANDARD, 3), (Effort.QUICK, 6)])
def test_and_so_have_the_answers_with_speculation(effort: Effort, later: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "MOST_LONG", 128)
    monkeypatch.setattr(arms, "ENOUGH", dict.fromkeys(Effort, 200))
    monkeypatch.setattr(arms, "MOST_SAMPLES", dict.fromkeys(Effort, 200))
    monkeypatch.setattr(arms, "working", lambda _probe: ("speculative", False))
    probe = server(effort=effort)
    probe.begin("sampling/unchanged", Terms(target_tv=0.01))
    evidence = arms.collect(probe)
    assert evidence.on is not None
    assert evidence.off is not None
    assert lengths(evidence.on.samples[:128]) == [6]
    assert lengths(evidence.on.samples[128:]) == [later]
    assert lengths(evidence.off.samples) == [6]
    assert evidence.shortened_to == (0 if effort is Effort.QUICK else later)
    told = unchanged.judge(evidence, Terms()).measured
    assert told.get("tokens per answer where only counts decide", 0) == evidence.shortened_to
