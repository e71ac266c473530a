"""From verdicts to the two questions of a person: what may I use, and what should I do?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from draftproof.auditing.outcome import Answer, Outcome, Safety
from draftproof.checks.check import AnyCheck
from draftproof.core.facts import Facts
from draftproof.core.verdict import Judgement, Verdict

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
    """One row per aspect; none at all where no check speaks to any, as in a comparison.

    "yes" needs every check of that aspect in `checks`, run and passed (or not applicable).
    """
    if not any(c.aspects for c in checks):
        return ()
    judgements = {o.check: o.judgement for o in outcomes}
    return tuple(
        _row(
            what,
            {c.name: _verdict(c, aspect, judgements.get(c.name)) for c in checks if aspect in c.aspects},
            [judgements[c.name].caution for c in checks if aspect in c.aspects and c.name in judgements],
        )
        for aspect, what in ROWS.items()
    )


def _verdict(check: AnyCheck, aspect: str, judgement: Judgement | None) -> Verdict | None:
    """The verdict as far as it concerns one aspect: a failure may leave some of them whole."""
    if judgement is None:
        return None
    spares = judgement.verdict is Verdict.FAIL and aspect not in check.spoilt_by(judgement.codes)
    return Verdict.PASS if spares else judgement.verdict


def _row(what: str, verdicts: Mapping[str, Verdict | None], cautions: Sequence[str]) -> Safety:
    by_verdict = {v: [name for name, verdict in verdicts.items() if verdict is v] for v in (*Verdict, None)}
    touched = len(by_verdict[None]) < len(verdicts)
    for verdict, answer, reason in _DECISIONS:
        if names := by_verdict[verdict]:
            but = tuple(c for c in cautions if c) if verdict is Verdict.PASS else ()
            text = "; ".join([f"{', '.join(names)} {reason}", *but])
            return Safety(what, answer, text, touched, tuple(names), "; ".join([reason, *but]))
    return Safety(what, Answer.UNKNOWN, "nothing here could be checked on this server", touched)


_DECISIONS = (
    (Verdict.FAIL, Answer.NO, "failed"),
    (Verdict.ERROR, Answer.UNKNOWN, "could not be judged"),
    (Verdict.INCONCLUSIVE, Answer.UNKNOWN, "inconclusive"),
    (None, Answer.UNKNOWN, "not run"),
    (Verdict.PASS, Answer.YES, "passed"),
)
"""The first of these that any check of a row has decides it."""


def duration(seconds: float) -> str:
    """About how long, in words."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / 60)} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


GATEWAY_DIALECTS = {"llama_server", "vllm", "sglang"}
"""Servers whose answers the gateway can mend."""

_MENDED = {"PLACEHOLDER", "MISSING"}
"""Findings about logprobs that `draftproof gateway` repairs."""


def span(least_s: float, most_s: float) -> str:
    """From one time to another, in words."""
    least, most = duration(least_s), duration(most_s)
    return least if least == most else f"{least} to {most.removeprefix('about ')}"


def what_to_do(checks: Sequence[AnyCheck], outcomes: Iterable[Outcome], facts: Facts | None = None) -> tuple[str, ...]:
    """The remedies of the failing checks, then what the inconclusive ones lack; each said once, and none that another failure
    makes pointless. `facts` of the server let it name the repair that leaves the server as it is.
    """
    outcomes = tuple(outcomes)
    by_name = {c.name: c for c in checks}
    failed = {o.check for o in outcomes if o.verdict is Verdict.FAIL}
    failing = _repair(outcomes, facts)
    lacking: dict[str, list[str]] = {}
    for outcome in outcomes:
        judgement = outcome.judgement
        if judgement.verdict is Verdict.FAIL and (check := by_name.get(outcome.check)):
            if not failed.intersection(check.moot_after):
                failing.append(check.remedy)
        elif judgement.verdict is Verdict.INCONCLUSIVE and judgement.missing:
            seconds = outcome.more_s
            pace = "" if seconds is None else f", {duration(seconds)} at the pace so far"
            lacking.setdefault(judgement.missing + pace, []).append(outcome.check)
    needs = [f"To decide {', '.join(names)}: {missing}" for missing, names in lacking.items()]
    return tuple(dict.fromkeys(filter(None, [*failing, *needs])))


def _repair(outcomes: Sequence[Outcome], facts: Facts | None) -> list[str]:
    """How to keep a server whose drafted tokens have no logprobs: the gateway asks it for them."""
    lost = any(
        o.verdict is Verdict.FAIL and o.check.startswith("logprobs/") and _MENDED.intersection(o.judgement.codes)
        for o in outcomes
    )
    if not lost or facts is None or facts.dialect not in GATEWAY_DIALECTS:
        return []
    gateway = (
        f"To keep this server and have true logprobs: draftproof gateway --upstream {facts.url} (needs the extra 'gateway'), "
        "and ask the gateway."
    )
    return [gateway]
