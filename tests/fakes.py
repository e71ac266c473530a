"""Small checks and a server that is none: what the audit, its reports and its commands are tested on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from draftproof.auditing.config import AuditConfig
from draftproof.checks.check import AnyCheck, Check, Example
from draftproof.client.evidence import JsonLinesSink, MemorySink, NullSink, Sink
from draftproof.client.watch import Observed
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.errors import EvidenceError
from draftproof.core.facts import Facts
from draftproof.core.probe import TARGET_TV, Effort, KnownModel, OracleRow, Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

URL = "http://127.0.0.1:1"


@dataclass(frozen=True, slots=True)
class Seen:
    """Evidence of the fake checks: logprobs as they came, None for a missing one."""

    logprobs: tuple[float | None, ...]


def judge_zeros(evidence: Seen, terms: Terms) -> Judgement:
    """FAIL when every logprob is zero, inconclusive when there is none."""
    if not evidence.logprobs:
        return Judgement(Verdict.INCONCLUSIVE, "no logprob was seen", missing="tokens with logprobs")
    if all(lp == 0 for lp in evidence.logprobs):
        n = len(evidence.logprobs)
        return Judgement(
            Verdict.FAIL,
            f"all {n} logprobs are 0.0",
            findings=(Finding("PLACEHOLDER", "0.0 without alternatives", (1,)),),
            measured={"t1 mean logprob reported": 0.0, "t1 mean logprob true": -1.25},
            tables=(Table("counts", ("token", "count", "law"), (("a", 3, 0.25), ("b", 9, 0.75))),),
        )
    return Judgement(Verdict.PASS, f"{len(evidence.logprobs)} logprobs vary")


EXAMPLES = (
    Example("zeros", Seen((0.0, 0.0)), Verdict.FAIL, ("PLACEHOLDER",)),
    Example("values", Seen((-0.5, float("-inf"), None)), Verdict.PASS),
    Example("nothing", Seen(()), Verdict.INCONCLUSIVE),
)


def check(name: str, collect: Callable[[Probe], Seen], **changes: Any) -> AnyCheck:
    made: AnyCheck = Check(
        name=name,
        claim=f"the claim of {name}",
        blind_to="everything else",
        remedy=f"the remedy of {name}",
        aspects=("logprobs",),
        evidence=Seen,
        collect=collect,
        judge=judge_zeros,
        requests=lambda _facts, _effort: 3,
        examples=EXAMPLES,
    )
    return replace(made, **changes)


def seeing(*logprobs: float | None) -> Callable[[Probe], Seen]:
    def collect(probe: Probe) -> Seen:
        probe.ask(Ask("x", 1))
        return Seen(logprobs)

    return collect


def raising(error: BaseException) -> Callable[[Probe], Seen]:
    def collect(probe: Probe) -> Seen:
        probe.ask(Ask("x", 1))
        raise error

    return collect


SOUND = check("logprobs/sound", seeing(-0.5, -1.5))
FAULTY = check("logprobs/faulty", seeing(0.0, 0.0, 0.0))
UNDECIDED = check("sampling/undecided", seeing())
NOT_APPLICABLE = check("self_report/absent", seeing(), applies=lambda _facts: "the server never claimed this")

FACTS = Facts(
    url=URL,
    dialect="llama-server",
    dialect_evidence="/props",
    build="b1",
    model="countable-8",
    self_reports=(("/props speculative.types", "none"), ("/slots speculative", True)),
    routes=("/completion",),
    reports_drafts=True,
    token_prompts=True,
    token_ids=True,
    max_alternatives=40,
    grammar=True,
    coupling="mt19937",
)


class FullDisk(MemorySink):
    """Takes so many records and then no more."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def record(self, kind: str, data: Mapping[str, object]) -> None:
        if len(self.records) >= self.room:
            raise EvidenceError(
                "The evidence file could not be continued: No space left on device.", "Free some space."
            )
        super().record(kind, data)


@dataclass
class FakeProbe:
    answered: Callable[[], None]
    facts: Facts = FACTS
    effort: Effort = Effort.QUICK
    known: KnownModel | None = None
    samples: int | None = None

    def __post_init__(self) -> None:
        self.terms = Terms(target_tv=TARGET_TV[self.effort])

    def begin(self, check: str, terms: Terms) -> None:
        self.terms = terms

    def ask(self, ask: Ask) -> Completion:
        self.answered()
        return Completion(ask, 1, "/completion", 200)

    def ask_many(self, asks: Iterable[Ask]) -> Iterator[Completion]:
        return map(self.ask, asks)

    def stream(self, ask: Ask, n: int) -> list[Completion]:
        return [self.ask(ask) for _ in range(n)]

    def once(self, asks: Sequence[Ask]) -> list[Completion]:
        return list(map(self.ask, asks))

    def oracle(self, context: Prompt, alternatives: int | None = None) -> OracleRow:
        raise NotImplementedError

    def oracle_many(
        self, contexts: Sequence[Prompt], alternatives: int | None = None, *, by_server: bool = False
    ) -> list[OracleRow]:
        raise NotImplementedError

    def noise(self, contexts: Sequence[Prompt], batches: tuple[int, ...] = ()) -> float:
        raise NotImplementedError

    def seeds(self, n: int) -> range:
        return range(n)

    def tokenize(self, text: str) -> tuple[int, ...] | None:
        raise NotImplementedError

    def get(self, path: str) -> str | None:
        raise NotImplementedError


@dataclass
class FakeTarget:
    """Answers at once; `trouble` is raised on connecting."""

    sink: Sink = field(default_factory=NullSink)
    evidence_path: Path | None = None
    notes: tuple[str, ...] = ()
    facts: Facts = FACTS
    trouble: Exception | None = None
    requests: int = 0
    connected: bool = False
    seen: Observed = field(default_factory=Observed)

    def record(self, kind: str, data: Any) -> None:
        self.sink.record(kind, data)

    def connect(self, answered: Callable[[], None]) -> Probe:
        self.connected = True

        def count() -> None:
            self.requests += 1
            answered()

        if self.trouble:
            raise self.trouble
        count()
        return FakeProbe(count, facts=self.facts)

    def observed(self) -> Observed:
        return self.seen

    def close(self) -> None:
        self.sink.close()

    @contextmanager
    def open(self, config: AuditConfig, *, save: bool, earlier: object = None) -> Iterator[FakeTarget]:
        if save and config.out is not None:
            self.sink, self.evidence_path = JsonLinesSink(config.out), config.out
        try:
            yield self
        finally:
            self.sink.close()
