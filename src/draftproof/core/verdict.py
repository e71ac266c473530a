"""What a check may say, and how several sayings become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


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
    """One thing seen.

    `code` is from a closed list (PLACEHOLDER, MISSING, SHIFTED ...), `exchanges` are evidence numbers.
    """

    code: str
    text: str
    exchanges: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """What was bounded or rejected, from how many, by which method, and how often such a statement is wrong."""

    text: str
    n: int
    method: str
    error_probability: float
    values: Mapping[str, float] = field(default_factory=dict)


Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers to show a person side by side. Every row has as many cells as there are `columns`; None is an empty cell.

    Raises ValueError when a row has another length.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.title!r}: {len(row)} cells under {len(self.columns)} columns: {row!r}")


@dataclass(frozen=True, slots=True)
class Judgement:
    """A check's answer: the verdict, one sentence for a person, and all that it rests on."""

    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...] = ()
    statements: tuple[Statement, ...] = ()
    measured: Mapping[str, float | int | str | None] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    missing: str = ""
    """For an inconclusive verdict: what it would need to decide (samples, a capability, drafting)."""
    more: int = 0
    """About how many samples more that is, where it is samples."""
    more_s: float = 0.0
    """About how many seconds these take, where that was measured."""
    caution: str = ""
    """For a pass: what its claim does not promise, in words that follow "passed"."""

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(f.code for f in self.findings))
