"""The samples of `sampling/distribution`: which prompts and samplers, and answers turned into token numbers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from draftproof.checks import common
from draftproof.checks.drafting import Drafting, Reports, drafting, effective, together
from draftproof.checks.prompts import is_small, ordinary, repeating
from draftproof.core.ask import Ask, Completion, Prompt, Scalar
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import Sampling

STORY_TOP_K = 3
SHORT, LONG = 6, common.SAMPLE_TOKENS
"""Tokens per answer. Fewer than six leave few positions with a draft: llama-server stops drafting near the limit."""
UNDRAFTED, DRAFTED = 2, (3, 4)
"""Tokens per answer where only token 2 counts: without speculation, and with it, if the server drafts near its limit."""
TRIAL = 8
"""Answers that must all have drafts, so that shorter ones will do."""

MOST_CONDITIONS = 5
UNSEEDED = -1
ALONE = 8
"""Answers of several in one request that are asked for again, each by itself, where the request counted no drafts."""

Samples = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """One prompt with one sampler; `share` of all samples, at most `most` of them (None: no limit). `extra` as of `Ask`."""

    prompt: Prompt
    sampling: Sampling
    tokens: int
    share: float
    most: int | None = None
    extra: tuple[tuple[str, Scalar], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """Answers under one condition: `samples[i]` are the token numbers that seed `seeds[i]` gave (`UNSEEDED`: none was sent).

    A token number is its id, or where the prompt is text, its place in `names`. `effective`: what the answers said of their
    speculation (`drafting.effective`). `batches`: how many samples there were after each batch (() = not told: all are one).
    """

    prompt: Prompt
    sampling: Sampling
    seeds: tuple[int, ...]
    samples: Samples
    drafted: int = 0
    accepted: int = 0
    names: tuple[str, ...] = ()
    effective: bool | None = None
    batches: tuple[int, ...] = ()


def conditions(probe: Probe) -> list[Condition]:
    """The first one is short and cut to few tokens: it gives the bound. The others are where faults show.

    Several contexts, one temperature that is not 1, one vocabulary that is cut, one prompt that wakes n-gram drafters. A server
    that adapts its drafts to what pays does so under the last but one; under the others it is told to draft always.
    """
    always = probe.facts.drafting
    long_most = {Effort.QUICK: 256, Effort.STANDARD: 512, Effort.DEEP: 1024}[probe.effort]
    if is_small(probe):
        first, second, third = ordinary(probe, 3)
        return [
            Condition(first, Sampling(top_k=STORY_TOP_K), SHORT, 0.40, extra=always),
            Condition(first, Sampling(), LONG, 0.20, long_most, always),
            Condition(second, Sampling(temperature=0.7), LONG, 0.10, long_most, always),
            Condition(third, Sampling(), LONG, 0.10, long_most),
            Condition(repeating(probe), Sampling(), LONG, 0.20, long_most, always),
        ]
    cut = Sampling(top_k=max(1, min(probe.facts.max_alternatives, 20) - 1))
    few = Sampling(top_k=min(cut.top_k, STORY_TOP_K))
    warm = Sampling(temperature=0.7, top_k=cut.top_k)
    first, second = ordinary(probe, 2)
    return [
        Condition(first, few, SHORT, 0.40, extra=always),
        Condition(second, cut, SHORT, 0.20, long_most, always),
        Condition(first, warm, SHORT, 0.10, long_most),
        Condition(repeating(probe), cut, LONG, 0.30, long_most, always),
    ]


@dataclass
class Collector:
    """Asks for more samples of one condition and keeps what came. `answer_s`: seconds that a whole answer took, at last."""

    condition: Condition
    seeds: list[int] = field(default_factory=list)
    samples: list[tuple[int, ...]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    drafted: int = 0
    accepted: int = 0
    said: set[bool | None] = field(default_factory=set)
    asked: int = 0
    batches: list[int] = field(default_factory=list)
    took_s: float = 0.0
    answer_s: float = 0.0
    shortened_to: int = 0

    @property
    def room(self) -> int:
        """How many further answers the condition allows."""
        return sys.maxsize if self.condition.most is None else self.condition.most - self.asked

    def more(self, probe: Probe, n: int, *, seeded: bool = True) -> None:
        """n further answers, fewer where the condition has a limit."""
        n = min(n, self.room)
        if n <= 0:
            return
        began = time.monotonic()
        done, self.asked = self.asked, self.asked + n
        uncounted: list[Ask] = []
        for answer in self._answers(probe, done, n) if seeded else probe.ask_many([self._ask(probe, n)]):
            if answer.ok:
                self.said.add(effective([answer]))
                self.seeds.append(UNSEEDED if answer.ask.seed is None else answer.ask.seed)
                self.samples.append(tuple(self._numbers(answer)))
                self.drafted += answer.drafted or 0
                self.accepted += answer.accepted or 0
                if answer.drafted is None and answer.ask.seed is not None and len(uncounted) < ALONE:
                    uncounted.append(answer.ask)
        took_s = time.monotonic() - began
        self.took_s += took_s
        if not self.shortened_to:
            self.answer_s = took_s / n
        if not done and probe.facts.batch_seeds > 1:
            self._count_alone(probe, uncounted)

    def _count_alone(self, probe: Probe, asks: Sequence[Ask]) -> None:
        """The drafts of some answers, asked for again each by itself: there are servers that count none of several in one."""
        for ask in asks:
            answer = probe.ask(ask)
            if answer.drafted is None:
                return
            self.drafted += answer.drafted
            self.accepted += answer.accepted or 0

    def _answers(self, probe: Probe, done: int, n: int) -> Iterable[Completion]:
        """Those of a condition with a limit are shared with other checks; of one without, too many may come to keep them."""
        condition = self.condition
        if condition.most is None:
            return probe.ask_many([replace(self._ask(probe, n), seed=probe.seeds(n)[0])])
        ask = replace(common.sample(probe), prompt=condition.prompt, sampling=condition.sampling)
        return probe.stream(replace(ask, max_tokens=condition.tokens, extra=condition.extra), done + n)[done:]

    @property
    def token_s(self) -> float:
        """Seconds that a token of these answers took, several answers being in flight."""
        return self.took_s / max(1, sum(map(len, self.samples)))

    def shortest(self, probe: Probe, state: Drafting) -> Shortest:
        """As `streams.shortest`; where no trial was made, an answer takes as long as so many tokens did."""
        found = shortest(probe, self._ask(probe, 1), state)
        return found if found.answer_s else replace(found, answer_s=found.tokens * self.token_s)

    def shorten(self, tokens: int) -> None:
        """Answers have so many tokens from here on. For a condition without a limit."""
        self.condition, self.shortened_to = replace(self.condition, tokens=tokens), tokens

    def _ask(self, probe: Probe, n: int) -> Ask:
        condition = self.condition
        need_entries = 0 if probe.facts.token_ids and isinstance(condition.prompt, tuple) else 1
        return Ask(condition.prompt, condition.tokens, need_entries, condition.sampling, count=n, extra=condition.extra)

    def _numbers(self, answer: Completion) -> Iterator[int]:
        if answer.token_ids is not None and isinstance(answer.ask.prompt, tuple):
            yield from answer.token_ids
            return
        for token in answer.tokens:
            if token.text not in self.names:
                self.names.append(token.text)
            yield self.names.index(token.text)

    def end_batch(self) -> None:
        """What comes from here on is another batch, for every condition."""
        self.batches.append(len(self.samples))

    def stream(self) -> Stream:
        return Stream(
            self.condition.prompt,
            self.condition.sampling,
            tuple(self.seeds),
            tuple(self.samples),
            self.drafted,
            self.accepted,
            tuple(self.names),
            together(self.said),
            tuple(self.batches),
        )


def batch_ends(streams: Sequence[Stream]) -> Iterator[tuple[int, ...]]:
    """After each batch how many samples each stream had; all samples at the last."""
    for n in range(max((len(s.batches) for s in streams), default=0)):
        yield tuple(s.batches[n] if n < len(s.batches) else len(s.samples) for s in streams)
    yield tuple(len(s.samples) for s in streams)


@dataclass(frozen=True, slots=True)
class Shortest:
    """How many tokens an answer must have, and how many seconds one takes, several being in flight (0: not tried)."""

    tokens: int
    answer_s: float = 0.0


def shortest(probe: Probe, ask: Ask, state: Drafting) -> Shortest:
    """How short an answer to `ask` may be, so that token 2 comes in it as it does now.

    state: what the answers so far show. Where the server drafts, a trial of `TRIAL` answers, which are thrown away, must
    have drafts in each; as many tokens as now where no trial shows it.
    """
    if state in (Drafting.OFF, Drafting.DECLINED):
        return Shortest(min(UNDRAFTED, ask.max_tokens))
    for tokens in DRAFTED:
        trial = replace(ask, max_tokens=tokens, count=TRIAL, seed=probe.seeds(TRIAL)[0])
        began = time.monotonic()
        answers = list(probe.ask_many([trial]))
        if answers and all(a.ok and a.drafted for a in answers):
            return Shortest(min(tokens, ask.max_tokens), (time.monotonic() - began) / len(answers))
    return Shortest(ask.max_tokens)


def drafting_in(reports: Reports, streams: Sequence[Stream]) -> Drafting:
    """What these answers show of drafting (`checks.drafting.drafting`)."""
    if any(s.drafted for s in streams):
        return Drafting.SEEN
    return drafting(reports, (), together(s.effective for s in streams if s.samples))


def context(stream: Stream, prefix: tuple[int, ...]) -> Prompt:
    """The context after some tokens of an answer, as the server takes it."""
    if isinstance(stream.prompt, tuple):
        return stream.prompt + prefix
    return stream.prompt + "".join(stream.names[i] for i in prefix)
