"""The server under audit as the runner sees it: a probe, a place for evidence, and a count of what was spent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from draftproof.auditing.config import AuditConfig
from draftproof.client.watch import Observed
from draftproof.core.probe import Probe


class Target(Protocol):
    """One server, open for the length of an audit. `connect` sends the first request."""

    evidence_path: Path | None
    notes: tuple[str, ...]
    """What the report should tell of it."""

    @property
    def requests(self) -> int:
        """Sent so far."""
        ...

    def record(self, kind: str, data: Any) -> None:
        """Adds a record to the evidence. Raises EvidenceError when it cannot be written."""
        ...

    def connect(self, answered: Callable[[], None]) -> Probe:
        """The probe, its facts gathered; `answered` is called after every request, from any thread.

        Raises TargetError (Unreachable when nobody answers).
        """
        ...

    def observed(self) -> Observed:
        """What the answers showed of the server behind them. Raises TargetError when it no longer answers."""
        ...

    def close(self) -> None:
        """Ends the evidence; a second call does nothing. Raises EvidenceError when the rest of it cannot be written."""
        ...


class OpenTarget(Protocol):
    def __call__(self, config: AuditConfig, *, save: bool) -> AbstractContextManager[Target]:
        """The target, with an evidence file when `save`. Raises UsageError when that cannot be written."""
        ...


def kept_in(path: Path) -> str:
    """What a TargetError that ends an audit says of the evidence."""
    return f"What was exchanged is in {path}."
