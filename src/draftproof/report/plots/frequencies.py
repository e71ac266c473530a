"""How often each token came beside how often it should, for every table of counts and their law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from draftproof.auditing.outcome import Outcome, Report
from draftproof.core.verdict import Cell, Table
from draftproof.report.clean import clean
from draftproof.report.plots.figure import INK, SERIES, Plot, draw, label
from draftproof.stats.intervals import Interval, multinomial

ERROR = 1e-3
"""Error probability of all intervals of one picture together."""
MOST_CELLS, MOST_PANELS, MOST_TABLES = 12, 3, 4
LONGEST_HEADING = 24
REST = "all others"


@dataclass(frozen=True, slots=True)
class Cells:
    """Counts of the same draws: for each token its share by the law, and by what came with an interval."""

    title: str
    names: tuple[str, ...]
    law: tuple[float, ...]
    observed: tuple[Interval, ...]


def plots(report: Report) -> Iterator[Plot]:
    for outcome in report.outcomes:
        tables = [t for t in outcome.judgement.tables if {"count", "law"} <= set(t.columns)][:MOST_TABLES]
        for number, table in enumerate(tables, 1):
            if panels := read(table):
                yield _plot(outcome, number, table, panels)


def read(table: Table) -> list[Cells]:
    """One group per value of the columns before the token's; tokens beyond `MOST_CELLS` are taken together."""
    count, law = table.columns.index("count"), table.columns.index("law")
    token = min(count, law) - 1
    groups: dict[tuple[Cell, ...], list[tuple[str, int, float]]] = {}
    for row in table.rows:
        if not (isinstance(row[count], int) and isinstance(row[law], int | float)) or token < 0:
            return []
        entry = (str(row[token]), int(row[count] or 0), float(row[law] or 0))
        groups.setdefault(row[:token], []).append(entry)
    chosen = list(groups.items())[:MOST_PANELS]
    return [_cells(table.columns[:token], key, rows, ERROR / len(chosen)) for key, rows in chosen]


def _cells(columns: Sequence[str], key: Sequence[Cell], rows: Sequence[tuple[str, int, float]], error: float) -> Cells:
    ordered = sorted(rows, key=lambda row: -row[2])
    kept, rest = ordered[:MOST_CELLS], ordered[MOST_CELLS:]
    if rest:
        kept.append((REST, sum(n for _, n, _ in rest), sum(p for _, _, p in rest)))
    names, counts, law = zip(*kept, strict=True)
    title = ", ".join(
        f"{clean(column, LONGEST_HEADING)} {label(str(value))}" for column, value in zip(columns, key, strict=True)
    )
    return Cells(title, names, law, multinomial(counts, error))


def _plot(outcome: Outcome, number: int, table: Table, panels: Sequence[Cells]) -> Plot:
    name = f"frequencies-{outcome.check.replace('/', '-').replace('_', '-')}-{number}"

    def paint(drawn: list[Axes]) -> None:
        for axes, cells in zip(drawn, panels, strict=True):
            places = range(len(cells.names))
            axes.bar(places, cells.law, color=SERIES[0], alpha=0.45, width=0.7, label="expected")
            shares = [i.count / i.n if i.n else 0.0 for i in cells.observed]
            ends = [
                [s - i.low for s, i in zip(shares, cells.observed, strict=True)],
                [i.high - s for s, i in zip(shares, cells.observed, strict=True)],
            ]
            axes.errorbar(places, shares, yerr=ends, fmt="o", color=INK, markersize=3.5, capsize=3, label="observed")
            axes.set_xticks(list(places), [label(n) for n in cells.names])
            axes.set(ylabel="share", title=f"{cells.title} (n = {cells.observed[0].n})".strip(), ylim=(0, None))
        drawn[0].legend(loc="upper right")

    outside = [
        f"{cells.title}: {name}".lstrip(": ")
        for cells in panels
        for name, p, interval in zip(cells.names, cells.law, cells.observed, strict=True)
        if not interval.low <= p <= interval.high
    ]
    told = (
        "every expected share lies in its interval" if not outside else f"outside their interval: {'; '.join(outside)}"
    )
    rows = tuple(
        (cells.title, name, p, i.count / i.n if i.n else None, i.low, i.high, i.n)
        for cells in panels
        for name, p, i in zip(cells.names, cells.law, cells.observed, strict=True)
    )
    return Plot(
        name,
        outcome.check,
        f"Expected and observed: {table.title}",
        "Bars: the law. Points: what came, with Clopper-Pearson intervals that hold together (Bonferroni) with "
        f"probability {1 - ERROR:.1%}. On a sound server the bars end within them. "
        "The verdict rests on all tokens, not on these alone.",
        f"{len(rows)} shares; {told}.",
        draw(name, paint, panels=len(panels), height=2.2),
        Table("Shares", ("after", "token", "expected", "observed", "low", "high", "n"), rows),
    )
