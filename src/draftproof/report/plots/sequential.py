"""The evidence against the law as it grew, token by token, of the checks that bet on samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from draftproof.auditing.outcome import Outcome, Report
from draftproof.checks.sampling import arms, collecting
from draftproof.checks.sampling.assessment import Assessment
from draftproof.core.distribution import Law
from draftproof.core.errors import UsageError
from draftproof.core.verdict import Table
from draftproof.report.plots.figure import SERIES, Plot, draw

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
    """The curves of token 1 and of all later ones, in the order of the judge; () for evidence without samples."""
    try:
        match evidence:
            case collecting.Evidence():
                return _curves(collecting.assessed(evidence)) if any(s.samples for s in evidence.streams) else ()
            case arms.Evidence() if evidence.on is not None and evidence.on.samples:
                return _curves(arms.assessed(evidence, evidence.on))
            case _:
                return ()
    except UsageError:  # the folder of the known model is gone
        return ()


def _curves(assessment: Assessment) -> tuple[Curve, ...]:
    return _curve("later tokens", assessment.later_log_e), _curve("token 1", assessment.first_log_e)


def _curve(name: str, log_e: Sequence[Law]) -> Curve:
    """About STEPS points, the last and the highest among them."""
    every = np.concatenate([*log_e, np.zeros(0)])
    n = len(every)
    if not n:
        return Curve(name, (0,), (0.0,))
    chosen = {math.ceil(n * step / STEPS) for step in range(1, STEPS + 1)} | {int(every.argmax()) + 1}
    tokens = tuple(sorted(chosen))
    return Curve(name, tokens, tuple(float(every[i - 1]) for i in tokens))


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
        "down. Token 1 is never drafted: it is the control. This is the very process that the verdict rests on.",
        f"{'. '.join(told)}. The threshold is {threshold:.1f} nats.",
        draw(name, paint, height=2.9),
        Table(
            "Log e-value (nats)",
            ("tokens", "after", "log e-value"),
            tuple((c.name, n, e) for c in curves for n, e in list(zip(c.tokens, c.log_e, strict=True))[4::5]),
        ),
    )
