"""HTTP as evidence: every request and answer becomes an Exchange, every failure a sentence with a remedy.

Knows nothing of what is asked. Redirects are reported, not followed: they would carry the API key elsewhere.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Self
from urllib.parse import quote, urlsplit

import httpx2

from draftproof.client.evidence import NullSink, Sink
from draftproof.core.errors import BudgetSpent, TargetError, Unreachable, UsageError
from draftproof.core.exchange import Attempt, Exchange

REDACTED = "[api key]"
_SECRET_LENGTH = 8
_KEPT_OF_REFUSED_BODY = 1 << 16


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait, how much to read, how often to try. `silence_s` is the longest gap without a byte."""

    connect_s: float = 10.0
    silence_s: float = 30.0
    total_s: float = 600.0
    body_bytes: int = 64 << 20
    attempts: int = 6
    backoff_s: float = 0.25
    """Doubled after every attempt: 6 attempts wait 7.75 s in all, time for a small server to come back."""
    retry_after_s: float = 60.0
    """The longest Retry-After that is honoured; a server that asks for more is not asked again."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that may be asked of a server; None is no limit. A batch is one request, and so is one that is tried again."""

    requests: int | None = None
    seconds: float | None = None


class _Failure(Exception):
    """An attempt without a usable answer. `retry` where a server that restarts would explain it."""

    def __init__(self, outcome: str, message: str, remedy: str, *, gone: bool = False, retry: bool = False) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.message = message
        self.remedy = remedy
        self.gone = gone
        self.retry = retry

    def error(self, number: int) -> TargetError:
        return (Unreachable if self.gone else TargetError)(self.message, self.remedy, number)


@dataclass(slots=True)
class _Trial:
    started_s: float
    elapsed_s: float = 0.0
    status: int | None = None
    body: bytes = b""
    reads: tuple[tuple[float, int], ...] = ()
    retry_after: str = ""
    failure: _Failure | None = None
    outcome: str = ""


class Http:
    """Asks one server. Safe to use from several threads.

    `url` may end in /v1. `api_key` goes into the Authorization header and nowhere else: an echo of it in an answer is
    replaced (keys shorter than 8 characters are taken for placeholders and are not). `answered` is called after every request,
    from whichever thread sent it. Raises UsageError for a URL that cannot be.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        limits: Limits | None = None,
        sink: Sink | None = None,
        transport: httpx2.BaseTransport | None = None,
        budget: Budget | None = None,
        answered: Callable[[], None] | None = None,
    ) -> None:
        self.requests = 0
        """Sent so far, repeated attempts not counted."""
        self.limits = limits or Limits()
        self.budget = budget or Budget()
        self.sink = sink or NullSink()
        self.url = base_url(url)
        self.stopped = threading.Event()
        self._transport = transport or httpx2.HTTPTransport(
            trust_env=True, limits=httpx2.Limits(max_connections=64, max_keepalive_connections=64, keepalive_expiry=4.0)
        )
        self._urls: dict[str, httpx2.URL] = {}
        self._numbered = threading.Lock()
        self._notify = answered
        self._began = time.monotonic()
        self._answered = False
        self._secrets = _spellings(api_key)
        self._headers = [
            (b"Host", httpx2.URL(self.url).netloc),
            (b"Accept-Encoding", b"identity"),
            (b"User-Agent", b"draftproof"),
        ]
        if api_key:
            self._headers.append((b"Authorization", _header_value(api_key)))
        wait = self.limits
        self._timeouts = {
            "timeout": {"connect": wait.connect_s, "read": wait.silence_s, "write": wait.silence_s, "pool": 600.0}
        }

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
            attempts.append(Attempt(round(trial.started_s, 6), round(trial.elapsed_s, 6), self._clean(trial.outcome)))
            pause_s = self._pause(trial, len(attempts))
            if pause_s is None or self.stopped.wait(pause_s):
                break
        exchange = Exchange(
            number,
            method,
            path,
            self._clean(body.decode()),
            trial.status,
            self._clean(trial.body.decode("utf-8", "replace")),
            tuple(attempts),
            trial.reads,
        )
        self.sink.write(exchange)
        if self._notify is not None:
            self._notify()
        if trial.failure:
            trial.failure.message = self._clean(trial.failure.message)
            raise trial.failure.error(number)
        return exchange

    def close(self) -> None:
        """Ends waits between attempts and closes the connections."""
        self.stopped.set()
        self._transport.close()

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
            raise BudgetSpent(f"The budget of {seconds:g} seconds is spent.", "Allow more with --budget.")
        with self._numbered:
            if most is not None and self.requests >= most:
                raise BudgetSpent(f"The budget of {most:,} requests is spent.", "Allow more with --budget.")
            self.requests += 1
            return self.requests

    def _try(self, method: str, path: str, body: bytes) -> _Trial:
        trial = _Trial(self.elapsed_s())
        began = time.perf_counter()
        try:
            self._talk(trial, method, path, body, began)
        except _Failure as failure:
            trial.failure = failure
            trial.outcome = failure.outcome
        except httpx2.HTTPError as e:
            trial.failure = self._explain(e, trial)
            trial.outcome = trial.failure.outcome
        else:
            self._answered = True
            trial.outcome = (
                str(trial.status)
                + (f" retry-after {trial.retry_after}" if trial.retry_after else "")
                + _foreign(trial.body)
            )
        trial.elapsed_s = time.perf_counter() - began
        return trial

    def _talk(self, trial: _Trial, method: str, path: str, body: bytes, began: float) -> None:
        headers = self._headers
        if method == "POST":
            headers = [*headers, (b"Content-Type", b"application/json"), (b"Content-Length", b"%d" % len(body))]
        request = httpx2.Request(
            method, self._at(path), headers=headers, stream=httpx2.ByteStream(body), extensions=self._timeouts
        )
        response = self._transport.handle_request(request)
        try:
            trial.status = response.status_code
            trial.retry_after = response.headers.get("retry-after", "")[:40]
            self._refuse_body_of(int(response.headers.get("content-length", "0") or 0))
            streamed = response.headers.get("content-type", "").startswith("text/event-stream")
            self._read(trial, response, began, streamed=streamed)
        finally:
            response.close()

    def _read(self, trial: _Trial, response: httpx2.Response, began: float, *, streamed: bool) -> None:
        chunks: list[bytes] = []
        reads: list[tuple[float, int]] = []
        size = 0
        try:
            for chunk in _raw(response):
                chunks.append(chunk)
                size += len(chunk)
                now = time.perf_counter() - began
                if streamed:
                    reads.append((round(now, 6), len(chunk)))
                if size > self.limits.body_bytes:
                    chunks = [b"".join(chunks)[:_KEPT_OF_REFUSED_BODY]]
                    self._refuse_body_of(size)
                if now > self.limits.total_s:
                    raise _Failure(
                        f"still answering after {now:.0f} s",
                        f"{self.url} was still answering one request after {now:.0f} s ({size:,} bytes).",
                        "Ask a faster server, or give it more time with --timeout.",
                    )
        finally:
            trial.body = b"".join(chunks)
            trial.reads = tuple(reads)

    def _refuse_body_of(self, size: int) -> None:
        if size > self.limits.body_bytes:
            raise _Failure(
                f"body of {size:,} bytes refused",
                f"{self.url} answered with a body of {size:,} bytes or more; the limit is {self.limits.body_bytes:,}.",
                "Is this an LLM server? No answer to draftproof's questions is that large.",
            )

    def _pause(self, trial: _Trial, tried: int) -> float | None:
        """Seconds to wait before the next attempt; None to stop."""
        backoff_s = self.limits.backoff_s * 2 ** (tried - 1)
        # A server that never answered is more likely absent than restarting: say so soon.
        most = self.limits.attempts if self._answered else min(2, self.limits.attempts)
        if tried >= most or self.stopped.is_set():
            return None
        if trial.failure:
            return backoff_s if trial.failure.retry else None
        if trial.status == 429:
            wait_s = _retry_after_s(trial.retry_after)
            return backoff_s if wait_s is None else wait_s if wait_s <= self.limits.retry_after_s else None
        return backoff_s if trial.status == 503 else None

    def _at(self, path: str) -> httpx2.URL:
        url = self._urls.get(path)
        if url is None:
            url = httpx2.URL(self.url + path)
            if len(self._urls) < 100:
                self._urls[path] = url
        return url

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, REDACTED)
        return text

    def _explain(self, error: httpx2.HTTPError, trial: _Trial) -> _Failure:
        where = self.url
        cause = _cause(error)
        if isinstance(error, httpx2.ConnectTimeout):
            wait_s = self.limits.connect_s
            return _Failure(
                f"no connection within {wait_s:g} s",
                f"{where} did not accept a connection within {wait_s:g} s.",
                "Check the host name and the firewall.",
                gone=True,
            )
        if isinstance(error, httpx2.TimeoutException):
            wait_s = self.limits.silence_s
            return _Failure(
                f"silence for {wait_s:g} s",
                f"{where} accepted a request and then sent nothing for {wait_s:g} s.",
                "If the server is merely slow, give it more time with --timeout; otherwise look at its log.",
            )
        if isinstance(error, httpx2.ConnectError):
            return _no_connection(where, cause)
        if trial.status is not None:
            return _Failure(
                f"connection dropped after {len(trial.body):,} bytes",
                f"{where} dropped the connection in the middle of an answer, after {len(trial.body):,} bytes ({cause}).",
                "Look at the server's log: it may have crashed.",
            )
        if isinstance(error, httpx2.RemoteProtocolError) and "disconnected" not in str(error).lower():
            return _Failure(
                f"no HTTP: {cause}",
                f"{where} did not answer in HTTP ({cause}).",
                "Check the port, and http against https.",
                gone=True,
            )
        return _Failure(
            f"connection closed without an answer: {cause}",
            f"{where} closed the connection without an answer ({cause}).",
            "Look at the server's log: it may have crashed.",
            gone=True,
            retry=True,
        )


def base_url(url: str) -> str:
    """`scheme://host[:port][/prefix]` without a final slash or /v1. Raises UsageError for anything else."""
    try:
        parts = urlsplit(url.strip())
        port_ok = parts.port is None or parts.port > 0
    except ValueError:
        port_ok = False
    if not port_ok or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is not the URL of a server.", "Give one like http://127.0.0.1:8080.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "The URL of the server must not hold a user name, a password, a query or a fragment.",
            "Give an API key by the name of an environment variable, with --api-key-env.",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}".rstrip("/")


def _raw(response: httpx2.Response) -> Iterator[bytes]:
    stream = response.stream
    assert isinstance(stream, httpx2.SyncByteStream)
    return iter(stream)


def _no_connection(where: str, cause: BaseException) -> _Failure:
    if isinstance(cause, ssl.SSLError):
        return _Failure(
            f"TLS: {cause.reason or cause}",
            f"The TLS handshake with {where} failed ({cause.reason or cause}).",
            "Check http against https, and the certificate (SSL_CERT_FILE names your own authority).",
            gone=True,
        )
    if isinstance(cause, socket.gaierror):
        return _Failure(
            f"unknown host: {cause.strerror}",
            f"The host of {where} is not known ({cause.strerror}).",
            "Check its name.",
            gone=True,
        )
    refused = isinstance(cause, ConnectionError)
    return _Failure(
        f"no connection: {cause}",
        f"No connection to {where} ({cause}).",
        "Is the server running, and on this port?",
        gone=True,
        retry=refused,
    )


def _cause(error: BaseException) -> BaseException:
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


def _foreign(body: bytes) -> str:
    try:
        body.decode()
    except UnicodeDecodeError as e:
        return f", not UTF-8 at byte {e.start}"
    return ""


def _retry_after_s(value: str) -> float | None:
    """Seconds from a Retry-After header, which is a number or a date; None when it is neither."""
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _header_value(api_key: str) -> bytes:
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise UsageError(
            "The API key holds characters that cannot be sent in a header.",
            "Check the environment variable that holds it.",
        )
    return b"Bearer " + api_key.encode()


def _spellings(secret: str) -> tuple[str, ...]:
    if len(secret) < _SECRET_LENGTH:
        return ()
    in_json = json.dumps(secret)[1:-1]
    return tuple(
        sorted(
            {secret, in_json, in_json.replace("/", "\\/"), quote(secret), quote(secret, safe="")}, key=len, reverse=True
        )
    )
