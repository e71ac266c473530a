"""How many tokens came at once: what speculation looks like from outside."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator

from matplotlib.axes import Axes

from draftproof.auditing.outcome import Report
from draftproof.checks.drafting import tokens_per_step
from draftproof.checks.self_report.speculation_observed import BURST_GAP
from draftproof.core.ask import Completion
from draftproof.core.verdict import Table
from draftproof.report.plots.answers import answers
from draftproof.report.plots.figure import SERIES, Plot, draw, label

NAME = "drafting"
MOST = 12
FEWEST_EVENTS = 8


def plots(report: Report) -> Iterator[Plot]:
    found = answers(report)
    sizes = steps(found)
    if sizes:
        yield _plot(sizes, tokens_per_step(found))


def steps(found: Iterable[Completion]) -> Counter[int]:
    """Streamed answers cut into steps, counted by their tokens.

    Events that follow one another within a fraction of the usual gap are one step: an accepted draft arrives at once.
    """
    sizes: Counter[int] = Counter()
    for answer in found:
        at = answer.arrivals
        if len(at) < FEWEST_EVENTS:
            continue
        counted = len(answer.event_tokens) == len(at) and any(answer.event_tokens)
        tokens = answer.event_tokens if counted else (1,) * len(at)
        gaps = [b - a for a, b in itertools.pairwise(at)]
        least = BURST_GAP * statistics.quantiles(gaps, n=4)[2]
        size = tokens[0]
        for gap, n in zip(gaps, tokens[1:], strict=True):
            if gap >= least and gap > 0:
                sizes[size] += 1
                size = 0
            size += n
        sizes[size] += 1
    del sizes[0]
    return sizes


def _plot(sizes: Counter[int], by_counters: float | None) -> Plot:
    shown = Counter[int]()
    for size, n in sizes.items():
        shown[min(size, MOST)] += n
    total = sum(sizes.values())
    mean = sum(size * n for size, n in sizes.items()) / total

    def paint(panels: list[Axes]) -> None:
        (axes,) = panels
        places = range(1, max(shown) + 1)
        axes.bar(places, [shown[p] for p in places], color=SERIES[0], width=0.7)
        axes.set_xticks(list(places), [label(str(p) if p < MOST else f"{p}+") for p in places])
        axes.set(xlabel="tokens that arrived at once", ylabel="steps")

    said = "" if by_counters is None else f" By the counters of the answers it is {by_counters:.2f} tokens per step."
    return Plot(
        NAME,
        "",
        "Drafting: tokens per step",
        "Streamed answers: tokens that came in one event, or right behind one another. Without speculation nearly all "
        "steps are of one token; accepted drafts come several at a time. Networks and proxies can bundle events too.",
        f"{total} steps of {mean:.2f} tokens on average; {shown[1] / total:.0%} of one token.{said}",
        draw(NAME, paint, height=2.2),
        Table("Steps by size", ("tokens", "steps"), tuple(sorted(sizes.items()))),
    )
