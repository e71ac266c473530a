"""Finished audits of fake servers, and text that would do harm where it is not treated as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fakes import FACTS, FAULTY, NOT_APPLICABLE, SOUND, UNDECIDED, URL, FakeTarget, check, raising

from draftproof.auditing import Report, all_checks, all_comparisons, audit
from draftproof.auditing.baseline import Baseline
from draftproof.auditing.config import AuditConfig
from draftproof.auditing.limits import Limit
from draftproof.auditing.outcome import Accepted, Outcome
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Statement, Table, Verdict

BROKEN = check("randomness/broken", raising(RuntimeError("bug")))
ALL = (SOUND, FAULTY, UNDECIDED, NOT_APPLICABLE, BROKEN)
ACCEPTED = Accepted("logprobs/faulty", "PLACEHOLDER", "b1 <b>does</b> that")

EVIL = (
    '<script>alert(1)</script><img src=x onerror="alert(2)">"\'>&lt;i&gt; '
    "\x1b]0;owned\x07\x00\u202eevil\u2066\u200b]]>\ud800 {{ 7 * 7 }} $x^2$"
)


def made(*checks: Any, accepted: tuple[Accepted, ...] = (), path: Path | None = None) -> Report:
    report = audit(
        AuditConfig(URL, seed=1), checks=checks or ALL, open_target=FakeTarget().open, baseline=Baseline(accepted)
    )
    return replace(report, elapsed_s=4.14, evidence_path=path)


def evil() -> Report:
    """Every text that a server has a hand in is `EVIL`, and the model's name is 10 kB long."""
    report = made()
    judgement = Judgement(
        Verdict.FAIL,
        EVIL,
        (Finding("PLACEHOLDER", EVIL, (1, 2)),),
        (Statement(EVIL, 3, "m", 1e-3, {EVIL: float("inf")}),),
        {EVIL: EVIL},
        (Table(EVIL, (EVIL, "token", "count", "law"), ((EVIL, EVIL, 3, 0.5), (EVIL, "b", 4, 0.5))),),
        EVIL,
    )
    facts = replace(
        FACTS,
        model="<b>" + "m" * 10_000,
        build=EVIL,
        countable=EVIL,
        routes=(EVIL,),
        notes=(EVIL,),
        self_reports=((EVIL, EVIL),),
    )
    outcome = replace(report.outcomes[1], judgement=judgement)
    return replace(
        report,
        facts=facts,
        outcomes=(outcome,),
        remedies=(EVIL,),
        notes=(EVIL,),
        stopped=EVIL,
        limits=(Limit(EVIL, EVIL),),
        continues=(EVIL,),
    )


def judged(*names: tuple[str, str]) -> Report:
    """A report on controls of built-in checks, each given by the check's name and the control's."""
    checks = {c.name: c for c in (*all_checks(), *all_comparisons())}
    terms = Terms(alpha=1e-7)
    outcomes = []
    for name, control in names:
        evidence = next(e.evidence for e in checks[name].examples if e.name == control)
        outcomes.append(Outcome(name, checks[name].judge(evidence, terms), terms, evidence, 7, 0.5))
    return replace(made(), outcomes=tuple(outcomes))


BROKEN_SERVER = (
    ("logprobs/rescored", "placeholders"),
    ("sampling/distribution", "the target's top after token 1"),
    ("self_report/speculation_observed", "bursts only"),
)
