"""What an evidence file holds, as far as it can be read: it may end anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from draftproof.auditing import codec
from draftproof.auditing.limits import Limit
from draftproof.auditing.outcome import Outcome
from draftproof.auditing.plan import Plan
from draftproof.auditing.record import FORMAT, VERSION, Collected, Ending, Header
from draftproof.client.evidence import exchange_from_record, read_records
from draftproof.core.errors import EvidenceError
from draftproof.core.exchange import Exchange
from draftproof.core.facts import Facts

UNFINISHED = "(unfinished)"
"""What was asked for a check that did not come to its end."""


@dataclass(frozen=True, slots=True)
class Told:
    """The record of an audit's limits."""

    limits: tuple[Limit, ...]


@dataclass(slots=True)
class Contents:
    """The records of one audit. `collected` and `outcomes` by check; `exchanges`, where they were asked for, by the check that they
    were for ("" before the first). `cut_short`: why not all could be read ("" = all was), after so many whole `records`.
    """

    path: Path
    header: Header
    facts: Facts | None = None
    plan: Plan = field(default_factory=lambda: Plan(()))
    collected: dict[str, Collected] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    exchanges: dict[str, list[Exchange]] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    ending: Ending | None = None
    records: int = 0
    cut_short: str = ""

    @property
    def stopped(self) -> str:
        """Why the audit did not come to its end; "" where it did."""
        if self.cut_short:
            return f"the file is cut short ({self.cut_short}): its first {self.records} records are whole, and those were judged"
        if self.ending is None:
            return f"the audit did not come to its end: {self.records} records were written"
        return self.ending.stopped

    def described(self, remedy: str) -> Facts:
        """The server's facts. Raises EvidenceError with this remedy for a file that ends before them."""
        if self.facts is None:
            why = f" ({self.cut_short})" if self.cut_short else ""
            raise EvidenceError(f"{self.path} ends before the server had described itself{why}.", remedy)
        return self.facts


def read_contents(path: Path, *, exchanges: bool = False) -> Contents:
    """Raises EvidenceError where `path` is no audit's evidence or of a newer format. `exchanges`: them too, which takes longer."""
    records = read_records(path)
    stream = iter(records)
    contents = Contents(path, _header(next(stream, {}), path), records=1)
    waiting: list[Exchange] = []
    try:
        for record in stream:
            contents.records += 1
            kind = record.pop("kind")
            _take(contents, kind, record)
            if exchanges:
                _sort(contents.exchanges, waiting, kind, record)
    except EvidenceError as error:
        contents.cut_short = error.message
    contents.cut_short = contents.cut_short or records.cut_short
    if exchanges:
        contents.exchanges.setdefault(UNFINISHED, []).extend(waiting)
    return contents


def _header(record: dict[str, Any], path: Path) -> Header:
    """From the first record of the file."""
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


def _take(contents: Contents, kind: str, data: dict[str, Any]) -> None:
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
            contents.outcomes[outcome.check] = outcome
        case "limits":
            contents.limits = codec.from_json(Told, data).limits
        case "final":
            contents.ending = codec.from_json(Ending, data)
        case _:
            pass


def _sort(by_check: dict[str, list[Exchange]], waiting: list[Exchange], kind: str, data: dict[str, Any]) -> None:
    """Exchanges wait for the record that says what they were for."""
    if kind == "exchange":
        waiting.append(exchange_from_record(data))
    elif kind == "earlier":
        by_number = {e.number: e for e in waiting}
        for check, numbers in data["exchanges"].items():
            by_check[check] = [by_number.pop(n) for n in numbers if n in by_number]
        waiting[:] = by_number.values()
    elif kind in {"facts", "judgement"}:
        by_check.setdefault("" if kind == "facts" else str(data.get("check")), []).extend(waiting)
        waiting.clear()
