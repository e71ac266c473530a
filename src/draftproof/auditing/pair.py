"""Two servers as the target of one audit: the second live, or what it answered in an earlier audit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from draftproof.auditing.config import AuditConfig
from draftproof.auditing.live import LiveTarget, open_live
from draftproof.auditing.rejudge import evidence_of
from draftproof.auditing.target import OpenTarget
from draftproof.checks.same.pair import Recorded
from draftproof.checks.sampling.streams import Stream
from draftproof.client.evidence import Sink
from draftproof.client.locks import one_audit_of, same_server
from draftproof.client.watch import Observed
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.errors import EvidenceError, UsageError
from draftproof.core.exchange import Exchange
from draftproof.core.facts import Facts
from draftproof.core.probe import Probe
from draftproof.core.terms import Terms

SECOND_NUMBER = 10_000_001
"""Exchanges of the second server are numbered from here on in the evidence."""

Fields = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True, slots=True)
class Other:
    """The second side: a server (`url`), or an evidence file (`against`). `fields` go into every request to the first and to the
    second server, so that one server can be compared in two configurations.
    """

    url: str = ""
    against: Path | None = None
    api_key_env: str | None = None
    fields: tuple[Fields, Fields] = ((), ())
    same_seeds: bool = False

    def __post_init__(self) -> None:
        if bool(self.url) == (self.against is not None):
            raise UsageError("There must be one second side.", "Give a second URL, or --against FILE.")


class LivePair:
    """Fulfils `checks.same.pair.PairProbe`: all that it does as a probe, the first server does."""

    def __init__(self, first: Probe, second: Probe | None, recorded: Recorded, *, same_seeds: bool) -> None:
        self.second, self.recorded, self.same_seeds = second, recorded, same_seeds
        self.facts, self.effort, self.known, self.samples = first.facts, first.effort, first.known, first.samples
        self.ask, self.ask_many, self.once, self.stream = first.ask, first.ask_many, first.once, first.stream
        self.oracle, self.oracle_many, self.noise = first.oracle, first.oracle_many, first.noise
        self.seeds, self.tokenize, self.get = first.seeds, first.tokenize, first.get
        self.begin = first.begin
        self._first = first

    @property
    def terms(self) -> Terms:
        return self._first.terms


class PairTarget:
    """Fulfils `audit.target.Target`: evidence of both servers goes into the first one's file."""

    def __init__(
        self,
        first: LiveTarget,
        second: LiveTarget | None,
        other: Other,
        recorded: tuple[Facts, Recorded] | None,
        met: Callable[[Facts], None],
    ) -> None:
        self._first, self._second, self._other, self._recorded, self._met = first, second, other, recorded, met
        self.evidence_path, self.notes = first.evidence_path, first.notes

    @property
    def requests(self) -> int:
        return self._first.requests + (self._second.requests if self._second else 0)

    def record(self, kind: str, data: Mapping[str, object]) -> None:
        self._first.record(kind, data)

    def connect(self, answered: Callable[[], None]) -> LivePair:
        first = self._first.connect(answered)
        first.fields = self._other.fields[0]
        second = None
        if self._second is not None:
            second = self._second.connect(answered, first_number=SECOND_NUMBER)
            second.fields = self._other.fields[1]
            self._met(second.facts)
        recorded = Recorded()
        if self._recorded is not None:
            facts, recorded = self._recorded
            self._met(facts)
        return LivePair(first, second, recorded, same_seeds=self._other.same_seeds)

    def observed(self) -> Observed:
        return self._first.observed()

    def close(self) -> None:
        if self._second is not None:
            self._second.close()
        self._first.close()


def open_pair_of(other: Other, met: Callable[[Facts], None] = lambda _facts: None) -> OpenTarget:
    """How to reach both sides; the audit's configuration names the first server. `met` hears who the second one is."""

    @contextmanager
    def open_both(config: AuditConfig, *, save: bool) -> Iterator[PairTarget]:
        recorded = None if other.against is None else recorded_in(other.against)
        apart = other.url and not same_server(config.url, other.url)
        with one_audit_of(other.url) if apart else nullcontext(), open_live(config, save=save) as first:
            second = None
            if other.url:
                second = LiveTarget(
                    replace(config, url=other.url, api_key_env=other.api_key_env), _Borrowed(first.sink), None
                )
            try:
                yield PairTarget(first, second, other, recorded, met)
            finally:
                if second is not None:
                    second.close()

    return open_both


@dataclass(frozen=True, slots=True)
class _Borrowed:
    """A sink that somebody else closes."""

    sink: Sink

    def write(self, exchange: Exchange) -> None:
        self.sink.write(exchange)

    def record(self, kind: str, data: Mapping[str, object]) -> None:
        """What the second server is, is told in the report; the file's own records are the first one's."""

    def close(self) -> None:
        pass


def recorded_in(path: Path) -> tuple[Facts, Recorded]:
    """The server of an earlier audit, and all that it answered. Raises EvidenceError for a file that holds no answers."""
    from draftproof.checks.builtin import CHECKS  # takes seconds: after whatever can be refused at once

    facts, evidence = evidence_of(path, CHECKS)
    answers: dict[Ask, Completion] = {}
    streams: list[Stream] = []
    for found in _parts(evidence):
        if isinstance(found, Completion):
            answers.setdefault(found.ask, found)
        else:
            streams.append(found)
    if not answers and not streams:
        raise EvidenceError(f"{path} holds no answers.", "Give the evidence file of an audit that came to its end.")
    return facts, Recorded(tuple(answers.values()), tuple(streams))


def _parts(value: object) -> Iterator[Completion | Stream]:
    """Every answer and every stream of samples in some evidence."""
    if isinstance(value, Completion | Stream):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _parts(item)
    elif dataclasses.is_dataclass(value):
        for f in dataclasses.fields(value):
            yield from _parts(getattr(value, f.name))
