"""A real server as the target of an audit: evidence to a file, the key from the environment, the known model recognised."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from draftproof.auditing.config import AuditConfig
from draftproof.auditing.resume import Earlier, require_same_server
from draftproof.auditing.target import kept_in
from draftproof.client.evidence import JsonLinesSink, NullSink, Sink
from draftproof.client.facts import connect
from draftproof.client.locks import one_audit_of
from draftproof.client.patience import Budget, Limits
from draftproof.client.probe import LiveProbe
from draftproof.client.watch import Observed
from draftproof.core.errors import EvidenceError, TargetError, UsageError
from draftproof.core.probe import KnownModel, OracleRow
from draftproof.countable.catalogue import servable
from draftproof.countable.files import open_pair

SAME_MODEL_NAT = 0.05
"""Another model differs by far more; what differs by less, and by more than `LAW_NAT`, is the known one with worse numerics."""

LAW_NAT = 0.02
"""Up to here the exact law stands in for one-token requests. Half-precision caches and batches of rows move values by 0.006."""

_CONTEXTS = ((1, 2, 3, 1, 2), (3,), (0, 5, 5, 4), (7, 6, 0, 2, 4, 1, 5, 3) * 4)


class LiveTarget:
    """Fulfils `audit.target.Target`."""

    def __init__(
        self, config: AuditConfig, sink: Sink, evidence_path: Path | None, earlier: Earlier | None = None
    ) -> None:
        self.evidence_path = evidence_path
        moved = sink.displaced if isinstance(sink, JsonLinesSink) else None
        self.notes: tuple[str, ...] = (
            () if moved is None else (f"What was in {evidence_path} before is in {moved} now.",)
        )
        self._earlier = earlier
        self._config = config
        self.sink = sink
        self._probe: LiveProbe | None = None
        self._lock = threading.Lock()
        self._answered = 0

    @property
    def requests(self) -> int:
        return self._answered

    def record(self, kind: str, data: Mapping[str, object]) -> None:
        self.sink.record(kind, data)

    def connect(self, answered: Callable[[], None], *, first_number: int = 1) -> LiveProbe:
        def count() -> None:
            with self._lock:
                self._answered += 1
            answered()

        config, earlier = self._config, self._earlier
        if earlier is not None:
            first_number = earlier.last_number + 1
            earlier.copy_to(self.sink)
        self._probe = connect(
            config.url,
            api_key=_api_key(config.api_key_env),
            limits=Limits(silence_s=config.timeout),
            sink=self.sink,
            seed=config.seed or 0,
            effort=config.effort,
            samples=config.samples,
            budget=Budget(config.budget.requests, config.budget.seconds),
            answered=count,
            first_number=first_number,
        )
        _recognise_model(self._probe, config.law)
        if earlier is not None:
            require_same_server(earlier, self._probe)
            self._probe.replay = earlier.replay()
        return self._probe

    def interrupt(self) -> None:
        """Ends waits and requests under way, from another thread; the audit has to end by itself."""
        if self._probe is not None:
            self._probe.close()

    def observed(self) -> Observed:
        return Observed() if self._probe is None else self._probe.observed()

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()
        self.sink.close()


@contextmanager
def open_live(config: AuditConfig, *, save: bool, earlier: Earlier | None = None) -> Iterator[LiveTarget]:
    """The server at `config.url`, and the audit to go on from; nothing is sent before `connect`. Fulfils
    `audit.target.OpenTarget`.
    """
    _api_key(config.api_key_env)
    path = (config.out or _fresh_path()) if save else None
    with one_audit_of(config.url):
        yield from _open(config, path, earlier)


def _open(config: AuditConfig, path: Path | None, earlier: Earlier | None) -> Iterator[LiveTarget]:
    sink = NullSink() if path is None else JsonLinesSink(path)
    target = LiveTarget(config, sink, path, earlier)
    try:
        yield target
    except BaseException as error:
        if isinstance(sink, JsonLinesSink):
            # Where nothing was audited the file would look like an audit.
            if not sink.answers or (isinstance(error, UsageError) and earlier is not None):
                target.close()
                sink.withdraw()
            elif isinstance(error, TargetError):
                error.remedy = f"{error.remedy} {kept_in(sink.path)}".strip()
        raise
    finally:
        with suppress(EvidenceError):  # told already by the record that failed first
            target.close()


def _api_key(name: str | None) -> str:
    if name is None:
        return ""
    key = os.environ.get(name, "")
    if not key:
        raise UsageError(
            f"The environment variable {name!r} is not set.",
            "--api-key-env (api_key_env=) takes a name, not the key itself.",
        )
    return key


def _fresh_path() -> Path:
    stem = time.strftime("draftproof-%Y%m%d-%H%M%S")
    path = Path(f"{stem}.jsonl.gz")
    number = 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}.jsonl.gz")
    return path


def _recognise_model(probe: LiveProbe, law: Path | None) -> None:
    """Attaches the pair in the folder `law`, or else the one of the built-in kinds that the server is seen to run."""
    vocabulary = probe.facts.vocabulary
    pairs = [open_pair(law)] if law is not None else [] if vocabulary is None else list(servable(vocabulary))
    if not pairs:
        return
    rows = _rows(probe)
    worst, pair = min(((_difference(pair, rows), pair) for pair in pairs), key=lambda found: found[0])
    if worst > SAME_MODEL_NAT:
        if law is not None:
            raise TargetError(
                f"The server's answers for one token are not those of the model in {law}.",
                "Name the folder of the model that it runs. If that is the one, its logprobs are wrong already there.",
            )
        return
    exact = worst <= LAW_NAT and all(row.complete for row in rows)
    probe.know(pair, rows[0] if exact else None)
    compared = f"{len(rows)} one-token answers differ from the exact laws of {pair.name} by at most {worst:.1g} nat"
    told = (
        f"{compared}: the exact laws stand in for further ones." if exact else f"{compared}: it is asked for each law."
    )
    probe.facts = replace(probe.facts, notes=(*probe.facts.notes, told))


def _rows(probe: LiveProbe) -> list[OracleRow]:
    """The server's laws after a few contexts; [] where it gives none."""
    if not probe.facts.token_prompts or not probe.facts.max_alternatives:
        return []
    try:
        return probe.oracle_many(_CONTEXTS)
    except TargetError:
        return []


def _difference(pair: KnownModel, rows: Sequence[OracleRow]) -> float:
    """The largest difference in nats between rows and the pair's laws; infinite where they do not fit together."""
    if not rows or any(not row.ids or min(row.ids) < 0 or max(row.ids) >= pair.vocabulary for row in rows):
        return math.inf
    laws = pair.target_many(_CONTEXTS)
    gaps = (np.abs(law[list(row.ids)] - row.logprobs).max() for law, row in zip(laws, rows, strict=True))
    return float(max(gaps))
