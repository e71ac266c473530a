"""Reported logprobs against the true ones, token by token; of a comparison, the second server's against the first one's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from draftproof.auditing.outcome import Outcome, Report
from draftproof.checks.logprobs import rescored
from draftproof.checks.same import logprobs as same
from draftproof.core.verdict import Table
from draftproof.report.plots.figure import FAINT, SERIES, Plot, draw

DECIMALS = 2
MOST_ROWS = 40


@dataclass(frozen=True, slots=True)
class Point:
    """One token: `x` the value to hold it against, `y` the reported one, in nats. `first`: it is its answer's first token."""

    x: float
    y: float
    first: bool


def plots(report: Report) -> Iterator[Plot]:
    for outcome in report.outcomes:
        if isinstance(outcome.evidence, rescored.Evidence):
            yield from _of_check(outcome, rescored_points(outcome.evidence), "true logprob", "reported logprob")
        elif isinstance(outcome.evidence, same.Evidence):
            yield from _of_check(outcome, same_points(outcome.evidence), "first server's logprob", "second server's")


def rescored_points(evidence: rescored.Evidence) -> list[Point]:
    """Tokens that have both values; those beyond the one-token answer's list have no true one."""
    return [
        Point(scored.true, scored.token.logprob, first=n == 0)
        for answer in (*evidence.long, *evidence.forced)
        for n, scored in enumerate(answer.tokens)
        if scored.true is not None and scored.token.logprob is not None
    ]


def same_points(evidence: same.Evidence) -> list[Point]:
    """Tokens up to the first in which two answers differ: from there on they have other contexts."""
    points = []
    for pair in evidence.pairs:
        for n, (a, b) in enumerate(zip(pair.first.tokens, pair.second.tokens, strict=False)):
            if a.text != b.text:
                break
            if a.logprob is not None and b.logprob is not None:
                points.append(Point(a.logprob, b.logprob, first=n == 0))
    return points


def _of_check(outcome: Outcome, points: Sequence[Point], of_x: str, of_y: str) -> Iterator[Plot]:
    finite = [p for p in points if math.isfinite(p.x) and math.isfinite(p.y)]
    if not finite:
        return
    # Points that would lie on each other are drawn once.
    shown = {(round(p.x, DECIMALS), round(p.y, DECIMALS), p.first) for p in finite}
    name = "logprobs-" + outcome.check.replace("/", "-").replace("_", "-")

    def paint(panels: list[Axes]) -> None:
        (axes,) = panels
        low = min(min(x, y) for x, y, _ in shown) - 0.3
        axes.plot([low, 0], [low, 0], color=FAINT, linewidth=1, label="equal")
        for first, marker, colour, name in ((False, "o", SERIES[0], "later tokens"), (True, "D", SERIES[1], "token 1")):
            some = [(x, y) for x, y, is_first in sorted(shown) if is_first is first]
            if some:
                axes.plot(*zip(*some, strict=True), marker, color=colour, markersize=4, alpha=0.7, label=name)
        axes.set(xlabel=f"{of_x} (nats)", ylabel=f"{of_y} (nats)")
        axes.legend(loc="lower right")
        axes.grid(visible=True)

    off = [abs(p.y - p.x) for p in finite]
    far = sum(d > 0.5 for d in off)
    worst = sorted(finite, key=lambda p: -abs(p.y - p.x))[:MOST_ROWS]
    yield Plot(
        name,
        outcome.check,
        f"{of_y.capitalize()} against {of_x}",
        "One point per token. On a sound server all points lie on the line; placeholders lie along the upper edge, at 0.",
        f"{len(finite)} tokens. {far} of them lie more than 0.5 nats off the line; the largest distance is {max(off):.3g} nats.",
        draw(name, paint, height=3.4),
        Table(
            f"The {len(worst)} tokens that are farthest off",
            (f"{of_x}", f"{of_y}", "difference", "place"),
            tuple((p.x, p.y, p.y - p.x, "token 1" if p.first else "later") for p in worst),
        ),
    )
