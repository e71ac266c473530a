"""A real server as the target of an audit: evidence to a file, the key from the environment, the known model recognised."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from draftproof.audit.config import AuditConfig
from draftproof.client.evidence import JsonLinesSink, NullSink, Sink
from draftproof.client.facts import connect
from draftproof.client.http import Budget, Limits
from draftproof.client.probe import LiveProbe
from draftproof.core.errors import EvidenceError, TargetError, UsageError
from draftproof.core.probe import KnownModel
from draftproof.countable.catalogue import builtin
from draftproof.countable.files import open_pair

SAME_MODEL_NAT = 0.05
"""Half-precision caches move the countable model's logprobs by 0.004; another model differs by far more."""

_CONTEXTS = ((1, 2, 3, 1, 2), (3,), (0, 5, 5, 4))


class LiveTarget:
    """Fulfils `audit.target.Target`."""

    def __init__(self, config: AuditConfig, sink: Sink, evidence_path: Path | None) -> None:
        self.evidence_path = evidence_path
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

        config = self._config
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
        known = _known_model(self._probe, config.law)
        if known is not None:
            self._probe.known = known
            self._probe.facts = replace(self._probe.facts, countable=known.name)
        return self._probe

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()
        self.sink.close()


@contextmanager
def open_live(config: AuditConfig, *, save: bool) -> Iterator[LiveTarget]:
    """The server at `config.url`; nothing is sent before `connect`. Fulfils `audit.target.OpenTarget`."""
    _api_key(config.api_key_env)
    path = (config.out or _fresh_path()) if save else None
    target = LiveTarget(config, NullSink() if path is None else JsonLinesSink(path), path)
    try:
        yield target
    except TargetError as error:
        if path is not None:
            error.remedy = f"{error.remedy} What was exchanged is in {path}.".strip()
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
            f"The environment variable {name!r} is not set.", "--api-key-env takes a name, not the key itself."
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


def _known_model(probe: LiveProbe, law: Path | None) -> KnownModel | None:
    """The pair in the folder `law`, or else the built-in one where the server is seen to run it."""
    if law is not None:
        pair = open_pair(law)
        if not _runs(probe, pair):
            raise TargetError(
                f"The server's answers for one token are not those of the model in {law}.",
                "Name the folder of the model that it runs. If that is the one, its logprobs are wrong already there.",
            )
        return pair
    pair = builtin()
    return pair if probe.facts.vocabulary == pair.vocabulary and _runs(probe, pair) else None


def _runs(probe: LiveProbe, pair: KnownModel) -> bool:
    if not probe.facts.token_prompts or not probe.facts.max_alternatives:
        return False
    try:
        rows = probe.oracle_many(_CONTEXTS)
    except TargetError:
        return False
    for context, row in zip(_CONTEXTS, rows, strict=True):
        law = pair.target(context)
        if not row.ids or max(row.ids) >= law.size:
            return False
        if np.abs(law[list(row.ids)] - np.asarray(row.logprobs)).max() > SAME_MODEL_NAT:
            return False
    return True
