"""One request answered twice under different conditions: what differs, and whether numerical noise can be the reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy import stats

from draftproof.checks.contexts import after, ceiling
from draftproof.core.ask import Completion, Prompt
from draftproof.core.probe import MANY_ROWS, OracleRow, Probe
from draftproof.core.verdict import Cell

CHANCE = 1e-9
"""Differences that noise brings about with less than this probability are no noise."""

FLIPS_PER_NOISE = 10
"""A draw lands on another token with a probability of at most about noise * sqrt(N) / 2 per token, for a law of N tokens of
equal weight and logprobs that move independently by `noise` nats; 10 covers 400 such tokens (`tests/checks/test_repeats.py`)."""

FEW_FLIPS = 0.1

TIE_NOISE, FAULT_NOISE = 3, 6
TIE, FAULT = 1e-3, 0.05
SMALL_DRIFT, LARGE_DRIFT = 0.02, 0.05
SMALL_NOISE, LARGE_NOISE = 8, 20
UNMEASURED = 0.05
"""Noise in nats where prompts are texts, so that the noise of batches cannot be measured: half of what vLLM's own tests allow
as a difference of one logprob."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """`first` and `again` answer one request; `again` under `condition`. `row` is the one-token oracle's before their first
    difference, where the request was greedy and they differ.
    """

    condition: str
    first: Completion
    again: Completion
    row: OracleRow | None = None


def emitted(answer: Completion) -> tuple[int | str, ...]:
    """What an answer consists of: token ids, else the tokens' texts, else characters."""
    if answer.token_ids is not None:
        return answer.token_ids
    return tuple(t.text for t in answer.tokens) or tuple(answer.text)


def difference(first: Completion, again: Completion) -> int | None:
    """The place of the first token that differs, None when the answers are equal."""
    a, b = emitted(first), emitted(again)
    for n, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return n
    return None if len(a) == len(b) else min(len(a), len(b))


def compare(probe: Probe, condition: str, first: Completion, again: Completion) -> Repeat:
    """The two answers with what is needed to judge a difference. Asks the oracle once if they are greedy and differ."""
    place = difference(first, again) if first.ok and again.ok else None
    if place is None or not first.ask.sampling.greedy or not probe.facts.max_alternatives:
        return Repeat(condition, first, again)
    context = after(first.ask.prompt, first, place)
    return Repeat(condition, first, again, None if context is None else probe.oracle(context))


def drift(repeat: Repeat) -> float | None:
    """The largest difference in nats of the logprobs of one token under both, up to the first token that differs.

    None where neither has values to compare: a token without alternatives carries a placeholder.
    """
    values = _differences(repeat)
    return max(values, default=None)


def _differences(repeat: Repeat) -> list[float]:
    place = difference(repeat.first, repeat.again)
    pairs = list(zip(repeat.first.tokens, repeat.again.tokens, strict=False))[:place]
    return [
        abs(a.logprob - b.logprob)
        for a, b in pairs
        if a.alternatives and b.alternatives and a.logprob is not None and b.logprob is not None
    ]


def needs_noise(repeats: Iterable[Repeat]) -> bool:
    """Whether the noise of the server's laws decides about any of these."""
    return any(difference(r.first, r.again) is not None or (drift(r) or 0.0) > SMALL_DRIFT for r in repeats)


def noise_if_needed(probe: Probe, repeats: Sequence[Repeat], prompts: Sequence[Prompt]) -> float | None:
    """The measured noise in nats; None where nothing depends on it, or where there is no oracle to measure it with."""
    if not probe.facts.max_alternatives or not needs_noise(repeats):
        return None
    least = UNMEASURED if any(isinstance(prompt, str) for prompt in prompts) else 0.0
    return max(least, probe.noise(prompts, MANY_ROWS))


def more_would_tell(noise: float | None, tokens: int) -> bool:
    """Whether more answers of so many tokens can tell a fault from noise: not where noise flips a draw in every few answers."""
    return noise is not None and FLIPS_PER_NOISE * noise * tokens < FEW_FLIPS


@dataclass(frozen=True, slots=True)
class Weighed:
    """What the repeats of one condition come to.

    `faults`: those that noise does not explain. `unclear`: differences that it may explain or not. `ties`: that it explains.
    `chance`: of as many differing draws by noise alone. `drift`: the largest, None where no values could be compared.
    """

    condition: str
    n: int
    faults: tuple[Repeat, ...]
    unclear: tuple[Repeat, ...]
    ties: tuple[Repeat, ...]
    chance: float
    drift: float | None
    drift_is: str
    """"none", "small" (within noise), "unclear" or "large"."""

    @property
    def different(self) -> tuple[Repeat, ...]:
        return (*self.faults, *self.unclear, *self.ties)

    @property
    def failed(self) -> bool:
        return bool(self.faults) or self.drift_is == "large"

    @property
    def undecided(self) -> bool:
        return bool(self.unclear) or self.drift_is == "unclear"

    @property
    def row(self) -> tuple[Cell, ...]:
        """Condition, answers compared, different ones, those that noise explains, drift."""
        return self.condition, self.n, len(self.different), len(self.ties), self.drift


COLUMNS = ("condition", "compared", "different", "explained by noise", "largest drift (nat)")


def weigh(condition: str, repeats: Sequence[Repeat], noise: float | None) -> Weighed:
    """Judges all repeats of one condition. `noise` None: not measured, so that no difference is excused or called a fault."""
    mine = [r for r in repeats if r.condition == condition and r.first.ok and r.again.ok]
    different = [r for r in mine if difference(r.first, r.again) is not None]
    greedy = [r for r in different if r.first.ask.sampling.greedy]
    drawn = [r for r in different if not r.first.ask.sampling.greedy]
    judged = [(r, _greedy(r, noise)) for r in greedy]
    faults = [r for r, said in judged if said == "fault"]
    unclear = [r for r, said in judged if said == "unclear"]
    ties = [r for r, said in judged if said == "tie"]
    chance = 1.0
    if drawn:
        sampled = [r for r in mine if not r.first.ask.sampling.greedy]
        chance = flips_by_noise(len(drawn), sum(map(_compared, sampled)), noise)
        (faults if chance < CHANCE else unclear).extend(drawn)
    largest = max((d for r in mine if (d := drift(r)) is not None), default=None)
    return Weighed(
        condition,
        len(mine),
        tuple(faults),
        tuple(unclear),
        tuple(ties),
        chance,
        largest,
        _drift(largest, noise),
    )


def flips_by_noise(differing: int, tokens: int, noise: float | None) -> float:
    """An upper bound for the probability that numerical noise changes the draws of so many answers, of so many tokens in all."""
    if noise is None:
        return 1.0
    return float(stats.poisson.sf(differing - 1, FLIPS_PER_NOISE * noise * tokens))


def _compared(repeat: Repeat) -> int:
    place = difference(repeat.first, repeat.again)
    return len(emitted(repeat.first)) if place is None else place + 1


def _greedy(repeat: Repeat, noise: float | None) -> str:
    """Whether the first difference of two greedy answers is a near-tie of the oracle's law ("tie"), a "fault", or neither."""
    gap = _gap(repeat)
    if gap is None or noise is None:
        return "unclear"
    sigma = noise * math.sqrt(2)
    if gap <= max(TIE, TIE_NOISE * sigma):
        return "tie"
    return "fault" if gap > max(FAULT, FAULT_NOISE * sigma) else "unclear"


def _gap(repeat: Repeat) -> float | None:
    """How far apart the oracle has the two tokens, in nats; at least that, where one is not in its row."""
    place, row = difference(repeat.first, repeat.again), repeat.row
    if place is None or row is None:
        return None
    answers = (repeat.first, repeat.again)
    by_text = -1 in row.ids  # told by text only
    both = [tuple(t.text for t in a.tokens) if by_text else emitted(a) for a in answers]
    both = [tokens[place : place + 1] for tokens in both]
    if not all(both):
        return None
    known: dict[int | str, float] = {
        **dict(zip(row.texts, row.logprobs, strict=True)),
        **dict(zip(row.ids, row.logprobs, strict=True)),
    }
    values = [known.get(token[0], ceiling(row)) for token in both]
    return abs(values[0] - values[1])


def _drift(largest: float | None, noise: float | None) -> str:
    if largest is None:
        return "none"
    known = noise or 0.0
    if largest <= max(SMALL_DRIFT, SMALL_NOISE * known):
        return "small"
    return "large" if largest > max(LARGE_DRIFT, LARGE_NOISE * known) and noise is not None else "unclear"
