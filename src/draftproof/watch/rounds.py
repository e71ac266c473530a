"""Rounds of a light audit within a budget of requests, and what changed from one to the next."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from draftproof.auditing import AuditConfig, Report, audit
from draftproof.auditing.outcome import Outcome
from draftproof.auditing.target import kept_in
from draftproof.core.errors import Busy, EvidenceError, EvidenceLost, TargetError
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

SOONEST_S, LATEST_S = 30.0, 300.0
"""Rest after a round without an audit: it cost the server nothing, so that a budget of requests alone would let rounds
follow on one another without end. It doubles from the one to the other, as what was not over soon may take long."""

_PASSING = (TargetError, EvidenceLost, Busy)
"""What may be over by the next round. Anything else would be the same in every one."""

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
    """Audits one server in rounds. Half of the configuration's alpha is spread over the audits, each of which has less of it than
    the one before; the other half is for the evidence that gathers over all of them. So the watch may go on for ever.

    `unfinished`: where the evidence of a round that was killed half-way was moved, in place of that of an earlier such round; None
    where there was none. Raises EvidenceError where it cannot be moved.
    """

    def __init__(self, config: AuditConfig, state: State, *, folder: Path = Path(), run: RunAudit = audit) -> None:
        self.config, self.state, self.folder, self._run = config, state, folder, run
        self.unfinished = self._set_aside()

    def round(self) -> Ended:
        """One audit, remembered. The evidence is kept where a verdict changed for the worse.

        Raises UsageError and InstrumentError for what no waiting cures.
        """
        number, at = self.state.rounds + 1, datetime.now(UTC).isoformat(timespec="seconds")
        evidence = self._evidence(f"{number:06}")
        look = self.state.audits + 1  # a round without an audit decided nothing, so that it spends no alpha
        alpha = alpha_at(look, self.config.alpha / 2)
        config = replace(self.config, checks=self.config.checks or LIGHT, alpha=alpha, seed=None, out=evidence)
        began, trouble, requests, verdict = time.monotonic(), "", 0, Verdict.INCONCLUSIVE
        outcomes: tuple[Outcome, ...] = ()
        wealth = self.state.log_wealth
        found: list[tuple[str, Verdict, str, tuple[str, ...]]]
        try:
            report = self._run(config)
            outcomes, requests, verdict = report.outcomes, report.requests, report.verdict
            found = [(REACHABLE, Verdict.PASS, "the server answers", ())]
        except _PASSING as error:
            # Where the evidence is worth keeping, the change names it.
            trouble, alpha = str(error).replace(kept_in(evidence), "").strip(), 0.0
            gone = isinstance(error, TargetError)  # anything else is our own trouble, such as another audit at work
            found = [(REACHABLE, Verdict.FAIL, trouble, ("NO_ANSWER",))] if gone else []
        found += [(o.check, o.judgement.verdict, o.judgement.summary, o.judgement.codes) for o in outcomes]
        log_e = _log_e(outcomes)
        if log_e is not None:
            wealth = accumulated(wealth, log_e, look)
            refuted = wealth >= -math.log(self.config.alpha / 2)
            told = f"evidence against the target's law over {look} rounds: exp({wealth:.1f}) to 1"
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

    def _evidence(self, which: str) -> Path:
        """A name that no other watch takes."""
        return self.folder / f"draftproof-watch-{self.state.id}-{which}.jsonl.gz"

    def _set_aside(self) -> Path | None:
        known, place = self.state.evidence, self._evidence("unfinished")
        left = sorted(path for path in self.folder.glob(self._evidence("[0-9]*").name) if path.name not in known)
        try:
            for path in left:
                path.replace(place)
        except OSError as error:
            raise EvidenceError(
                f"What a killed round left cannot be moved to {place}: {error.strerror}.", "Name another --folder."
            ) from error
        return place if left else None

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
    """Rounds until `stop`, each followed by as long a rest as its requests are worth at `per_hour`, and by a longer one while
    there is nothing to audit. By a clock that cannot jump.
    """
    failed = 0
    while not stop.is_set():
        began = time.monotonic()
        ended = watch.round()
        yield ended
        failed = failed + 1 if ended.trouble else 0
        pause = max(ended.made.requests, 1) * 3600 / per_hour - (time.monotonic() - began)
        stop.wait(max(pause, rest_after(failed)))


def rest_after(failed: int) -> float:
    """Seconds to rest at least, after so many rounds in a row without an audit."""
    return min(SOONEST_S * 2.0 ** min(failed - 1, 10), LATEST_S) if failed else 0.0
