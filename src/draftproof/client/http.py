"""HTTP as evidence: every request and answer becomes an Exchange, every failure a sentence with a remedy.

Knows nothing of what is asked. Redirects are reported, not followed: they would carry the API key elsewhere.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from draftproof.client.connections import Connections, base_url
from draftproof.client.evidence import NullSink, Sink
from draftproof.client.failures import Failure, dropped, no_answer, no_connection, silent, too_large, too_long
from draftproof.client.keys import ApiKey
from draftproof.client.patience import Budget, Limits, Patience
from draftproof.core.errors import BudgetSpent
from draftproof.core.exchange import Attempt, Exchange

_KEPT_OF_REFUSED_BODY = 1 << 16
_READ = 1 << 16


@dataclass(slots=True)
class _Trial:
    started_s: float
    elapsed_s: float = 0.0
    status: int | None = None
    body: bytes = b""
    reads: tuple[tuple[float, int], ...] = ()
    retry_after: str = ""
    kept: bool = False
    """It went over a connection that had been idle."""
    failure: Failure | None = None
    outcome: str = ""


class Http:
    """Asks one server. Safe to use from several threads.

    `url` may end in /v1. `api_key` goes into the Authorization header and nowhere else: an echo of it in an answer is
    replaced (keys shorter than 8 characters are taken for placeholders and are not). `answered` is called after every request,
    from whichever thread sent it; exchanges are numbered from `first_number` on. Proxies are not used.
    Raises UsageError for a URL or a key that cannot be.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        limits: Limits | None = None,
        sink: Sink | None = None,
        budget: Budget | None = None,
        answered: Callable[[], None] | None = None,
        first_number: int = 1,
    ) -> None:
        self.requests = 0
        """Sent so far, repeated attempts not counted."""
        self.limits = limits or Limits()
        self.budget = budget or Budget()
        self.sink = sink or NullSink()
        self.url = base_url(url)
        self.stopped = threading.Event()
        self.patience = Patience(self.limits, self.budget, self.elapsed_s)
        self._connections = Connections(self.url, connect_s=self.limits.connect_s, silence_s=self.limits.silence_s)
        self._prefix = urlsplit(self.url).path
        self._numbered = threading.Lock()
        self._before = first_number - 1
        self._notify = answered
        self._began = time.monotonic()
        self._answered = False
        self._key = ApiKey(api_key)
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "draftproof", **self._key.headers}
        self._post_headers = {**self._headers, "Content-Type": "application/json"}

    def get(self, path: str) -> Exchange:
        """Any status is an answer. Raises TargetError, Unreachable, BudgetSpent."""
        return self.send("GET", path)

    def post(self, path: str, body: bytes) -> Exchange:
        """`body` is JSON in UTF-8. Any status is an answer. Raises TargetError, Unreachable, BudgetSpent."""
        return self.send("POST", path, body)

    def send(self, method: str, path: str, body: bytes = b"") -> Exchange:
        """One request, asked again only when the server is busy (429, 503) or away (refused, reset without an answer)."""
        number = self._number()
        attempts: list[Attempt] = []
        while True:
            trial = self._try(method, path, body)
            attempts.append(
                Attempt(round(trial.started_s, 6), round(trial.elapsed_s, 6), self._key.hide(trial.outcome))
            )
            pause_s = self._pause(trial, len(attempts))
            if pause_s is None or self.stopped.wait(pause_s):
                break
        exchange = Exchange(
            number,
            method,
            path,
            self._key.hide(body.decode()),
            trial.status,
            self._key.hide(trial.body.decode("utf-8", "replace")),
            tuple(attempts),
            trial.reads,
        )
        self.sink.write(exchange)
        if self._notify is not None:
            self._notify()
        if trial.failure:
            trial.failure.message = self._key.hide(trial.failure.message)
            raise trial.failure.error(number)
        return exchange

    def close(self) -> None:
        """Ends waits between attempts and closes the connections."""
        self.stopped.set()
        self._connections.end_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def elapsed_s(self) -> float:
        """Seconds since this client was made; the clock of `Attempt.started_s`."""
        return time.monotonic() - self._began

    def _number(self) -> int:
        most, seconds = self.budget.requests, self.budget.seconds
        if seconds is not None and self.elapsed_s() > seconds:
            raise BudgetSpent(
                f"The budget of {seconds:g} seconds is spent.", "Allow more with --budget (budget= from Python)."
            )
        with self._numbered:
            if most is not None and self.requests >= most:
                raise BudgetSpent(
                    f"The budget of {most:,} requests is spent.", "Allow more with --budget (budget= from Python)."
                )
            self.requests += 1
            return self._before + self.requests

    def _try(self, method: str, path: str, body: bytes) -> _Trial:
        trial = _Trial(self.elapsed_s())
        began = time.perf_counter()
        try:
            self._talk(trial, method, path, body, began)
        except Failure as failure:
            trial.failure = failure
            trial.outcome = failure.outcome
        else:
            self._answered = True
            trial.outcome = (
                f"{trial.status}{trial.retry_after and ' retry-after '}{trial.retry_after}{_foreign(trial.body)}"
            )
        trial.elapsed_s = time.perf_counter() - began
        return trial

    def _talk(self, trial: _Trial, method: str, path: str, body: bytes, began: float) -> None:
        try:
            connection, trial.kept = self._connections.take()
        except OSError as e:
            raise no_connection(self.url, e, self.limits.connect_s) from e
        whole = False
        try:
            response = self._begin(connection, method, path, body)
            trial.status = response.status
            trial.retry_after = (response.getheader("retry-after") or "")[:40]
            self._read(trial, response, began)
            response.close()
            # llama-server closes the connection behind a stream and does not say so.
            whole = "event-stream" not in (response.getheader("content-type") or "")
        finally:
            (self._connections.keep if whole else self._connections.end)(connection)

    def _begin(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes
    ) -> http.client.HTTPResponse:
        try:
            connection.request(method, self._prefix + path, body or None, self._post_headers if body else self._headers)
            return connection.getresponse()
        except TimeoutError as e:
            raise silent(self.url, self.limits.silence_s) from e
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise no_answer(self.url, e) from e

    def _read(self, trial: _Trial, response: http.client.HTTPResponse, began: float) -> None:
        """Reads the body into `trial`, with the time of each read when it is a stream."""
        chunks: list[bytes] = []
        reads: list[tuple[float, int]] = []
        size = response.length or 0
        try:
            if size > self.limits.body_bytes:
                raise too_large(self.url, size, self.limits.body_bytes)
            size = 0
            timed = response.length is None
            while chunk := response.read1(_READ):
                chunks.append(chunk)
                size += len(chunk)
                now = time.perf_counter() - began
                if timed:
                    reads.append((round(now, 6), len(chunk)))
                if size > self.limits.body_bytes:
                    raise too_large(self.url, size, self.limits.body_bytes)
                if now > self.limits.total_s:
                    raise too_long(self.url, now, size)
            if response.length:
                raise dropped(self.url, size, None)
        except TimeoutError as e:
            raise silent(self.url, self.limits.silence_s) from e
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise dropped(self.url, size, e) from e
        finally:
            kept = _KEPT_OF_REFUSED_BODY if size > self.limits.body_bytes else None
            trial.body = b"".join(chunks)[:kept]
            trial.reads = tuple(reads)

    def _pause(self, trial: _Trial, tried: int) -> float | None:
        """Seconds to wait before the next attempt; None to stop."""
        if self.stopped.is_set():
            return None
        pause_s = self.patience.pause(tried, trial.status, trial.retry_after, trial.failure, answered=self._answered)
        if pause_s is not None and trial.kept and trial.failure and trial.failure.retry:
            self._connections.end_idle()  # the server closed what it had left open: nothing to wait for
            return 0.0
        return pause_s


def require_listening(url: str, limits: Limits | None = None) -> None:
    """Opens a connection and closes it; once more for a server that is being restarted. No request is sent, but to a host that is
    to speak TLS and does not: whether it speaks plain HTTP.

    Raises UsageError for a URL that cannot be, Unreachable.
    """
    limits, base = limits or Limits(), base_url(url)
    connections = Connections(base, connect_s=limits.connect_s, silence_s=limits.silence_s)
    for last in (False, True):
        try:
            connections.end(connections.take()[0])
        except OSError as error:
            failure = no_connection(base, error, limits.connect_s)
            if last or not failure.retry:
                raise failure.error() from error
            time.sleep(limits.backoff_s)
        else:
            return


def _foreign(body: bytes) -> str:
    try:
        body.decode()
    except UnicodeDecodeError as e:
        return f", not UTF-8 at byte {e.start}"
    return ""
