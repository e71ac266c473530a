"""The report for a person: written as the audit goes, check by check, then what it means."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.auditing.events import (
    AuditFinished,
    CheckFinished,
    Event,
    FactsGathered,
    PlanMade,
    SelfTestPassed,
)
from draftproof.auditing.outcome import Outcome, Report
from draftproof.checks.drafting import DECLARED
from draftproof.core.ask import Scalar
from draftproof.core.facts import Facts
from draftproof.core.verdict import Finding, Statement, Verdict
from draftproof.report.page import Page, listed
from draftproof.report.summary import write_summary

LABELS = {
    Verdict.PASS: ("pass", "green"),
    Verdict.FAIL: ("FAIL", "bold red"),
    Verdict.INCONCLUSIVE: ("inconclusive", "yellow"),
    Verdict.ERROR: ("ERROR", "bold magenta"),
    Verdict.NOT_APPLICABLE: ("n/a", "dim"),
}
_LABEL_WIDTH = max(len(word) for word, _ in LABELS.values())
_TROUBLE = {Verdict.FAIL, Verdict.ERROR}
FEW = 10
"""Of so many checks each is told, of more only those that did not pass."""
_FOLDED = {Verdict.PASS: "what each saw", Verdict.NOT_APPLICABLE: "why"}
"""Verdicts that are only counted where nobody asks for more, and what -v tells of them."""


class TerminalReporter:
    """Listens to an audit. `verbosity` -1 writes a line per fault and the last line only, 0 what did not pass, 1 every check with
    all findings and statements.
    """

    def __init__(self, page: Page, verbosity: int = 0, *, alpha: float | None = None) -> None:
        self._page, self._verbosity, self._alpha = page, verbosity, alpha
        self._names: tuple[str, ...] = ()

    def __call__(self, event: Event) -> None:
        quiet = self._verbosity < 0
        match event:
            case SelfTestPassed() if not quiet:
                self._instrument(event.controls)
            case FactsGathered() if not quiet:
                write_facts(self._page, event.facts, self._verbosity)
            case PlanMade():
                self._names = tuple(p.check for p in event.plan.checks)
            case CheckFinished() if self._is_told(event.outcome):
                write_outcome(self._page, event.outcome, self._names, self._verbosity)
            case AuditFinished():
                if self._verbosity == 0:
                    write_counted(self._page, [o for o in event.report.outcomes if not self._is_told(o)])
                write_summary(self._page, event.report, self._verbosity)
            case _:
                pass

    def _is_told(self, outcome: Outcome) -> bool:
        """Whether a check has lines of its own, and is not only counted."""
        if self._verbosity < 0:
            return outcome.verdict in _TROUBLE
        counted = outcome.verdict in _FOLDED and len(self._names) > FEW
        return self._verbosity > 0 or not (counted or outcome.not_run)

    def _instrument(self, controls: int) -> None:
        chance = "" if self._alpha is None else f" · a sound server fails at most 1 audit in {1 / self._alpha:,.0f}"
        self._page.line(f"instrument   {controls} of {controls} controls judged as they must be{chance}", hang=13)


def write_report(page: Page, report: Report, verbosity: int = 0) -> None:
    """A finished report in one go, as the audit would have written it."""
    tell = TerminalReporter(page, verbosity, alpha=report.config.alpha)
    tell(SelfTestPassed(report.controls, 0.0))
    tell(FactsGathered(report.facts))
    tell(PlanMade(report.plan))
    for outcome in report.outcomes:
        tell(CheckFinished(outcome))
    tell(AuditFinished(report))


def write_facts(page: Page, facts: Facts, verbosity: int = 0) -> None:
    """Who is audited, and what it says of speculation: the first statement of each place, all of them when verbose."""
    server = " ".join(filter(None, [facts.dialect, facts.build]))
    page.line(" · ".join([server, _model(facts), f"says of speculation: {_said_first(facts)}"]), hang=2)
    if verbosity > 0:
        page.line(f"{facts.url}, model {facts.model or 'not named'}", indent=2)
        page.line(f"recognised by {facts.dialect_evidence}; routes {', '.join(facts.routes) or 'none'}", indent=2)
        for where, what in facts.self_reports:
            page.line(f"{where}: {_said(what)}", indent=2)
        for note in facts.notes:
            page.line(note, indent=2)


def _model(facts: Facts) -> str:
    name = (facts.model or "model not named").replace("\\", "/").rstrip("/").rpartition("/")[2]
    return f"{facts.countable} ({name})" if facts.countable not in {"", name} else name


def _said_first(facts: Facts) -> str:
    said: dict[str, str] = {}
    for where, what in facts.self_reports:
        if not where.startswith("/metrics"):
            said.setdefault("you" if where == DECLARED else where.partition(" ")[0], _said(what))
    return ", ".join(f"{place} {what}" for place, what in said.items()) or "nothing"


def _said(what: Scalar) -> str:
    if what is None or isinstance(what, bool):
        return {True: "on", False: "off", None: "nothing"}[what]
    return f"{what:g}" if isinstance(what, float) else str(what)


def write_outcome(page: Page, outcome: Outcome, names: Sequence[str], verbosity: int = 0) -> None:
    """One check: a line, and below it what was seen (all of it when verbose, the start of it when it failed)."""
    judgement = outcome.judgement
    if verbosity < 0:
        word, style = LABELS[judgement.verdict]
        if page.wraps:
            page.short((f"{word} ", style), f"{outcome.check}: {judgement.summary}")
            return
    name_width = max(map(len, [*names, outcome.check]))
    page.entry(
        LABELS[judgement.verdict], outcome.check, judgement.summary, name_width=name_width, label_width=_LABEL_WIDTH
    )
    if verbosity < 0:
        return
    told = [f for f in judgement.findings if verbosity > 0 or f.text not in judgement.summary]
    most = len(told) if verbosity > 0 else 1 if judgement.verdict in _TROUBLE else 0
    more = f", and {len(told) - most} more (-v)" if len(told) > most else ""
    for finding in told[:most]:
        page.line(finding_line(finding) + more, indent=8, hang=10)
    if verbosity > 0:
        for statement in judgement.statements:
            page.line(statement_line(statement), indent=8, hang=10)
        page.line(f"requests: {outcome.requests}, in {outcome.elapsed_s:.2f} s", indent=8)


def write_counted(page: Page, outcomes: Sequence[Outcome]) -> None:
    """Checks that had no line of their own, by verdict."""
    for verdict, more in _FOLDED.items():
        if some := sum(o.verdict is verdict for o in outcomes):
            _counted(page, verdict, f"{_checks(some)} (-v tells {more})")
    # One and the same reason, said once.
    for why in dict.fromkeys(o.not_run for o in outcomes if o.not_run):
        some = sum(o.not_run == why for o in outcomes)
        _counted(page, Verdict.INCONCLUSIVE, f"{_checks(some)} not run: {why}")


def _counted(page: Page, verdict: Verdict, text: str) -> None:
    word, style = LABELS[verdict]
    page.line((f"  {word}".ljust(_LABEL_WIDTH + 4), style), text, hang=8)


def _checks(number: int) -> str:
    return f"{number} check{'' if number == 1 else 's'}"


def finding_line(finding: Finding) -> str:
    """Its code, what was seen, and the first of the exchanges that show it."""
    where = f" (exchange {listed([str(n) for n in finding.exchanges])})" if finding.exchanges else ""
    return f"{finding.code}: {finding.text}{where}"


def statement_line(statement: Statement) -> str:
    """A statement with its n, its method and the probability that it is wrong."""
    odds = (
        "certain" if statement.error_probability == 0 else f"wrong with probability {statement.error_probability:.1g}"
    )
    return f"{statement.text} (n={statement.n}, {statement.method}, {odds})"
