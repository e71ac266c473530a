"""An audit of one server, from self-test to exit code: `audit(AuditConfig(url))` returns a `Report`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from draftproof.auditing.baseline import Baseline
from draftproof.auditing.config import AuditConfig, Budget, Expectation, select
from draftproof.auditing.events import Event, Listener
from draftproof.auditing.outcome import Outcome, Report
from draftproof.auditing.resume import Earlier, continued, read_earlier
from draftproof.auditing.runner import Audit
from draftproof.auditing.target import OpenTarget
from draftproof.checks.check import AnyCheck
from draftproof.client.http import require_listening

__all__ = [
    "AuditConfig",
    "Baseline",
    "Budget",
    "Event",
    "Expectation",
    "Listener",
    "Outcome",
    "Report",
    "all_checks",
    "all_comparisons",
    "audit",
]


def all_checks() -> tuple[AnyCheck, ...]:
    """Every check there is, in the order in which they run."""
    from draftproof.checks.builtin import CHECKS

    return CHECKS


def all_comparisons() -> tuple[AnyCheck, ...]:
    """Every question put to two servers at once (`audit.pair`), in the order in which they are put."""
    from draftproof.checks.same import COMPARISONS

    return COMPARISONS


def audit(
    config: AuditConfig,
    *,
    listen: Listener = lambda _event: None,
    dry_run: bool = False,
    checks: Sequence[AnyCheck] | None = None,
    open_target: OpenTarget | None = None,
    baseline: Baseline | None = None,
) -> Report:
    """Audits one server and says what was found; `listen` hears of every step.

    `dry_run` stops after the plan: facts are read, nothing is generated. `checks` replaces the built-in ones,
    `open_target` the way to reach the server. Findings of the `baseline` do not fail the audit.
    Raises UsageError for checks that do not exist and for a server that is not the one to go on with, InstrumentError when
    draftproof fails its own test (before the first
    request), TargetError when the server cannot be asked at all (Unreachable when nobody answers).
    """
    # A wrong name or file is told before anything is asked; where none was given, the checks, slow to load, can wait.
    named = _chosen(config, checks) if config.checks or config.resume else None
    if open_target is None:
        require_listening(config.url)
    config, chosen, every, earlier = named or _chosen(config, checks)
    running = Audit(config, chosen, every, listen, earlier, baseline)
    controls = running.self_test()
    if open_target is None:
        from draftproof.auditing.live import open_live  # with the countable models: takes long too

        open_target = open_live if earlier is None else partial(open_live, earlier=earlier)
    with open_target(config, save=not dry_run) as target:
        return running.run(target, controls, dry_run=dry_run)


def _chosen(
    config: AuditConfig, checks: Sequence[AnyCheck] | None
) -> tuple[AuditConfig, tuple[AnyCheck, ...], tuple[AnyCheck, ...], Earlier | None]:
    """What to do in full, the checks to run, all that there are, and the audit to go on from. Raises UsageError, EvidenceError."""
    every = all_checks() if checks is None else tuple(checks)
    earlier = None if config.resume is None else read_earlier(config.resume)
    if earlier is not None:
        config = continued(config, earlier)
    if config.seed is None:
        config = replace(config, seed=secrets.randbelow(2**31))
    return config, select(every, config.checks), every, earlier
