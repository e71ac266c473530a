"""What an audit found, as data: one outcome per check, and the report over all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from pathlib import Path

from draftproof.auditing.config import AuditConfig, Expectation
from draftproof.auditing.limits import Limit
from draftproof.auditing.plan import Plan
from draftproof.core.facts import Facts
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Table, Verdict, merge

SOUND, FAULT, USAGE, UNCERTAIN, UNREACHABLE, INSTRUMENT, INTERRUPTED = 0, 1, 2, 3, 4, 70, 130

EXIT_CODES: Mapping[int, str] = {
    SOUND: "sound: every claim that was checked holds",
    FAULT: "a fault was found",
    USAGE: "wrong usage: nothing was asked of the server; or an entry of the baseline is not found any more",
    UNCERTAIN: "inconclusive, or nothing was checked",
    UNREACHABLE: "the server cannot be reached",
    INSTRUMENT: "draftproof failed its own test, or broke",
    INTERRUPTED: "interrupted (Ctrl-C); what was found so far is reported",
}

_COMPARED = {SOUND: "the same: no difference in what was compared", FAULT: "they differ"}
"""What these codes mean after a comparison."""

NOT_RUN = "not run: "
"""How the summary of a check begins that was not run because the audit had ended; the reason follows."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One check's judgement with what it rests on. `evidence` is None when collecting it did not come to an end."""

    check: str
    judgement: Judgement
    terms: Terms
    evidence: object = None
    requests: int = 0
    elapsed_s: float = 0.0

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict

    @property
    def not_run(self) -> str:
        """Why it was not run; "" for a check that was."""
        summary = self.judgement.summary
        return summary.removeprefix(NOT_RUN) if summary.startswith(NOT_RUN) else ""

    @property
    def more_s(self) -> float | None:
        """About how many seconds `Judgement.more` further samples take: as measured, else at the pace of those that came."""
        if self.judgement.more_s:
            return self.judgement.more_s
        came = self.judgement.measured.get("samples")
        if not self.judgement.more or not isinstance(came, int) or not came or not self.requests:
            return None
        return self.judgement.more * self.elapsed_s / came


@dataclass(frozen=True, slots=True)
class Accepted:
    """A finding that is known and does not fail an audit, up to the day `expires` (None: for as long as it is listed)."""

    check: str
    code: str
    reason: str = ""
    expires: date | None = None

    @property
    def name(self) -> str:
        return f"{self.check} {self.code}"


class Answer(StrEnum):
    """May this be relied on?"""

    YES = "yes"
    NO = "NO"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Safety:
    """One row of "safe to use?": what, the answer, and the checks or the gap that it rests on.

    `touched` says that at least one check that ran speaks to this row. `names` are the checks of `reason`, `said` what they did.
    """

    what: str
    answer: Answer
    reason: str
    touched: bool = True
    names: tuple[str, ...] = ()
    said: str = ""

    def brief(self, room: int) -> str:
        """The reason in at most `room` characters if one name fits: passes are counted, other checks named as far as they fit."""
        if not self.names:
            return self.reason
        counted = f"{len(self.names)} {'check' if len(self.names) == 1 else 'checks'} {self.said}"
        if self.answer is Answer.YES:
            return counted
        for shown in range(len(self.names), 0, -1):
            more = len(self.names) - shown
            text = ", ".join(self.names[:shown]) + (f", +{more} more" if more else "") + f" {self.said}"
            if len(text) <= room:
                return text
        return counted


@dataclass(frozen=True, slots=True)
class Report:
    """The whole of an audit. `stopped` says why it ended before its plan did ("" when it did not).

    `verdict` is what was found; `exit_code` what counts when the findings in `accepted` do not.
    """

    config: AuditConfig
    version: str
    started_at: str
    """UTC, ISO 8601."""
    controls: int
    facts: Facts
    plan: Plan
    outcomes: tuple[Outcome, ...]
    verdict: Verdict
    exit_code: int
    safety: tuple[Safety, ...] = ()
    remedies: tuple[str, ...] = ()
    aggregates: Table | None = None
    requests: int = 0
    elapsed_s: float = 0.0
    evidence_path: Path | None = None
    stopped: str = ""
    notes: tuple[str, ...] = field(default=())
    accepted: tuple[Accepted, ...] = ()
    """Those of the baseline that were found."""
    limits: tuple[Limit, ...] = ()
    """What the server does not offer, and what could not be seen for it."""
    continues: tuple[str, ...] = ()
    """The evidence files of the audits that this one goes on from."""

    def __getitem__(self, check: str) -> Outcome:
        """`report["logprobs/placeholder"]`. Raises KeyError for a check that was not part of this audit."""
        for outcome in self.outcomes:
            if outcome.check == check:
                return outcome
        raise KeyError(f"{check} (this audit has {', '.join(o.check for o in self.outcomes) or 'no outcomes'})")

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The checks that found a fault."""
        return tuple(o for o in self.outcomes if o.verdict is Verdict.FAIL)

    @property
    def exit_meaning(self) -> str:
        if not self.outcomes:
            return self.stopped
        if self.exit_code == SOUND and self.accepted:
            return "no fault beyond those that are accepted"
        if self.exit_code in _COMPARED and all(o.check.startswith("same/") for o in self.outcomes):
            return _COMPARED[self.exit_code]
        return EXIT_CODES[self.exit_code]

    def is_accepted(self, check: str, code: str) -> bool:
        """Whether the baseline takes this finding out of what counts."""
        return any((entry.check, entry.code) == (check, code) for entry in self.accepted)

    def counts(self, outcome: Outcome) -> bool:
        """Whether an outcome counts as it is: False where all that a baseline may accept of it is accepted."""
        codes = acceptable(outcome.judgement)
        return not (codes and all(self.is_accepted(outcome.check, code) for code in codes))


UNDECIDED = "INCONCLUSIVE"
"""The code by which a baseline accepts that a check decides nothing, for instance because of a fault that it accepts too."""


def acceptable(judgement: Judgement) -> tuple[str, ...]:
    """The codes that a baseline must accept for a judgement not to count: of all its findings where it failed."""
    if judgement.verdict is Verdict.INCONCLUSIVE:
        return (UNDECIDED,)
    return judgement.codes if judgement.verdict is Verdict.FAIL else ()


def exit_code(
    verdicts: Iterable[Verdict], *, unreachable: bool = False, interrupted: bool = False, stale: bool = False
) -> int:
    """The exit code of an audit with these verdicts. `stale`: its baseline names what is found no more.

    A fault once found stays found, whatever else went wrong; a check that broke says nothing of the server.
    """
    seen = set(verdicts)
    if interrupted:
        return INTERRUPTED
    if Verdict.FAIL in seen:
        return FAULT
    if unreachable:
        return UNREACHABLE
    if Verdict.ERROR in seen:
        return INSTRUMENT
    if stale:
        return USAGE
    return SOUND if merge(seen) is Verdict.PASS else UNCERTAIN


def contradictions(expected: Expectation, outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """What the caller said of the server, where it was seen to be otherwise. Counts as a fault: somebody is wrong about it."""
    seen = any(o.judgement.measured.get("speculation") == "on" for o in outcomes)
    if expected is Expectation.NO and seen:
        return ("You said that this server does not speculate (--expect-speculation no). It does.",)
    return ()
