"""What a check may say, and how several sayings become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """`pass < inconclusive < fail < error`; `not_applicable` is neutral."""

    NOT_APPLICABLE = "not_applicable"
    PASS = "pass"
    INCONCLUSIVE = "inconclusive"
    FAIL = "fail"
    ERROR = "error"


_SEVERITY = {Verdict.PASS: 0, Verdict.INCONCLUSIVE: 1, Verdict.FAIL: 2, Verdict.ERROR: 3}


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe verdict. Nothing but `not_applicable` (or nothing at all) is inconclusive: no check, no pass.

    Raises ValueError for a value that is no Verdict.
    """
    counted = [v for v in map(Verdict, verdicts) if v is not Verdict.NOT_APPLICABLE]
    return max(counted, key=_SEVERITY.__getitem__, default=Verdict.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing seen. `code` is from a closed list (PLACEHOLDER, MISSING, SHIFTED ...), `exchanges` are evidence numbers."""

    code: str
    text: str
    exchanges: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """One statistical statement: what was bounded or rejected, from how many, how, and how often such a statement is wrong."""

    text: str
    n: int
    method: str
    error_probability: float
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A check's answer: the verdict, one sentence for a person, and all that it rests on."""

    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...] = ()
    statements: tuple[Statement, ...] = ()
    measured: Mapping[str, float | int | str | None] = field(default_factory=dict)
    missing: str = ""
    """For an inconclusive verdict: what it would need to decide (samples, a capability, drafting)."""

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(f.code for f in self.findings))
