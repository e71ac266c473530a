"""From a loaded model to a server that listens, and to its clean end."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from draftproof.core.errors import UsageError
from draftproof.server.app import OPEN, Access, create_app
from draftproof.server.served import Served
from draftproof.server.worker import Worker

_SWITCH_S = 0.0005
"""How long a thread may keep the interpreter: an answer on its way out must not wait for the next step of the engine."""
_GRACE_S = 3
"""How long connections may take to read their last words."""


@dataclass(frozen=True, slots=True)
class Options:
    """slots: answers made at once; waiting: the most that wait for one."""

    slots: int = 1
    waiting: int = 256
    access: Access = OPEN


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


class _Server(uvicorn.Server):
    """Ends what the engine makes before it waits for connections to close, and tells when it listens."""

    def __init__(self, config: uvicorn.Config, worker: Worker, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._worker = worker
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.to_thread(self._worker.stop)
        await super().shutdown(sockets)


def serve(
    served: Served, options: Options, listening: socket.socket, ready: Callable[[str], None] = lambda _: None
) -> None:
    """Serves until SIGTERM or SIGINT. `ready` is told the URL once requests are taken. The models are closed at the end."""
    sys.setswitchinterval(_SWITCH_S)
    worker = Worker(served, slots=options.slots, waiting=options.waiting)
    app = create_app(worker, options.access)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_S,
        server_header=False,
        timeout_keep_alive=30,
        http="h11",
    )
    url = url_of(listening)
    worker.start()
    gc.freeze()
    try:
        _Server(config, worker, lambda: ready(url)).run(sockets=[listening])
    finally:
        worker.stop()
        close(served)


def close(served: Served) -> None:
    """Frees the models."""
    served.models.close()
