"""The evidence against the law as it grew, token by token, of the checks that bet on samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes

from draftproof.auditing.outcome import Outcome, Report
from draftproof.checks.sampling import arms, collecting
from draftproof.checks.sampling.assessment import Assessment
from draftproof.checks.sampling.laws import LawBook, known_model
from draftproof.checks.sampling.streams import Stream
from draftproof.core.errors import UsageError
from draftproof.core.verdict import Table
from draftproof.report.plots.figure import SERIES, Plot, draw
from draftproof.stats.sequential import EProcess

STEPS = 60


@dataclass(frozen=True, slots=True)
class Curve:
    """Log e-value (nats) after so many tokens."""

    name: str
    tokens: tuple[int, ...]
    log_e: tuple[float, ...]


def plots(report: Report) -> Iterator[Plot]:
    for outcome in report.outcomes:
        curves = [curve for curve in running(outcome.evidence) if curve.tokens[-1] > 0]
        if curves and outcome.terms.alpha > 0:
            yield _plot(outcome, curves)


def running(evidence: object) -> tuple[Curve, ...]:
    """The curves of token 1 and of all later ones, in the order of the answers; () for evidence without samples."""
    try:
        match evidence:
            case collecting.Evidence():
                known = known_model(evidence.known) if evidence.known else None
                book = LawBook(known, evidence.rows, evidence.vocabulary, evidence.noise)
                return _replayed(Assessment(book, evidence.coupling), evidence.streams)
            case arms.Evidence() if evidence.on is not None:
                book = LawBook(None, evidence.rows, evidence.vocabulary, evidence.noise)
                return _replayed(Assessment(book, ""), [evidence.on])
            case _:
                return ()
    except UsageError:  # the folder of the known model is gone
        return ()


def _replayed(assessment: Assessment, streams: Sequence[Stream]) -> tuple[Curve, ...]:
    if not any(s.samples for s in streams):
        return ()
    seen: list[tuple[int, float, int, float]] = []
    for step in range(1, STEPS + 1):
        assessment.observe([_start(s, math.ceil(len(s.samples) * step / STEPS)) for s in streams])
        seen.append((*_state(assessment.later), *_state(assessment.first)))
    later_n, later, first_n, first = zip(*seen, strict=True)
    return Curve("later tokens", later_n, later), Curve("token 1", first_n, first)


def _start(stream: Stream, n: int) -> Stream:
    return replace(stream, samples=stream.samples[:n], seeds=stream.seeds[:n])


def _state(process: EProcess) -> tuple[int, float]:
    return process.tokens, process.log_e


def _plot(outcome: Outcome, curves: Sequence[Curve]) -> Plot:
    threshold = math.log(2 / outcome.terms.alpha)
    name = "evidence-" + outcome.check.replace("/", "-").replace("_", "-")

    def paint(panels: list[Axes]) -> None:
        (axes,) = panels
        for curve, colour, dashes in zip(curves, SERIES, ("-", "--"), strict=False):
            axes.plot([0, *curve.tokens], [0.0, *curve.log_e], dashes, color=colour, linewidth=1.4, label=curve.name)
        axes.axhline(threshold, color=SERIES[2], linewidth=1, linestyle=":", label="rejected from here on")
        if max(max(c.log_e) for c in curves) > 20 * threshold:
            axes.set_yscale("symlog", linthresh=threshold)
        axes.set(xlabel="tokens", ylabel="log e-value (nats)")
        axes.legend(loc="best")
        axes.grid(visible=True)

    told = [
        f"{c.name}: {c.log_e[-1]:.1f} nats after {c.tokens[-1]} tokens, {max(0.0, *c.log_e):.1f} at its highest"
        for c in curves
    ]
    return Plot(
        name,
        outcome.check,
        "Evidence against the law as it grew",
        f"An e-value that reaches {2 / outcome.terms.alpha:.1e} ({threshold:.1f} nats) rejects the law, at whatever moment; on a "
        "sound server that happens with probability at most half of this check's share of alpha. Losing bets pull the curve "
        "down. Token 1 is never drafted: it is the control. The order here is that of the answers; the verdict's may differ.",
        f"{'. '.join(told)}. The threshold is {threshold:.1f} nats.",
        draw(name, paint, height=2.9),
        Table(
            "Log e-value (nats)",
            ("tokens", "after", "log e-value"),
            tuple((c.name, n, e) for c in curves for n, e in list(zip(c.tokens, c.log_e, strict=True))[4::5]),
        ),
    )
