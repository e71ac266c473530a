"""How far an audit is, on a terminal: a bar with an estimate, once it has taken two seconds."""

from __future__ import annotations

import threading
from typing import IO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from draftproof.auditing.events import (
    AuditFinished,
    CheckFinished,
    CheckStarted,
    Event,
    FactsGathered,
    PlanMade,
    Progressed,
)

PATIENCE_S = 2.0


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
        self._check = ""

    def __call__(self, event: Event) -> None:
        if not self._console.is_terminal:
            return
        with self._lock:
            match event:
                case PlanMade():
                    self._left = {p.check: p.requests for p in event.plan.checks}
                case CheckStarted():
                    self._check = event.check
                case Progressed():
                    self._advance(event)
                case CheckFinished():
                    self._left.pop(event.outcome.check, None)
                    self._stop()
                case FactsGathered() | AuditFinished():
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
        total = self._done + sum(self._left.values())
        if self._progress is None:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("requests,"),
                TimeRemainingColumn(compact=True),
                TextColumn("left"),
            )
            self._progress = Progress(*columns, console=self._console, transient=True)
            self._task = self._progress.add_task(phase, total=total, completed=self._done)
            self._progress.start()
        self._progress.update(self._task, description=phase, completed=self._done, total=total)

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
