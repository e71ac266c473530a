"""What happens in an audit, in order. Reporters listen to these and know nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from draftproof.auditing.config import AuditConfig
from draftproof.auditing.outcome import Outcome, Report
from draftproof.auditing.plan import Plan
from draftproof.core.facts import Facts


@dataclass(frozen=True, slots=True)
class AuditStarted:
    config: AuditConfig
    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SelfTestPassed:
    controls: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class FactsGathered:
    facts: Facts


@dataclass(frozen=True, slots=True)
class PlanMade:
    plan: Plan


@dataclass(frozen=True, slots=True)
class CheckStarted:
    check: str
    requests: int
    """Estimated."""


@dataclass(frozen=True, slots=True)
class Progressed:
    """One more request was answered, for `check` ("" while facts are gathered). May come from any thread."""

    check: str
    elapsed_s: float
    """Since the audit began."""


@dataclass(frozen=True, slots=True)
class CheckFinished:
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class AuditFinished:
    report: Report


Event: TypeAlias = (
    AuditStarted | SelfTestPassed | FactsGathered | PlanMade | CheckStarted | Progressed | CheckFinished | AuditFinished
)
Listener: TypeAlias = Callable[[Event], None]
