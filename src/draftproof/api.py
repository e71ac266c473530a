"""Audits from Python, and from programs that run an event loop.

report = audit("http://127.0.0.1:8080", checks="logprobs")
report.verdict                          # Verdict.FAIL
report["logprobs/placeholder"].verdict  # of one check; report.failures has all that failed

report = await audit_async("http://127.0.0.1:8080", effort="standard")
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict, TypeVar, Unpack

from draftproof.auditing import (
    AuditConfig,
    Baseline,
    Budget,
    Event,
    Expectation,
    Listener,
    Report,
    all_checks,
    all_comparisons,
)
from draftproof.auditing import audit as run
from draftproof.auditing.baseline import read_baseline
from draftproof.auditing.events import Progressed, SelfTestPassed
from draftproof.auditing.live import LiveTarget, open_live
from draftproof.auditing.resume import read_earlier
from draftproof.core.errors import BudgetSpent, UsageError
from draftproof.core.probe import Effort

__all__ = ["AuditOptions", "Budget", "Effort", "Event", "Expectation", "Report", "audit", "audit_async"]

EffortName: TypeAlias = Effort | Literal["quick", "standard", "deep"]
ExpectationName: TypeAlias = Expectation | Literal["yes", "no", "unknown"]
File: TypeAlias = str | PathLike[str]
E = TypeVar("E", bound=StrEnum)


class _Settings(TypedDict, total=False):
    effort: EffortName
    checks: str | Iterable[str]
    alpha: float
    budget: Budget | str | None
    samples: int | None
    seed: int | None
    api_key_env: str | None
    law: File | None
    timeout: float
    expect_speculation: ExpectationName
    out: File | None
    resume: File | None


class AuditOptions(_Settings, total=False):
    """What `audit` takes beside the URL."""

    baseline: File | None
    listen: Listener | None


def audit(
    url: str,
    *,
    effort: EffortName = "quick",
    checks: str | Iterable[str] = (),
    alpha: float = 1e-6,
    budget: Budget | str | None = None,
    samples: int | None = None,
    seed: int | None = None,
    api_key_env: str | None = None,
    law: File | None = None,
    timeout: float = 30.0,
    expect_speculation: ExpectationName = "unknown",
    out: File | None = None,
    resume: File | None = None,
    baseline: File | None = None,
    listen: Listener | None = None,
) -> Report:
    """Audits the server at `url`, as `draftproof check` does, and returns all that was found.

    effort: how small a deviation a pass must exclude: total variation 0.15, 0.05 or 0.015.
    checks: names ("logprobs/placeholder"), families ("logprobs") or globs, in a list or by commas; () for all.
    alpha: the probability that a sound server fails, for the whole audit; above 0, at most 0.1.
    budget: the most to spend, as `Budget(requests=500, seconds=60)` or "requests=500,seconds=60".
    samples: how many samples sampling checks draw; None lets them decide.
    seed: decides which seeds the requests get, 0 to 2147483647; None draws one, and `report.config.seed` tells it.
    api_key_env: the environment variable that holds the key. The key itself is kept nowhere.
    law: the folder of the countable pair that the server runs, where it is not a built-in one.
    timeout: the longest silence of the server, in seconds.
    expect_speculation: what is known of the server. "yes": it does not pass without being seen to speculate. "no": it fails if it
        is seen to.
    out: the evidence file; None writes a new one to the working directory. `report.evidence_path` tells it.
    resume: the evidence file of an earlier audit to go on from.
    baseline: a file of accepted findings, as `draftproof check --baseline` takes it: they do not change the exit code.
    listen: is called with every event of `draftproof.auditing.events` as it happens, from several threads; must not raise.

    A fault is no exception: `report.verdict` and `report.exit_code` tell it. Raises UsageError for options that cannot be,
    Unreachable when nobody answers, TargetError when the server cannot be asked, InstrumentError when draftproof fails its own
    test. All are DraftproofErrors.
    """
    config = _config(
        url,
        effort=effort,
        checks=checks,
        alpha=alpha,
        budget=budget,
        samples=samples,
        seed=seed,
        api_key_env=api_key_env,
        law=law,
        timeout=timeout,
        expect_speculation=expect_speculation,
        out=out,
        resume=resume,
    )
    return run(config, listen=listen or _nobody, baseline=_baseline(baseline))


async def audit_async(
    url: str, *, baseline: File | None = None, listen: Listener | None = None, **settings: Unpack[_Settings]
) -> Report:
    """As `audit`, which runs in a thread: the event loop goes on. `listen` is called from other threads than the loop's.

    A task that is cancelled ends the audit: requests under way are cut off, nothing more is asked, the evidence is closed. The
    cancellation goes on when that is done; a second one does not wait for it.
    """
    config, stopping = _config(url, **settings), _Stopping(listen or _nobody)
    call = partial(run, config, listen=stopping, open_target=stopping.open, baseline=_baseline(baseline))
    running = asyncio.get_running_loop().run_in_executor(None, call)
    running.add_done_callback(_looked_at)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stopping.stop()
        await asyncio.wait([running])
        raise


def _config(url: str, **settings: Unpack[_Settings]) -> AuditConfig:
    """Raises UsageError."""
    budget = settings.get("budget")
    checks = settings.get("checks", ())
    given = [checks] if isinstance(checks, str) else checks
    return AuditConfig(
        url=url,
        effort=_named(Effort, "effort", settings.get("effort", Effort.QUICK)),
        checks=tuple(name.strip() for part in given for name in part.split(",") if name.strip()),
        budget=budget if isinstance(budget, Budget) else Budget.parse(budget or "", "budget"),
        expect_speculation=_named(
            Expectation, "expect_speculation", settings.get("expect_speculation", Expectation.UNKNOWN)
        ),
        alpha=settings.get("alpha", 1e-6),
        samples=settings.get("samples"),
        seed=settings.get("seed"),
        api_key_env=settings.get("api_key_env"),
        timeout=settings.get("timeout", 30.0),
        law=_path(settings.get("law")),
        out=_path(settings.get("out")),
        resume=_path(settings.get("resume")),
    )


def _named(kind: type[E], option: str, value: str) -> E:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{option} must be one of {', '.join(kind)}, not {value!r}.") from None


def _baseline(file: File | None) -> Baseline | None:
    names = [check.name for check in (*all_checks(), *all_comparisons())]
    return None if file is None else read_baseline(Path(file), names)


def _path(file: File | None) -> Path | None:
    return None if file is None else Path(file)


def _nobody(_event: Event) -> None:
    pass


def _looked_at(running: asyncio.Future[Report]) -> None:
    """What a cancelled audit raised is of no interest, and must not be reported as forgotten."""
    if not running.cancelled():
        running.exception()


class _Stopping:
    """Listens to an audit and holds its server, so that it can be ended from outside."""

    def __init__(self, listen: Listener) -> None:
        self._listen = listen
        self._wanted = threading.Event()
        self._target: LiveTarget | None = None

    def __call__(self, event: Event) -> None:
        if self._wanted.is_set() and isinstance(event, SelfTestPassed | Progressed):
            raise BudgetSpent("The audit was cancelled.", "Go on from its evidence with resume.")
        self._listen(event)

    @contextmanager
    def open(self, config: AuditConfig, *, save: bool) -> Iterator[LiveTarget]:
        earlier = None if config.resume is None else read_earlier(config.resume)
        with open_live(config, save=save, earlier=earlier) as target:
            self._target = target
            yield target

    def stop(self) -> None:
        self._wanted.set()
        if self._target is not None:
            self._target.interrupt()
