"""Does a token that is reported with probability p come with frequency p?"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from draftproof.auditing.outcome import Report
from draftproof.core.ask import Completion
from draftproof.core.sampling import NEUTRAL
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Table
from draftproof.report.plots.answers import answers
from draftproof.report.plots.figure import FAINT, INK, Plot, draw
from draftproof.stats.intervals import Interval, clopper_pearson

EDGES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 1.0)
ERROR = 1e-3
"""Error probability of all intervals together."""
FEWEST = 5
"""A point of fewer trials says nothing."""
NAME = "calibration"


@dataclass(frozen=True, slots=True)
class Bin:
    """Tokens reported with a probability in this bin: their mean, and how often they came."""

    reported: float
    came: Interval


@dataclass(frozen=True, slots=True)
class Calibration:
    """`positions` were looked at in `n_answers` answers; of `bare` further ones no alternatives were reported."""

    bins: tuple[Bin, ...]
    positions: int
    bare: int
    n_answers: int


def plots(report: Report) -> Iterator[Plot]:
    read = calibration(answers(report))
    if read.bins:
        yield _plot(read)


def calibration(found: Iterable[Completion]) -> Calibration:
    """From answers at temperature 1 without further samplers.

    Which token is looked at is settled before it is drawn: of each list, in each bin, the most likely entry. (The sampled
    token's own value is no such choice: a placeholder of 1.0 always comes.) Answers to one seed share their random
    numbers: the one that was asked for the most tokens counts.
    """
    trials: dict[int, list[tuple[float, bool]]] = {}
    positions = bare = 0
    chosen = _independent(found)
    for answer in chosen:
        for token in answer.tokens:
            listed = _listed(token, answer.ask.alternatives)
            if listed is None:
                bare += 1
                continue
            positions += 1
            for number, trial in listed.items():
                trials.setdefault(number, []).append(trial)
    enough = [some for _, some in sorted(trials.items()) if len(some) >= FEWEST]
    bins = tuple(_bin(some, ERROR / len(enough)) for some in enough)
    return Calibration(bins, positions, bare, len(chosen))


def _independent(found: Iterable[Completion]) -> list[Completion]:
    by_seed: dict[int, Completion] = {}
    unseeded = []
    for answer in found:
        ask = answer.ask
        if ask.sampling != NEUTRAL or ask.grammar or ask.post_sampling or not ask.alternatives or ask.stop:
            continue
        if ask.seed is None and ask.count == 1:  # of several draws in one request, equal ones cannot be told apart
            unseeded.append(answer)
        elif ask.seed is not None:
            other = by_seed.get(ask.seed)
            by_seed[ask.seed] = answer if other is None or other.ask.max_tokens < ask.max_tokens else other
    return [*by_seed.values(), *unseeded]


def _listed(token: TokenRecord, asked: int) -> dict[int, tuple[float, bool]] | None:
    """By bin the most likely alternative's probability, and whether it came; None where there is no list."""
    listed = [(a.logprob, a) for a in token.alternatives or () if a.logprob is not None and math.isfinite(a.logprob)]
    if not listed:
        return None
    # A server may append the sampled token to the list that was asked for.
    ordered = sorted(listed, key=lambda pair: -pair[0])[:asked]
    out: dict[int, tuple[float, bool]] = {}
    for logprob, entry in ordered:
        p = math.exp(min(logprob, 0.0))
        same = entry.id == token.id if entry.id is not None and token.id is not None else entry.text == token.text
        out.setdefault(min(bisect_right(EDGES, p), len(EDGES) - 1), (p, same))
    return out


def _bin(trials: Sequence[tuple[float, bool]], error: float) -> Bin:
    n = len(trials)
    return Bin(math.fsum(p for p, _ in trials) / n, clopper_pearson(sum(came for _, came in trials), n, error))


def _plot(read: Calibration) -> Plot:
    def paint(panels: list[Axes]) -> None:
        (axes,) = panels
        axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1, label="equal")
        x = [b.reported for b in read.bins]
        y = [b.came.count / b.came.n for b in read.bins]
        ends = [
            [v - b.came.low for v, b in zip(y, read.bins, strict=True)],
            [b.came.high - v for v, b in zip(y, read.bins, strict=True)],
        ]
        axes.errorbar(x, y, yerr=ends, fmt="o", color=INK, markersize=4, capsize=3, label="came")
        axes.set(xlabel="reported probability", ylabel="frequency", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        axes.legend(loc="lower right")
        axes.grid(visible=True)

    off = [b for b in read.bins if not b.came.low <= b.reported <= b.came.high]
    told = f"{len(off)} of {len(read.bins)} points are off the line by more than their interval"
    bare = f" {read.bare} further tokens came without alternatives: nothing can be said of those." if read.bare else ""
    return Plot(
        NAME,
        "",
        "Calibration: reported probability against frequency",
        f"{read.positions} tokens of {read.n_answers} answers at temperature 1. Each point: entries of the lists of "
        "alternatives that were reported with about this probability, and how often they were the token that came, with "
        f"Clopper-Pearson intervals for all points together (Bonferroni, {1 - ERROR:.1%}; as if the number of tokens behind a "
        "point were fixed). On a sound server the line passes through them.",
        f"{told}.{bare}",
        draw(NAME, paint, height=3.4),
        Table(
            "Calibration",
            ("reported, mean", "frequency", "low", "high", "n"),
            tuple((b.reported, b.came.count / b.came.n, b.came.low, b.came.high, b.came.n) for b in read.bins),
        ),
    )
