"""What went wrong between us and a server, in a sentence with a remedy."""

from __future__ import annotations

import http.client
import socket
import ssl

from draftproof.client.connections import HandshakeSilence
from draftproof.core.errors import TargetError, Unreachable

_NO_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}
"""What the TLS library calls an answer that is none of TLS."""


class Failure(Exception):
    """An attempt without a usable answer.

    `outcome` is for the evidence; `gone`: no answer at all; `retry`: a server that restarts would explain it.
    """

    def __init__(self, outcome: str, message: str, remedy: str, *, gone: bool = False, retry: bool = False) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.message = message
        self.remedy = remedy
        self.gone = gone
        self.retry = retry

    def error(self, exchange: int | None = None) -> TargetError:
        return (Unreachable if self.gone else TargetError)(self.message, self.remedy, exchange)


def no_connection(url: str, error: OSError, waited_s: float) -> Failure:
    """From what `connect` raised."""
    plain = f"http{url.removeprefix('https')}"
    if isinstance(error, HandshakeSilence) or getattr(error, "reason", None) in _NO_TLS:
        message = f"{url} accepts connections and does not speak TLS (https)."
        return Failure("no TLS", message, f"Is it a server of plain HTTP? Then give {plain}.", gone=True)
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        remedy = f"Is it a server of plain HTTP? Then give {plain}. Else look at its log."
        if isinstance(error, ssl.SSLCertVerificationError):
            remedy = "Check its certificate (SSL_CERT_FILE names your own authority)."
        return Failure(f"TLS: {reason}", f"The TLS handshake with {url} failed ({reason}).", remedy, gone=True)
    if isinstance(error, socket.gaierror):
        reason = error.strerror or str(error)
        return Failure(
            f"unknown host: {reason}", f"The host of {url} is not known ({reason}).", "Check its name.", gone=True
        )
    if isinstance(error, TimeoutError):
        outcome = f"no connection within {waited_s:g} s"
        message = f"{url} did not accept a connection within {waited_s:g} s."
        return Failure(outcome, message, "Check the host name and the firewall.", gone=True)
    return Failure(
        f"no connection: {_reason(error)}",
        f"No connection to {url} ({_reason(error)}).",
        "Is the server running, and on this port?",
        gone=True,
        retry=isinstance(error, ConnectionError),
    )


def no_answer(url: str, error: Exception) -> Failure:
    """From what was raised after sending a request and before an answer began."""
    if isinstance(error, (http.client.HTTPException, ValueError)) and not isinstance(
        error, http.client.RemoteDisconnected
    ):
        said = f"{type(error).__name__} {error}"[:100]
        message = f"{url} did not answer in HTTP ({said})."
        return Failure(f"no HTTP: {said}", message, "Check the port, and http against https.", gone=True)
    return Failure(
        f"connection closed without an answer: {_reason(error)}",
        f"{url} closed the connection without an answer ({_reason(error)}).",
        "Look at the server's log: it may have crashed. Or does it speak https?",
        gone=True,
        retry=True,
    )


def dropped(url: str, size_bytes: int, error: Exception | None) -> Failure:
    """The connection ended in the middle of an answer."""
    how = f" ({_reason(error)})" if error is not None else ""
    return Failure(
        f"connection dropped after {size_bytes:,} bytes",
        f"{url} dropped the connection in the middle of an answer, after {size_bytes:,} bytes{how}.",
        "Look at the server's log: it may have crashed.",
    )


def silent(url: str, waited_s: float) -> Failure:
    return Failure(
        f"silence for {waited_s:g} s",
        f"{url} accepted a request and then sent nothing for {waited_s:g} s.",
        "If the server is merely slow, give it more time with --timeout (timeout= from Python); otherwise look at its log.",
    )


def too_long(url: str, elapsed_s: float, size_bytes: int) -> Failure:
    return Failure(
        f"still answering after {elapsed_s:.0f} s",
        f"{url} was still answering one request after {elapsed_s:.0f} s ({size_bytes:,} bytes).",
        "Look at the server's log: does it send anything but an answer?",
    )


def too_large(url: str, size_bytes: int, limit_bytes: int) -> Failure:
    return Failure(
        f"body of {size_bytes:,} bytes refused",
        f"{url} answered with a body of {size_bytes:,} bytes or more; the limit is {limit_bytes:,}.",
        "Is this an LLM server? No answer to draftproof's questions is that large.",
    )


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
