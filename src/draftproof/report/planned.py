"""The plan of a dry run for a person: what would be asked, and what it would cost."""

from __future__ import annotations

from draftproof.auditing.plan import PLAN_SPREAD, Plan, Planned
from draftproof.auditing.safety import span
from draftproof.core.verdict import Verdict
from draftproof.report.page import Page, Part
from draftproof.report.terminal import LABELS

_LABEL_WIDTH = 4


def write_plan(page: Page, plan: Plan, verbosity: int = 0) -> None:
    """A line per check with its requests, or why it is not applicable; when verbose what each claims, too."""
    width = max((len(p.check) for p in plan.checks), default=0)
    for planned in plan.checks:
        label = LABELS[Verdict.NOT_APPLICABLE] if planned.not_applicable else "run"
        if verbosity > 0:
            page.entry(label, planned.check, _in_full(planned), name_width=width, label_width=_LABEL_WIDTH)
        else:
            page.short(_head(label), f"  {planned.check.ljust(width)}  {planned.not_applicable or _requests(planned)}")
    shared = f", {plan.common} of them for several checks" if plan.common else ""
    page.line(f"in all about {plan.requests} requests{shared}{_time(plan)}", hang=2)
    if verbosity == 0 and plan.checks:
        page.line("-v tells what each check claims")


def _head(label: Part) -> Part:
    word, style = (label, "") if isinstance(label, str) else label
    return f"  {word}".ljust(_LABEL_WIDTH + 2), style


def _requests(planned: Planned) -> str:
    return f"{planned.requests:>5} request{'' if planned.requests == 1 else 's'}"


def _in_full(planned: Planned) -> str:
    return planned.not_applicable or f"about {_requests(planned).strip()}: {planned.claim}"


def _time(plan: Plan) -> str:
    if plan.seconds is not None:
        return f", {span(plan.seconds, PLAN_SPREAD * plan.seconds)} at the pace of its first answers"
    least = plan.seconds_at_least
    return "" if least is None else f", at least {least:.1f} s in round trips; generation comes on top"
