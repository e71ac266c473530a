"""For tests of an inference engine: `assert_sound`, and what the fixtures of the pytest plugin give.

from draftproof.testing import assert_sound

def test_speculation_is_lossless(any_server, countable_pair, audit):
    models = ("--model", countable_pair.target, "--draft-model", countable_pair.draft)
    server = any_server("my-engine", *models, "--port", "{port}")
    assert_sound(audit(server.url, expect_speculation="yes"))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar, Unpack, cast

from draftproof import api
from draftproof.api import AuditOptions
from draftproof.auditing import Baseline, Outcome, Report, all_checks
from draftproof.auditing.outcome import UNREACHABLE, Accepted
from draftproof.auditing.safety import what_to_do
from draftproof.core.errors import TargetError, UsageError
from draftproof.core.verdict import Verdict
from draftproof.launch.any_server import AnyServer
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel, Option
from draftproof.launch.own_server import OwnServer
from draftproof.launch.process import ServerDied, ServerProcess
from draftproof.report.clean import clean

__all__ = [
    "EXACT_NUMBERS",
    "AnyServer",
    "Auditor",
    "LlamaWheel",
    "OwnServer",
    "Pair",
    "Report",
    "ServerDied",
    "ServerProcess",
    "Servers",
    "StartsAnyServer",
    "StartsDraftproofServer",
    "StartsLlamaServer",
    "assert_sound",
    "server_logs",
]

DEFAULTS: AuditOptions = {"seed": 1}
"""Of audits in tests: the same samples every time, so that a test which fails fails again."""

_MOST_EXCHANGES = 3
_LOG = 4000
_DYING_S = 2.0
"""A process ends a little after its connections."""
S = TypeVar("S", bound=ServerProcess)


def assert_sound(report: Report, allow: Iterable[str] = (), *, allow_inconclusive: bool = False) -> None:
    """Raises AssertionError, with what failed, why and what to do, unless every check of the audit passed.

    `allow`: known faults, as the name of a check or as "check:CODE" for one of its findings. One that is not found any more is an
    error: take it out. What the audit's `baseline` accepts is allowed too. A check that broke (verdict `error`) is never allowed.
    `allow_inconclusive` lets undecided checks be, as long as any check was decided.
    """
    __tracebackhide__ = True
    allowed = _allowances(allow)
    problems = list(_problems(report, allowed, allow_inconclusive=allow_inconclusive))
    told = [line for outcome in problems for line in _told(outcome)]
    told += [*_stale(report, allowed), *report.notes]
    told += _undecided(report, allow_inconclusive=allow_inconclusive)
    if not told:
        return
    told += [f"to do: {remedy}" for remedy in what_to_do(all_checks(), problems, report.facts)]
    failed = sum(o.verdict is Verdict.FAIL for o in problems)
    head = f"{failed} of {len(report.outcomes)} checks failed" if failed else "not shown to be sound"
    server = " ".join(filter(None, [report.facts.dialect, report.facts.build, "at", report.config.url]))
    raise AssertionError("\n".join([f"{head}: {clean(server)}", *map(clean, told), *_evidence(report, problems)]))


def _allowances(allow: Iterable[str]) -> Mapping[str, frozenset[str] | None]:
    """By check, the codes that are allowed; None for all."""
    if isinstance(allow, str):
        raise UsageError(f"allow must be a list, not the text {allow!r}.", f"Write allow=[{allow!r}].")
    codes: dict[str, frozenset[str] | None] = {}
    for entry in allow:
        check, colon, code = entry.partition(":")
        before = codes.get(check, frozenset())
        codes[check] = before | {code} if colon and before is not None else None
    return codes


def _problems(
    report: Report, allowed: Mapping[str, frozenset[str] | None], *, allow_inconclusive: bool
) -> Iterator[Outcome]:
    fine = {Verdict.PASS, Verdict.NOT_APPLICABLE} | ({Verdict.INCONCLUSIVE} if allow_inconclusive else set())
    entries = [Accepted(o.check, code) for o in report.failures for code in _allowed_codes(o, allowed)]
    weighed = Baseline((*report.accepted, *entries)).weigh(report.outcomes)
    yield from (o for o, verdict in zip(report.outcomes, weighed.verdicts, strict=True) if verdict not in fine)


def _allowed_codes(outcome: Outcome, allowed: Mapping[str, frozenset[str] | None]) -> Iterable[str]:
    codes = allowed.get(outcome.check, frozenset())
    return outcome.judgement.codes if codes is None else codes


def _told(outcome: Outcome) -> Iterator[str]:
    judgement = outcome.judgement
    yield f"{outcome.verdict.upper()} {outcome.check}: {judgement.summary}"
    for code in judgement.codes if outcome.verdict is Verdict.FAIL else ():
        findings = [f for f in judgement.findings if f.code == code]
        numbers = [str(n) for f in findings for n in f.exchanges][:_MOST_EXCHANGES]
        where = f", first in exchange {', '.join(numbers)}" if numbers else ""
        text = findings[0].text
        yield f"    {code}{'' if text in judgement.summary else f': {text}'} ({len(findings)} found{where})"


def _stale(report: Report, allowed: Mapping[str, frozenset[str] | None]) -> Iterator[str]:
    outcomes = {o.check: o for o in report.outcomes}
    for check, codes in allowed.items():
        outcome = outcomes.get(check)
        if outcome is None:
            yield f"allow: {check!r} is no check of this audit; take it out, or let the check run"
        elif outcome.verdict in {Verdict.PASS, Verdict.FAIL, Verdict.NOT_APPLICABLE}:
            found = outcome.judgement.codes if outcome.verdict is Verdict.FAIL else ()
            names = [f"{check}:{code}" for code in sorted(codes - set(found))] if codes is not None else []
            if codes is None and outcome.verdict is not Verdict.FAIL:
                names = [check]
            yield from (f"allow: {name!r} is not found any more; take it out" for name in names)


def _undecided(report: Report, *, allow_inconclusive: bool) -> Iterator[str]:
    if not any(o.verdict in {Verdict.PASS, Verdict.FAIL} for o in report.outcomes):
        yield "nothing was decided: no check passed or failed"
    if not allow_inconclusive:
        yield from (f"{limit.what}: {limit.effect}" for limit in report.limits if limit.mixed)
        if report.stopped:
            yield f"stopped early: {report.stopped}"


def _evidence(report: Report, problems: Sequence[Outcome]) -> Iterator[str]:
    if report.evidence_path is not None:
        yield f"evidence: {report.evidence_path} (seed {report.config.seed}); draftproof rejudge judges it again"
    if problems:
        yield f"see also: draftproof explain {problems[0].check}"


class Pair(NamedTuple):
    """A target and a draft model of 24 KB as GGUF files, and their exact laws as JSON."""

    target: Path
    draft: Path
    law: Path


class Servers:
    """The servers of one test. `with` stops them, the last one first."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.started: list[ServerProcess] = []

    def start(self, server: S) -> S:
        """Raises UsageError and ServerDied."""
        self._stack.enter_context(server)
        self.started.append(server)
        return server

    def any_server(self, *command: object, health: str = "/health", wait_s: float = 300.0) -> AnyServer:
        return self.start(AnyServer(*command, health=health, wait_s=wait_s))

    def llama_server(
        self,
        target: Path,
        draft: Path | None = None,
        *,
        types: Sequence[str] = (),
        options: Mapping[str, Option] | None = None,
    ) -> LlamaWheel:
        return self.start(LlamaWheel(target, draft=draft, types=types, options=options))

    def draftproof_server(self, *flags: object) -> OwnServer:
        return self.start(OwnServer(*flags))

    def close(self) -> None:
        self._stack.close()


class StartsAnyServer(Protocol):
    """The fixture `any_server`; see `AnyServer`."""

    def __call__(self, *command: object, health: str = ..., wait_s: float = ...) -> AnyServer: ...


class StartsLlamaServer(Protocol):
    """The fixture `llama_server`; see `LlamaWheel`."""

    def __call__(
        self,
        target: Path,
        draft: Path | None = ...,
        *,
        types: Sequence[str] = ...,
        options: Mapping[str, Option] | None = ...,
    ) -> LlamaWheel: ...


class StartsDraftproofServer(Protocol):
    """The fixture `draftproof_server`; see `OwnServer`."""

    def __call__(self, *flags: object) -> OwnServer: ...


class Auditor:
    """The fixture `audit`: `draftproof.api.audit` with the options of the test's markers.

    Evidence goes to files of their own in `folder`, unless `out` says otherwise. `servers` are those that the test knows: one that
    died is named, with its last words, in place of what the audit made of that.
    """

    def __init__(self, folder: Path, marked: Iterable[Mapping[str, object]], servers: Iterable[ServerProcess]) -> None:
        """Raises UsageError for options that there are not. Of those marked more than once the last counts."""
        self._folder, self._servers = folder, servers
        self._audits = 0
        self.options = cast("AuditOptions", dict(DEFAULTS))
        for options in marked:
            unknown = options.keys() - api.AuditOptions.__annotations__.keys()
            if unknown:
                names = ", ".join(api.AuditOptions.__annotations__)
                raise UsageError(f"@pytest.mark.draftproof: {', '.join(sorted(unknown))} is not one of {names}.")
            self.options |= cast("AuditOptions", options)

    def __call__(self, url: str, **options: Unpack[AuditOptions]) -> Report:
        """Raises ServerDied when the server that was audited ended meanwhile, else what `draftproof.api.audit` raises."""
        self._audits += 1
        out = self._folder / f"evidence-{self._audits}.jsonl.gz"
        chosen: AuditOptions = {"out": out, **self.options, **options}
        try:
            report = api.audit(url, **chosen)
        except TargetError:
            self._require_running(url, patience_s=_DYING_S)
            raise
        self._require_running(url, patience_s=_DYING_S if report.exit_code == UNREACHABLE else 0.0)
        return report

    def _require_running(self, url: str, *, patience_s: float) -> None:
        for server in self._servers:
            if server.url == url.rstrip("/"):
                server.require_running(patience_s=patience_s)


def server_logs(servers: Iterable[ServerProcess]) -> Iterator[tuple[str, str]]:
    """A title and the end of the log, of each server that has written any."""
    for server in servers:
        if log := server.log().strip():
            yield f"log of {server.name} at {server.url}", log[-_LOG:]
