"""Rounds of a light audit within a budget of requests, and what changed from one to the next."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from draftproof.auditing import AuditConfig, Report, audit
from draftproof.auditing.outcome import Outcome
from draftproof.core.errors import DraftproofError, TargetError
from draftproof.core.verdict import Verdict
from draftproof.stats.forever import accumulated, alpha_at
from draftproof.watch.state import Round, Standing, State

LIGHT = (
    "logprobs/placeholder",
    "logprobs/rescored",
    "sampling/greedy_parity",
    "sampling/distribution",
    "randomness/seeds",
    "self_report/speculation_reported",
)
"""What one round asks, where the caller does not choose."""

REACHABLE, GATHERED = "reachable", "sampling over all rounds"
"""What is watched besides the checks: whether the server answers, and the evidence that no single round would show."""

_DECISIVE = {Verdict.PASS, Verdict.FAIL}
_LOG_E = "log e-value"

RunAudit = Callable[[AuditConfig], Report]


@dataclass(frozen=True, slots=True)
class Change:
    """A verdict that is another than before. It changed after `last_good` ("" = never seen good) and before `at`, in UTC."""

    name: str
    before: Verdict | None
    after: Verdict
    at: str
    last_good: str
    summary: str
    evidence: str = ""

    @property
    def alert(self) -> bool:
        return self.after is Verdict.FAIL


@dataclass(frozen=True, slots=True)
class Ended:
    """One round as it ended: its cost, what changed, what holds now. `trouble`: why there was no audit ("" = there was)."""

    made: Round
    changes: tuple[Change, ...]
    standing: dict[str, Standing]
    log_wealth: float
    trouble: str = ""


class Watch:
    """Audits one server in rounds. Half of the configuration's alpha is spread over the rounds, each of which has less of it than
    the one before; the other half is for the evidence that gathers over all of them. So the watch may go on for ever.
    """

    def __init__(self, config: AuditConfig, state: State, *, folder: Path = Path(), run: RunAudit = audit) -> None:
        self.config, self.state, self.folder, self._run = config, state, folder, run

    def round(self) -> Ended:
        """One audit, remembered. The evidence is kept where a verdict changed for the worse."""
        number, at = self.state.rounds + 1, datetime.now(UTC).isoformat(timespec="seconds")
        evidence = self._fresh(number)
        alpha = alpha_at(number, self.config.alpha / 2)
        config = replace(self.config, checks=self.config.checks or LIGHT, alpha=alpha, seed=None, out=evidence)
        began, trouble, requests, verdict = time.monotonic(), "", 0, Verdict.INCONCLUSIVE
        outcomes: tuple[Outcome, ...] = ()
        wealth = self.state.log_wealth
        found: list[tuple[str, Verdict, str, tuple[str, ...]]]
        try:
            report = self._run(config)
            outcomes, requests, verdict = report.outcomes, report.requests, report.verdict
            found = [(REACHABLE, Verdict.PASS, "the server answers", ())]
        except DraftproofError as error:
            trouble = f"{error.message} {error.remedy}".strip()
            gone = isinstance(error, TargetError)  # anything else is our own trouble, such as another audit at work
            found = [(REACHABLE, Verdict.FAIL, trouble, ("NO_ANSWER",))] if gone else []
        found += [(o.check, o.judgement.verdict, o.judgement.summary, o.judgement.codes) for o in outcomes]
        log_e = _log_e(outcomes)
        if log_e is not None:
            wealth = accumulated(wealth, log_e, number)
            refuted = wealth >= -math.log(self.config.alpha / 2)
            told = f"evidence against the target's law over {number} rounds: exp({wealth:.1f}) to 1"
            found.append((GATHERED, Verdict.FAIL if refuted else Verdict.PASS, told, ("BIASED",) if refuted else ()))
        standing, changes = self._compared(found, at)
        keep = any(c.alert for c in changes) and evidence.exists()
        if not keep:
            evidence.unlink(missing_ok=True)
        kept = str(evidence) if keep else ""
        changes = tuple(replace(c, evidence=kept) for c in changes)
        made = Round(number, at, verdict, requests, time.monotonic() - began, alpha, kept)
        self.state.add(made, standing, wealth)
        return Ended(made, changes, standing, wealth, trouble)

    def _fresh(self, number: int) -> Path:
        """A name that no other watch takes, and no file has: a round that was killed may have left one."""
        stem = f"draftproof-watch-{self.state.id}-{number:06}"
        names = chain([stem], (f"{stem}-{again}" for again in count(2)))
        return next(path for name in names if not (path := self.folder / f"{name}.jsonl.gz").exists())

    def _compared(
        self, found: list[tuple[str, Verdict, str, tuple[str, ...]]], at: str
    ) -> tuple[dict[str, Standing], tuple[Change, ...]]:
        """Only a pass or a fault changes what stands: what was left undecided says nothing new."""
        standing, changes = self.state.standing(), []
        for name, verdict, summary, codes in found:
            if verdict not in _DECISIVE:
                continue
            before = standing.get(name)
            last_good = before.last_good if before else ""
            if before is None or before.verdict is not verdict:
                if before is not None or verdict is Verdict.FAIL:
                    changes.append(Change(name, before.verdict if before else None, verdict, at, last_good, summary))
                before = Standing(name, verdict, at, last_good, codes)
            standing[name] = replace(before, codes=codes, last_good=at if verdict is Verdict.PASS else last_good)
        return standing, tuple(changes)


def _log_e(outcomes: tuple[Outcome, ...]) -> float | None:
    values = (o.judgement.measured.get(_LOG_E) for o in outcomes if o.check == "sampling/distribution")
    value = next(values, None)
    return float(value) if isinstance(value, int | float) else None


def paced(watch: Watch, per_hour: float, stop: threading.Event) -> Iterator[Ended]:
    """Rounds until `stop`, each followed by as long a rest as its requests are worth at `per_hour`. By a clock that cannot jump."""
    while not stop.is_set():
        began = time.monotonic()
        ended = watch.round()
        yield ended
        pause = max(ended.made.requests, 1) * 3600 / per_hour - (time.monotonic() - began)
        stop.wait(max(pause, 0.0))
