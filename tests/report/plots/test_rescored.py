from __future__ import annotations

from dataclasses import replace

from tests.report.reports import judged

from draftproof.report.plots.figure import Plot
from draftproof.report.plots.rescored import plots, rescored_points


def of(control: str) -> Plot:
    (plot,) = plots(judged(("logprobs/rescored", control)))
    return plot


def test_placeholders_lie_off_the_line_and_are_told() -> None:
    plot = of("placeholders")
    assert plot.check == "logprobs/rescored"
    assert plot.alt.startswith("24 tokens. ")
    assert "0 of them" not in plot.alt
    true, reported, difference, _ = plot.numbers.rows[0]
    assert isinstance(true, float)
    assert (reported, difference) == (0.0, -true)


def test_true_values_lie_on_the_line() -> None:
    assert (
        "0 of them lie more than 0.5 nats off the line; the largest distance is 0 nats"
        in of("true under speculation").alt
    )


def test_first_tokens_are_told_apart() -> None:
    report = judged(("logprobs/rescored", "placeholders"))
    points = rescored_points(report.outcomes[0].evidence)  # type: ignore[arg-type]
    assert [p.first for p in points[:3]] == [True, False, False]


def test_nothing_is_drawn_without_values() -> None:
    assert list(plots(judged(("logprobs/rescored", "nothing came")))) == []


def test_comparison_is_drawn_up_to_the_first_difference() -> None:
    from draftproof.checks.same import logprobs as same

    control = next(e for e in same.CHECK.examples if e.evidence.pairs)
    report = judged(("same/logprobs", control.name))
    (plot,) = plots(report)
    assert plot.check == "same/logprobs"
    evidence = replace(control.evidence, pairs=())
    assert list(plots(replace(report, outcomes=(replace(report.outcomes[0], evidence=evidence),)))) == []
