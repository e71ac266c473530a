"""The verdicts of an audit computed again from its evidence file: no server, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from draftproof.auditing import codec
from draftproof.auditing.aggregates import aggregates
from draftproof.auditing.baseline import Baseline
from draftproof.auditing.limits import Limit
from draftproof.auditing.outcome import Outcome, Report, contradictions, exit_code
from draftproof.auditing.plan import Plan
from draftproof.auditing.record import FORMAT, VERSION, Collected, Ending, Header
from draftproof.auditing.safety import safe_to_use, what_to_do
from draftproof.auditing.selftest import require_sound
from draftproof.checks.check import AnyCheck, Terms
from draftproof.client.evidence import read_records
from draftproof.core.errors import EvidenceError
from draftproof.core.facts import Facts
from draftproof.core.verdict import Judgement, Verdict, merge


@dataclass(frozen=True, slots=True)
class Rejudged:
    """The report as it comes out now. `differences` are sentences, one per check that was recorded otherwise."""

    report: Report
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """The record of an audit's limits."""

    limits: tuple[Limit, ...]


@dataclass(slots=True)
class _Contents:
    """What of an evidence file matters for judging; the exchanges are passed over."""

    header: Header
    facts: Facts | None = None
    plan: Plan = field(default_factory=lambda: Plan(()))
    collected: dict[str, Collected] = field(default_factory=dict)
    recorded: dict[str, Outcome] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    ending: Ending | None = None
    records: int = 0
    cut_short: str = ""

    @property
    def stopped(self) -> str:
        if self.cut_short:
            return f"the file is cut short ({self.cut_short}): its first {self.records} records are whole, and those were judged"
        if self.ending is None:
            return f"the audit did not come to its end: {self.records} records were written"
        return self.ending.stopped


def rejudge(path: Path, checks: Sequence[AnyCheck], baseline: Baseline | None = None) -> Rejudged:
    """Judges every check in an evidence file again, at the terms it was judged at. The file may end anywhere.

    `checks` are all that exist. Raises EvidenceError when `path` is no audit's evidence or of a newer format,
    InstrumentError when draftproof fails its own test.
    """
    contents = _read(path)
    if contents.facts is None:
        raise EvidenceError(
            f"{path} ends before the server had described itself: there is nothing to judge.", "Repeat the audit."
        )
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
        facts=contents.facts,
        plan=contents.plan,
        outcomes=outcomes,
        verdict=merge([*(o.judgement.verdict for o in outcomes), *more]),
        exit_code=exit_code([*weighed.verdicts, *more], stale=bool(weighed.stale)),
        safety=safe_to_use(checks, outcomes),
        remedies=what_to_do(checks, outcomes, contents.facts),
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
    return Rejudged(report, _differences(outcomes, contents.recorded))


def evidence_of(path: Path, checks: Sequence[AnyCheck]) -> tuple[Facts, tuple[object, ...]]:
    """The server's facts, and the evidence of every check in the file that these `checks` can read.

    Raises EvidenceError as `rejudge` does.
    """
    contents = _read(path)
    if contents.facts is None:
        raise EvidenceError(f"{path} ends before the server had described itself.", "Give the file of a whole audit.")
    found = []
    for check in checks:
        if (collected := contents.collected.get(check.name)) is not None:
            with suppress(EvidenceError):
                found.append(codec.from_json(check.evidence, collected.evidence))
    return contents.facts, tuple(found)


def _read(path: Path) -> _Contents:
    records = read_records(path)
    stream = iter(records)
    contents = _Contents(header_of(next(stream, {}), path), records=1)
    try:
        for record in stream:
            contents.records += 1
            _take(contents, record.pop("kind"), record)
    except EvidenceError as error:
        contents.cut_short = error.message
    contents.cut_short = contents.cut_short or records.cut_short
    return contents


def header_of(record: dict[str, Any], path: Path) -> Header:
    """The first record of an evidence file. Raises EvidenceError where it is none, or of a newer format."""
    if record.pop("kind", None) != "header" or record.get("format") != FORMAT:
        raise EvidenceError(
            f"{path} is no evidence file of draftproof.",
            "Give the file that `draftproof check` named in its last line.",
        )
    version = record.get("version")
    if not isinstance(version, int) or version > VERSION:
        writer = record.get("draftproof")
        raise EvidenceError(
            f"{path} has evidence format version {version}; this draftproof reads up to {VERSION}.",
            f"Rejudge it with draftproof {writer if isinstance(writer, str) else 'as new as the one that wrote it'}.",
        )
    return codec.from_json(Header, record)


def _take(contents: _Contents, kind: str, data: object) -> None:
    match kind:
        case "facts":
            contents.facts = codec.from_json(Facts, data)
        case "plan":
            contents.plan = codec.from_json(Plan, data)
        case "evidence":
            collected = codec.from_json(Collected, data)
            contents.collected[collected.check] = collected
        case "judgement":
            outcome = codec.from_json(Outcome, data)
            contents.recorded[outcome.check] = outcome
        case "limits":
            contents.limits = codec.from_json(Told, data).limits
        case "final":
            contents.ending = codec.from_json(Ending, data)
        case _:
            pass


def _judge_again(name: str, check: AnyCheck | None, contents: _Contents) -> Outcome:
    recorded, collected = contents.recorded.get(name), contents.collected.get(name)
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
