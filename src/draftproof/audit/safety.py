"""From verdicts to the two questions of a person: what may I use, and what should I do?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from draftproof.audit.outcome import Answer, Outcome, Safety
from draftproof.checks.check import AnyCheck
from draftproof.core.verdict import Verdict

ROWS: Mapping[str, str] = {
    "text": "text",
    "first logprob": "logprob of token 1",
    "logprobs": "logprobs after it",
    "seeds": "seeds",
    "counters": "counters",
    "self-report": "what it says of itself",
}
"""The `aspects` of a check, and the rows of the table that they stand for."""


def safe_to_use(checks: Sequence[AnyCheck], outcomes: Iterable[Outcome]) -> tuple[Safety, ...]:
    """One row per aspect. "yes" needs every check of that aspect in `checks`, run and passed (or not applicable)."""
    verdicts = {o.check: o.judgement.verdict for o in outcomes}
    return tuple(
        _row(what, {c.name: verdicts.get(c.name) for c in checks if aspect in c.aspects})
        for aspect, what in ROWS.items()
    )


def _row(what: str, verdicts: Mapping[str, Verdict | None]) -> Safety:
    by_verdict = {v: [name for name, verdict in verdicts.items() if verdict is v] for v in (*Verdict, None)}
    if failed := by_verdict[Verdict.FAIL]:
        return Safety(what, Answer.NO, f"{_listed(failed)} failed")
    if broken := by_verdict[Verdict.ERROR]:
        return Safety(what, Answer.UNKNOWN, f"{_listed(broken)} could not be judged")
    if undecided := by_verdict[Verdict.INCONCLUSIVE]:
        return Safety(what, Answer.UNKNOWN, f"{_listed(undecided)} inconclusive")
    if left_out := by_verdict[None]:
        return Safety(what, Answer.UNKNOWN, f"{_listed(left_out)} not run")
    if passed := by_verdict[Verdict.PASS]:
        return Safety(what, Answer.YES, f"{_listed(passed)} passed")
    return Safety(what, Answer.UNKNOWN, "nothing here could be checked on this server")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def what_to_do(checks: Sequence[AnyCheck], outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """The remedies of the failing checks, then what the inconclusive ones lack; each said once."""
    remedies = {c.name: c.remedy for c in checks}
    outcomes = tuple(outcomes)
    failing = [remedies[o.check] for o in outcomes if o.judgement.verdict is Verdict.FAIL]
    lacking = [
        f"to decide {o.check}: {o.judgement.missing}"
        for o in outcomes
        if o.judgement.verdict is Verdict.INCONCLUSIVE and o.judgement.missing
    ]
    return tuple(dict.fromkeys(filter(None, [*failing, *lacking])))
