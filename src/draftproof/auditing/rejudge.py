"""The verdicts of an audit computed again from its evidence file: no server, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from draftproof.auditing import codec
from draftproof.auditing.aggregates import aggregates
from draftproof.auditing.baseline import Baseline
from draftproof.auditing.contents import Contents, read_contents
from draftproof.auditing.outcome import Outcome, Report, contradictions, exit_code
from draftproof.auditing.safety import safe_to_use, what_to_do
from draftproof.auditing.selftest import require_sound
from draftproof.checks.check import AnyCheck
from draftproof.core.errors import EvidenceError
from draftproof.core.facts import Facts
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict, merge


@dataclass(frozen=True, slots=True)
class Rejudged:
    """The report as it comes out now. `differences` are sentences, one per check that was recorded otherwise."""

    report: Report
    differences: tuple[str, ...]


def rejudge(path: Path, checks: Sequence[AnyCheck], baseline: Baseline | None = None) -> Rejudged:
    """Judges every check in an evidence file again, at the terms it was judged at. The file may end anywhere.

    `checks` are all that exist. Raises EvidenceError when `path` is no audit's evidence or of a newer format,
    InstrumentError when draftproof fails its own test.
    """
    contents = read_contents(path)
    facts = contents.described("There is nothing to judge: repeat the audit.")
    known = {c.name: c for c in checks}
    chosen = [known[name] for name in contents.header.checks if name in known]
    controls = require_sound(chosen, Terms())
    outcomes = tuple(_judge_again(name, known.get(name), contents) for name in contents.header.checks)
    notes = contradictions(contents.header.config.expect_speculation, outcomes)
    weighed = (baseline or Baseline()).weigh(outcomes)
    mixed = any(limit.mixed for limit in contents.limits)
    more = [Verdict.FAIL] * len(notes) + [Verdict.INCONCLUSIVE] * (bool(contents.stopped) or mixed)
    ending = contents.ending
    report = Report(
        config=contents.header.config,
        version=contents.header.draftproof,
        started_at=contents.header.started_at,
        controls=controls.total,
        facts=facts,
        plan=contents.plan,
        outcomes=outcomes,
        verdict=merge([*(o.judgement.verdict for o in outcomes), *more]),
        exit_code=exit_code([*weighed.verdicts, *more], stale=bool(weighed.stale)),
        safety=safe_to_use(checks, outcomes),
        remedies=what_to_do(checks, outcomes, facts),
        aggregates=aggregates(outcomes),
        requests=ending.requests if ending else sum(o.requests for o in outcomes),
        elapsed_s=ending.elapsed_s if ending else sum(o.elapsed_s for o in outcomes),
        evidence_path=path,
        stopped=contents.stopped,
        notes=(*notes, *weighed.expired, *weighed.stale),
        accepted=weighed.accepted,
        limits=contents.limits,
        continues=contents.header.continues,
    )
    return Rejudged(report, _differences(outcomes, contents.outcomes))


def evidence_of(path: Path, checks: Sequence[AnyCheck]) -> tuple[Facts, tuple[object, ...]]:
    """The server's facts, and the evidence of every check in the file that these `checks` can read.

    Raises EvidenceError as `rejudge` does.
    """
    contents = read_contents(path)
    facts = contents.described("Give the file of a whole audit.")
    found = []
    for check in checks:
        if (collected := contents.collected.get(check.name)) is not None:
            with suppress(EvidenceError):
                found.append(codec.from_json(check.evidence, collected.evidence))
    return facts, tuple(found)


def _judge_again(name: str, check: AnyCheck | None, contents: Contents) -> Outcome:
    recorded, collected = contents.outcomes.get(name), contents.collected.get(name)
    if check is None:
        return _undecided(name, recorded, "this version of draftproof has no such check")
    if collected is not None:
        try:
            evidence = codec.from_json(check.evidence, collected.evidence)
            judgement = check.judge(evidence, collected.terms)
        except Exception as error:  # a judge that breaks is a verdict here as it is in an audit
            judgement = Judgement(Verdict.ERROR, f"cannot be judged: {error}")
            evidence = None
        spent = recorded or Outcome(name, judgement, collected.terms)
        return replace(spent, judgement=judgement, terms=collected.terms, evidence=evidence)
    if recorded is None:
        return _undecided(name, None, "the file ends before its evidence")
    if recorded.judgement.verdict in {Verdict.PASS, Verdict.FAIL}:
        return _undecided(
            name, recorded, f"recorded as {recorded.judgement.verdict}, but its evidence is not in the file"
        )
    return recorded


def _undecided(name: str, recorded: Outcome | None, why: str) -> Outcome:
    judgement = Judgement(Verdict.INCONCLUSIVE, why)
    return replace(recorded, judgement=judgement) if recorded else Outcome(name, judgement, Terms())


def _differences(outcomes: Sequence[Outcome], recorded: Mapping[str, Outcome]) -> tuple[str, ...]:
    told = []
    for now in outcomes:
        then = recorded.get(now.check)
        if then is None:
            continue
        before, after = then.judgement, now.judgement
        if before.verdict is not after.verdict:
            told.append(f"{now.check}: recorded as {before.verdict}, now {after.verdict}")
        elif set(before.codes) != set(after.codes):
            told.append(f"{now.check}: recorded with {_codes(before)}, now {_codes(after)}")
    return tuple(told)


def _codes(judgement: Judgement) -> str:
    return ", ".join(judgement.codes) or "no finding"
