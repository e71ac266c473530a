from __future__ import annotations

import io
import re
import time

import pytest
from tests.fakes import FACTS

from draftproof.auditing.events import (
    CheckFinished,
    CheckStarted,
    Event,
    FactsGathered,
    PlanMade,
    Progressed,
    SelfTestPassed,
)
from draftproof.auditing.outcome import Outcome
from draftproof.auditing.plan import Plan, Planned
from draftproof.core.terms import Terms
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
    assert "3 requests" in out


def test_the_time_that_is_left_goes_by_the_pace_of_the_audit() -> None:
    plan = PlanMade(Plan((Planned("a/b", "", 100, 0.0), Planned("a/c", "", 400, 0.0))))
    out = drawn(Terminal(), [Progressed("", 1.0), plan, *(Progressed("a/b", 3 + n) for n in range(1, 41))])
    assert "41 requests, about 8 min left" in out  # 460 are left, at a second each
    assert "5 requests," not in out


def test_what_is_done_before_the_first_request_is_said_where_it_takes_long() -> None:
    file = Terminal()
    progress = ProgressReporter(file, 0.01)
    progress.expect("judging controls")
    deadline = time.monotonic() + 5
    while "judging controls" not in file.getvalue() and time.monotonic() < deadline:
        time.sleep(0.01)
    progress(SelfTestPassed(3, 0.1))
    assert "judging controls" in file.getvalue()
    quick = Terminal()
    soon = ProgressReporter(quick, 60)
    soon.expect("judging controls")
    soon.close()
    assert quick.getvalue() == ""


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
