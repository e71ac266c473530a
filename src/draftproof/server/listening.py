"""A socket that listens: taken before anything heavy is loaded, so that a taken port is known at once."""

from __future__ import annotations

import errno
import os
import socket

from draftproof.core.errors import UsageError


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises UsageError when the port is taken or the address is none of this machine."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"{host} is no address to listen on: {error.strerror or error}.") from error
    if os.name == "posix":
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
        found.listen(256)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            remedy = "Take another with --port, or --port 0 for any that is free."
            raise UsageError(f"Port {port} of {host} is taken.", remedy) from error
        raise UsageError(f"Cannot listen on {host} port {port}: {error.strerror or error}.") from error
    found.setblocking(False)
    return found


def url_of(listening: socket.socket) -> str:
    """Where clients find it."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
