from __future__ import annotations

from dataclasses import replace

import pytest
from tests.report.reports import judged, made

from draftproof.core.verdict import Table
from draftproof.report.plots.frequencies import MOST_CELLS, REST, plots, read


def test_law_that_is_kept_lies_in_every_interval() -> None:
    (plot,) = plots(judged(("sampling/distribution", "the law, by counts")))
    assert "every expected share lies in its interval" in plot.alt


def test_law_that_is_not_kept_is_named() -> None:
    (plot,) = plots(judged(("sampling/distribution", "the target's top after token 1")))
    assert "outside their interval: token 1" in plot.alt


def test_groups_are_those_of_the_columns_before_the_token() -> None:
    rows = (("a", "x", 3, 0.3, 0.25), ("a", "y", 7, 0.7, 0.75), ("b", "x", 1, 1.0, 1.0))
    panels = read(Table("t", ("token 1", "token 2", "count", "frequency", "law"), rows))
    assert [(p.title, p.names, [i.count for i in p.observed]) for p in panels] == [
        ("token 1 a", ("y", "x"), [7, 3]),
        ("token 1 b", ("x",), [1]),
    ]


def test_many_tokens_are_taken_together() -> None:
    rows = tuple((f"t{n}", 1, 0.01) for n in range(100))
    (cells,) = read(Table("t", ("token", "count", "law"), rows))
    assert len(cells.names) == MOST_CELLS + 1
    assert (cells.names[-1], cells.observed[-1].count) == (REST, 100 - MOST_CELLS)
    assert sum(cells.law) == pytest.approx(1)


@pytest.mark.parametrize("rows", [(("a", None, 0.5),), (("a", 3, None),), (("a", 3, "?"),)])
def test_table_with_gaps_is_not_drawn(rows: tuple[tuple[str | int | float | None, ...], ...]) -> None:
    assert read(Table("t", ("token", "count", "law"), rows)) == []


def test_other_tables_are_not_drawn() -> None:
    report = made()
    faulty = report.outcomes[1]
    other = replace(faulty, judgement=replace(faulty.judgement, tables=(Table("t", ("a", "count"), (("x", 1),)),)))
    assert list(plots(replace(report, outcomes=(other,)))) == []
    assert len(list(plots(report))) == 1
