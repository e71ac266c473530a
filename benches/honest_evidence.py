"""Evidence of servers that have no fault, for every check that decides by chance: what `benches.calibration` judges.

Texts are drawn exactly (`countable.simulate`): from the countable pair with its exact laws, drafted three at a time and verified by
rejection sampling or not drafted at all, and from small fixed laws that a one-token oracle would tell. In the noisy kinds the
server draws from laws that differ from the told ones by the noise that the evidence states.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from draftproof.checks import examples as made
from draftproof.checks.check import AnyCheck
from draftproof.checks.randomness import seeds
from draftproof.checks.same import law as same_law
from draftproof.checks.sampling import distribution, temperature, unchanged
from draftproof.checks.sampling.arms import Evidence as Both
from draftproof.checks.sampling.collecting import Evidence as Sampled
from draftproof.checks.sampling.laws import PrefixRow
from draftproof.checks.sampling.streams import UNSEEDED, Stream
from draftproof.core.ask import Completion
from draftproof.core.distribution import Law
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.verdict import Verdict
from draftproof.countable import story
from draftproof.countable.catalogue import builtin
from draftproof.countable.law import next_laws
from draftproof.countable.simulate import Server, Tokens, simulate
from draftproof.stats.faults import SOUND, Rule

_RULES = {rule.name: rule for rule in SOUND}
PROMPT = story.ids(story.PROMPT)
CUT, HOT = Sampling(top_k=3), Sampling(temperature=2.0)
NOISE = 0.02
POOL = 40_000
"""Answers that are simulated at once."""
SHORT, WIDE, WARM = (CUT, 5), (NEUTRAL, 2), (HOT, 3)
"""Samplers and tokens per answer."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to be honest. `evidence` is of a fresh, independent audit each time."""

    name: str
    check: AnyCheck
    evidence: Callable[[np.random.Generator], Any]


class _Quick(Server):
    """A server that works out each context once."""

    def target(self, contexts: Sequence[tuple[int, ...]]) -> Law:
        return _laws(self.sampling, False, contexts)

    def draft(self, contexts: Sequence[tuple[int, ...]]) -> Law:
        return _laws(self.draft_sampling, True, contexts)


_KNOWN: dict[tuple[Sampling, bool, tuple[int, ...]], Law] = {}


def _laws(sampling: Sampling, draft: bool, contexts: Sequence[tuple[int, ...]]) -> Law:
    pair = builtin()
    new = [c for c in dict.fromkeys(contexts) if (sampling, draft, c) not in _KNOWN]
    if new:
        laws = next_laws(pair.draft_many if draft else pair.target_many, new, sampling)
        _KNOWN.update(zip(((sampling, draft, c) for c in new), laws, strict=True))
    return np.array([_KNOWN[sampling, draft, c] for c in contexts])


class Answers:
    """Endless independent answers of the countable pair, drafted and verified by `rule`, or without a draft (None)."""

    def __init__(self, rule: Rule | None, how: tuple[Sampling, int], rng: np.random.Generator) -> None:
        self._rng, self._how = rng, how
        drafting = replace(how[0], top_k=0)
        self._server = _Quick(
            builtin(), PROMPT, rule or _RULES["rejection"], sampling=how[0], draft_sampling=drafting, share=1.0
        )
        self._plain = rule is None
        self._left: Iterator[tuple[int, ...]] = iter(())

    def take(self, n: int) -> tuple[tuple[int, ...], ...]:
        got = list(itertools.islice(self._left, n))
        while len(got) < n:
            made_now = self._drawn() if self._plain else simulate(self._server, POOL, self._how[1], self._rng)
            self._left = iter(list(map(tuple, made_now.tolist())))
            got += itertools.islice(self._left, n - len(got))
        return tuple(got)

    def _drawn(self) -> Tokens:
        contexts = [PROMPT] * POOL
        for _ in range(self._how[1]):
            contexts = [
                (*c, x) for c, x in zip(contexts, _draw(self._server.target(contexts), self._rng).tolist(), strict=True)
            ]
        return np.array(contexts)[:, len(PROMPT) :]


@cache
def _answers(rule: str, how: tuple[Sampling, int], rng: np.random.Generator) -> Answers:
    return Answers(_RULES[rule] if rule else None, how, rng)


def _draw(laws: Law, rng: np.random.Generator) -> Tokens:
    """int64[n]: one token per row."""
    x: Tokens = (np.cumsum(laws, axis=1) <= rng.random(len(laws))[:, None] * laws.sum(axis=1, keepdims=True)).sum(1)
    return x.clip(max=laws.shape[1] - 1)


def _stream(samples: Sequence[tuple[int, ...]], sampling: Sampling, drafts: bool) -> Stream:
    drafted = 2 * len(samples) if drafts else 0
    return Stream(PROMPT, sampling, (UNSEEDED,) * len(samples), tuple(samples), drafted, drafted // 3)


def _reports(rule: str) -> tuple[tuple[str, Any], ...]:
    return made.LIVE_ON if rule else made.LIVE_OFF


def _tree(law: Sequence[float], depth: int, rng: np.random.Generator, noise: float) -> dict[tuple[int, ...], Law]:
    """What the server draws from after each prefix: the told law, off by `noise` nats (RMS) in each place of its own."""
    prefixes = (p for d in range(depth) for p in itertools.product(range(len(law)), repeat=d))
    tree = {p: np.asarray(law) * np.exp(noise * rng.standard_normal(len(law))) for p in prefixes}
    return {p: x / x.sum() for p, x in tree.items()}


def _walk(tree: dict[tuple[int, ...], Law], n: int, tokens: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    prefixes: list[tuple[int, ...]] = [()] * n
    for _ in range(tokens):
        drawn = _draw(np.array([tree[p] for p in prefixes]), rng).tolist()
        prefixes = [(*p, x) for p, x in zip(prefixes, drawn, strict=True)]
    return prefixes


@cache
def _rows(law: tuple[float, ...], listed: int, depth: int) -> tuple[PrefixRow, ...]:
    """The oracle's rows, of the `listed` likeliest tokens, after each prefix."""
    whole = listed == len(law)
    row = OracleRow(
        tuple(range(listed)),
        tuple(made.letter(i) for i in range(listed)),
        tuple(math.log(x) for x in law[:listed]),
        2,
        complete=whole,
    )
    return tuple(
        PrefixRow(0, prefix, row) for d in range(depth) for prefix in itertools.product(range(len(law)), repeat=d)
    )


def _sampled(rule: str) -> Callable[[np.random.Generator], Sampled]:
    def evidence(rng: np.random.Generator) -> Sampled:
        streams = tuple(
            _stream(_answers(rule, how, rng).take(n), how[0], bool(rule)) for how, n in ((SHORT, 40), (WIDE, 24))
        )
        return Sampled(_reports(rule), 1e-6, 8, "", "countable-8", streams)

    return evidence


def _told(listed: int, noise: float) -> Callable[[np.random.Generator], Sampled]:
    def evidence(rng: np.random.Generator) -> Sampled:
        samples = _walk(_tree(made.LAW, 3, rng, noise), 64, 3, rng)
        stream = _stream(samples, NEUTRAL, True)
        return Sampled(made.LIVE_ON, max(noise, 1e-6), 5, "", "", (stream,), _rows(made.LAW, listed, 3))

    return evidence


def _hot(rule: str) -> Callable[[np.random.Generator], temperature.Evidence]:
    def evidence(rng: np.random.Generator) -> temperature.Evidence:
        stream = _stream(_answers(rule, WARM, rng).take(48), HOT, bool(rule))
        return temperature.Evidence(_reports(rule), 1e-6, "countable-8", (stream,))

    return evidence


def _hot_told(noise: float) -> Callable[[np.random.Generator], temperature.Evidence]:
    def evidence(rng: np.random.Generator) -> temperature.Evidence:
        told = tuple(math.sqrt(x) for x in made.LAW)
        tree = _tree([x / sum(told) for x in told], 3, rng, noise / HOT.temperature)
        stream = _stream(_walk(tree, 64, 3, rng), HOT, True)
        return temperature.Evidence(made.LIVE_ON, max(noise, 1e-6), "", (stream,), _rows(made.LAW, 5, 3))

    return evidence


def _both_conditions(noise: float) -> Callable[[np.random.Generator], Both]:
    def evidence(rng: np.random.Generator) -> Both:
        on, off = (
            _stream(_walk(_tree(made.LAW, 2, rng, noise), n, 2, rng), NEUTRAL, drafts)
            for n, drafts in ((96, True), (24, False))
        )
        rows = _rows(made.LAW, 5, 2)
        sound: Both = _sound(unchanged.CHECK)
        return replace(sound, noise=max(noise, 1e-6), vocabulary=5, on=on, off=off, rows=rows)

    return evidence


def _sound(check: AnyCheck) -> Any:
    return next(e.evidence for e in check.examples if e.verdict is Verdict.PASS)


def _seeded(law: ArrayLike, told: int, n: int, tokens: int) -> Callable[[np.random.Generator], seeds.Evidence]:
    """Token by token the same law, of which the oracle tells the `told` likeliest."""
    p = np.asarray(law, dtype=np.float64)

    def answers(count: int, rng: np.random.Generator) -> tuple[Completion, ...]:
        drawn = _draw(np.tile(p, (count * tokens, 1)), rng).reshape(count, tokens).tolist()
        return tuple(_completion(tuple(ids)) for ids in drawn)

    def evidence(rng: np.random.Generator) -> seeds.Evidence:
        seeded, unseeded = answers(n, rng), answers(max(4, n // 6), rng)
        chances = [float(p[list(some[0].token_ids or ())].prod()) for some in (seeded, unseeded)]
        listed = tuple((i, float(x)) for i, x in enumerate(p[:told]))
        sound: seeds.Evidence = _sound(seeds.CHECK)
        return replace(
            sound,
            seeded=seeded,
            unseeded=unseeded,
            law=listed,
            chance=chances[0],
            unseeded_chance=chances[1],
        )

    return evidence


@cache
def _completion(ids: tuple[int, ...]) -> Completion:
    return made.answer((), n=0, ids=ids, drafted=2, accepted=1)


def _two_servers(first: str, second: str) -> Callable[[np.random.Generator], same_law.Evidence]:
    def evidence(rng: np.random.Generator) -> same_law.Evidence:
        return same_law.Evidence(
            tuple(
                tuple(
                    same_law.Sampled(*(_answers(rule, how, rng).take(n) for rule in (first, second)))
                    for how, n in ((SHORT, size), (WIDE, size // 3), (WARM, size // 3))
                )
                for size in (24, 48)
            )
        )

    return evidence


_ZIPF = np.array([1 / (i + 2.7) for i in range(60)])
_ZIPF /= _ZIPF.sum()
_SPIKE = (0.8, 0.1, 0.06, 0.04)

KINDS: tuple[Kind, ...] = (
    Kind("countable pair, no draft", distribution.CHECK, _sampled("")),
    Kind("countable pair, rejection", distribution.CHECK, _sampled("rejection")),
    Kind("told law", distribution.CHECK, _told(5, 0.0)),
    Kind("told law, two tokens and the rest", distribution.CHECK, _told(2, 0.0)),
    Kind(f"told law, noise {NOISE:g}", distribution.CHECK, _told(5, NOISE)),
    Kind("countable pair, no draft", temperature.CHECK, _hot("")),
    Kind("countable pair, rejection", temperature.CHECK, _hot("rejection")),
    Kind("told law", temperature.CHECK, _hot_told(0.0)),
    Kind(f"told law, noise {NOISE:g}", temperature.CHECK, _hot_told(NOISE)),
    Kind("one law", unchanged.CHECK, _both_conditions(0.0)),
    Kind(f"one law, noise {NOISE:g}", unchanged.CHECK, _both_conditions(NOISE)),
    Kind("five tokens, 24 seeds", seeds.CHECK, _seeded(made.LAW, 5, 24, 3)),
    Kind("sixty tokens, 20 told, 24 seeds", seeds.CHECK, _seeded(_ZIPF, 20, 24, 3)),
    Kind("sixty tokens, 20 told, 64 seeds", seeds.CHECK, _seeded(_ZIPF, 20, 64, 3)),
    Kind("sixty tokens, 20 told, 200 seeds", seeds.CHECK, _seeded(_ZIPF, 20, 200, 3)),
    Kind("one likely answer, 24 seeds", seeds.CHECK, _seeded(_SPIKE, 4, 24, 2)),
    Kind("no draft, no draft", same_law.CHECK, _two_servers("", "")),
    Kind("rejection, no draft", same_law.CHECK, _two_servers("rejection", "")),
)
