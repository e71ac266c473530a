"""Pictures of an audit, one family per module. One line here adds a family."""

from __future__ import annotations

from draftproof.auditing.outcome import Report
from draftproof.report.plots import calibration, drafting, frequencies, rescored, sequential
from draftproof.report.plots.figure import Plot

FAMILIES = (rescored.plots, frequencies.plots, sequential.plots, calibration.plots, drafting.plots)
"""Each gives the pictures that a report has the evidence for."""


def plots(report: Report) -> list[Plot]:
    """All pictures of a report, in the order of the families."""
    return [plot for family in FAMILIES for plot in family(report)]
