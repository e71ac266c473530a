"""Kept-alive HTTP/1.1 connections to one server, on the standard library's client.

It costs a third of the processor time of the larger clients per request, which an audit that shares a small machine with the
server under test would otherwise take away from that server.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import time
from collections import deque
from urllib.parse import urlsplit

from draftproof.core.errors import UsageError

PROMPT_S = 0.5
"""After so long a silence in the TLS handshake the host is asked whether it speaks plain HTTP."""

HANDSHAKE_S = 5.0
"""The longest wait for the TLS handshake of a host that has accepted the connection and does not show that it speaks plain HTTP."""

_SURELY_OPEN_S = 0.5
"""Few servers close a connection sooner; asking the system every time would cost a switch of threads."""


def base_url(url: str) -> str:
    """`scheme://host[:port][/prefix]` without a final slash or /v1. Raises UsageError for anything else."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        sendable = (
            (parts.port is None or parts.port > 0) and parts.path.isascii() and url.isprintable() and " " not in url
        )
    except ValueError:
        sendable = False
    if not sendable or parts.scheme not in ("http", "https") or not parts.hostname:
        shown = "This" if "@" in url else repr(url)  # what stands before an @ may be a password
        raise UsageError(f"{shown} is not the URL of a server.", "Give one like http://127.0.0.1:8080.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "The URL of the server must not hold a user name, a password, a query or a fragment.",
            "Give an API key by the name of an environment variable, with --api-key-env.",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}".rstrip("/")


class HandshakeSilence(TimeoutError):
    """The connection was accepted, and the TLS handshake was not answered."""


class _Tls(http.client.HTTPSConnection):
    """Tells a host that is not there from one that does not speak TLS."""

    def __init__(self, host: str, port: int | None, *, timeout: float, context: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls = context

    def connect(self) -> None:
        """Raises HandshakeSilence: soon of a server of plain HTTP, which waits for the end of a line that TLS does not send."""
        for wait_s in (PROMPT_S, HANDSHAKE_S):
            http.client.HTTPConnection.connect(self)
            self.sock.settimeout(min(wait_s, self.timeout or wait_s))
            try:
                self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)
                return
            except TimeoutError as error:
                silence = HandshakeSilence(*error.args)
            if _speaks_http(self.host, self.port):
                break
        raise silence


def _speaks_http(host: str, port: int) -> bool:
    """Whether the host answers a request in plain HTTP, and not to say that TLS is what it expects (400, or a redirect)."""
    connection = http.client.HTTPConnection(host, port, timeout=PROMPT_S)
    try:
        connection.request("HEAD", "/")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return status != http.HTTPStatus.BAD_REQUEST and not 300 <= status < 400


class Connections:
    """Opens, keeps and ends connections. `url` is a base URL with scheme and host. Safe to use from several threads."""

    def __init__(self, url: str, *, connect_s: float, silence_s: float) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        self._host, self._port = parts.hostname, parts.port
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._connect_s = connect_s
        self._silence_s = silence_s
        self._idle: deque[tuple[http.client.HTTPConnection, float]] = deque()
        self._live: set[socket.socket] = set()

    def take(self) -> tuple[http.client.HTTPConnection, bool]:
        """An idle connection that seems open, and True, or a new one, and False. Raises OSError."""
        while self._idle:
            with contextlib.suppress(IndexError):
                connection, since = self._idle.pop()
                if time.monotonic() - since < _SURELY_OPEN_S or _is_open(connection.sock):
                    return connection, True
                self.end(connection)
        return self._connect(), False

    def keep(self, connection: http.client.HTTPConnection) -> None:
        """Gives back a connection whose answer was read to its end."""
        if connection.sock is None:
            self._forget_closed()
        else:
            self._idle.append((connection, time.monotonic()))

    def end(self, connection: http.client.HTTPConnection) -> None:
        sock = connection.sock
        connection.close()
        if sock is not None:
            self._live.discard(sock)

    def end_idle(self) -> None:
        while self._idle:
            with contextlib.suppress(IndexError):
                self.end(self._idle.pop()[0])

    def end_all(self) -> None:
        """Ends all connections, those in use too: their threads wake up at once."""
        for sock in list(self._live):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.end_idle()

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._connect_s)
        else:
            connection = _Tls(self._host, self._port, timeout=self._connect_s, context=self._tls)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        connection.sock.settimeout(self._silence_s)
        self._live.add(connection.sock)
        return connection

    def _forget_closed(self) -> None:
        for sock in list(self._live):
            if sock.fileno() < 0:
                self._live.discard(sock)


def _is_open(sock: socket.socket) -> bool:
    """Between requests a server has nothing to say: bytes, or the end of the stream, mean that it closed."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return not poll.poll(0)
