"""What a watch has found, for Prometheus."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from draftproof.core.errors import UsageError
from draftproof.core.verdict import Verdict
from draftproof.watch.rounds import Ended

_VALUES = {Verdict.PASS: 1.0, Verdict.FAIL: 0.0}


class Metrics:
    """Counters and gauges of one watch."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._sound = Gauge(
            "draftproof_sound",
            "1 where the last decisive verdict is a pass, 0 where it is a fault.",
            ["check"],
            registry=self.registry,
        )
        self._rounds = Counter("draftproof_rounds", "Rounds made, with an audit or without.", registry=self.registry)
        self._requests = Counter("draftproof_requests", "Requests sent to the server.", registry=self.registry)
        self._changes = Counter("draftproof_changes", "Changes of a verdict.", ["check", "to"], registry=self.registry)
        self._failed = Counter(
            "draftproof_rounds_without_audit",
            "Rounds in which the server could not be audited.",
            registry=self.registry,
        )
        self._wealth = Gauge(
            "draftproof_log_evidence",
            "Log of the evidence against the target's law, over all rounds.",
            registry=self.registry,
        )
        self._last = Gauge(
            "draftproof_last_round_timestamp_seconds", "When the last round ended, Unix time.", registry=self.registry
        )

    def add(self, ended: Ended) -> None:
        self._rounds.inc()
        self._requests.inc(ended.made.requests)
        self._failed.inc(bool(ended.trouble))
        self._last.set(time.time())
        if math.isfinite(ended.log_wealth):
            self._wealth.set(ended.log_wealth)
        for standing in ended.standing.values():
            self._sound.labels(standing.name).set(_VALUES[standing.verdict])
        for change in ended.changes:
            self._changes.labels(change.name, change.after.value).inc()

    def serve(self, host: str, port: int) -> Callable[[], None]:
        """Answers GET /metrics from now on; what is returned ends that. Raises UsageError when the port is taken."""
        try:
            server, thread = start_http_server(port, host, registry=self.registry)
        except OSError as error:
            raise UsageError(
                f"Metrics cannot be served on {host}:{port}: {error.strerror}.", "Choose another --metrics-port."
            ) from error

        def end() -> None:
            server.shutdown()
            thread.join()

        return end
