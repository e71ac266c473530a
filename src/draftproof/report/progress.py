"""How far an audit is, on a terminal: a bar with an estimate, once it has taken two seconds."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TaskID, TextColumn

from draftproof.auditing.events import (
    AuditFinished,
    CheckFinished,
    Event,
    FactsGathered,
    PlanMade,
    Progressed,
    SelfTestPassed,
)
from draftproof.auditing.safety import duration

PATIENCE_S = 2.0
LOADING = "loading the checks, and trying each on evidence whose verdict is known"
_ENOUGH = 20
"""Requests after which their pace says how long the rest takes."""


class ProgressReporter:
    """Listens to an audit and draws on `file`; events may come from any thread. Draws nothing where there is no terminal.

    Must hear of every event before anything else writes about it to the terminal: it takes the bar away. `close` at the end.
    """

    def __init__(self, file: IO[str], patience_s: float = PATIENCE_S) -> None:
        self._console = Console(file=file, legacy_windows=False)
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._task = TaskID(0)
        self._left: dict[str, int] = {}
        self._done = 0
        self._planned_at: tuple[int, float] | None = None
        """The requests and seconds before the plan was made: they tell nothing of the pace."""
        self._waiting: threading.Timer | None = None

    def expect(self, what: str) -> None:
        """Says what is being done, if no event comes before the patience is over."""
        if self._console.is_terminal:
            self._waiting = threading.Timer(self._patience_s, self._wait, (what,))
            self._waiting.daemon = True
            self._waiting.start()

    def _wait(self, what: str) -> None:
        with self._lock:
            if self._waiting is not None:
                self._draw((SpinnerColumn(), TextColumn("{task.description}")), what)

    def __call__(self, event: Event) -> None:
        if not self._console.is_terminal:
            return
        with self._lock:
            match event:
                case PlanMade():
                    self._left = {p.check: p.requests for p in event.plan.checks}
                case Progressed():
                    self._advance(event)
                case CheckFinished():
                    self._left.pop(event.outcome.check, None)
                    self._stop()
                case SelfTestPassed() | FactsGathered() | AuditFinished():
                    self._stop()
                case _:
                    pass

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _advance(self, event: Progressed) -> None:
        self._done += 1
        if event.check in self._left:
            self._left[event.check] = max(0, self._left[event.check] - 1)
        if event.elapsed_s < self._patience_s:
            return
        phase = event.check or "reading what the server says of itself"
        left = sum(self._left.values())
        if self._planned_at is None and self._left:
            self._planned_at = (self._done, event.elapsed_s)
        if self._progress is None:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(20),
                TextColumn("{task.fields[told]}"),
            )
            self._draw(columns, phase)
        assert self._progress is not None
        told = f"{self._done:,} requests{self._left_s(left, event.elapsed_s)}"
        self._progress.update(self._task, description=phase, completed=self._done, total=self._done + left, told=told)

    def _left_s(self, left: int, elapsed_s: float) -> str:
        """About how long the rest takes, in words that do not change with every request."""
        done, before_s = self._planned_at or (self._done, elapsed_s)
        if self._done - done < _ENOUGH:
            return ""
        return f", {duration(left * (elapsed_s - before_s) / (self._done - done))} left"

    def _draw(self, columns: Sequence[ProgressColumn], phase: str) -> None:
        self._progress = Progress(*columns, console=self._console, transient=True)
        self._task = self._progress.add_task(phase, total=None, told="")
        self._progress.start()

    def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
