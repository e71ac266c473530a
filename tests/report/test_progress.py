from __future__ import annotations

import io
import re

import pytest
from tests.fakes import FACTS

from draftproof.auditing.events import CheckFinished, CheckStarted, Event, FactsGathered, PlanMade, Progressed
from draftproof.auditing.outcome import Outcome
from draftproof.auditing.plan import Plan, Planned
from draftproof.checks.check import Terms
from draftproof.core.verdict import Judgement, Verdict
from draftproof.report.progress import ProgressReporter

EVENTS: list[Event] = [
    PlanMade(Plan((Planned("a/b", "", 4, 0.0), Planned("a/c", "", 6, 0.0)))),
    CheckStarted("a/b", 4),
    Progressed("a/b", 0.5),
    Progressed("a/b", 2.5),
    Progressed("a/b", 2.6),
    CheckFinished(Outcome("a/b", Judgement(Verdict.PASS, ""), Terms())),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(file: io.StringIO, events: list[Event]) -> str:
    progress = ProgressReporter(file)
    for event in events:
        progress(event)
    progress.close()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())


@pytest.fixture(autouse=True)
def colourful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")


def test_long_audit_shows_how_far_it_is() -> None:
    out = drawn(Terminal(), EVENTS)
    assert "a/b" in out
    assert "/10" in out
    assert "left" in out


def test_short_audit_shows_nothing() -> None:
    assert drawn(Terminal(), EVENTS[:3]) == ""


def test_nothing_is_drawn_where_there_is_no_terminal() -> None:
    assert drawn(io.StringIO(), EVENTS) == ""


def test_bar_is_gone_before_anything_else_is_written() -> None:
    file = Terminal()
    progress = ProgressReporter(file)
    for event in (Progressed("", 2.5), FactsGathered(FACTS)):
        progress(event)
    assert "reading what the server says" in file.getvalue()
    # the last thing drawn is the cursor shown again on an erased line
    assert re.search(r"\x1b\[\?25h.*\x1b\[2K$", file.getvalue(), re.DOTALL)
    before = file.getvalue()
    progress.close()
    assert file.getvalue() == before
