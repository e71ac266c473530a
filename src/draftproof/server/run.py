"""From a loaded model to a server that listens, and to its clean end."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from draftproof.core.errors import UsageError
from draftproof.server.app import OPEN, Access, create_app
from draftproof.server.listening import listen, url_of
from draftproof.server.served import Served
from draftproof.server.worker import Worker

_SWITCH_S = 0.0005
"""How long a thread may keep the interpreter: an answer on its way out must not wait for the next step of the engine."""
_KEEP_ALIVE_S = 30
_START_S = 30
_GRACE_S = 3
"""How long connections may take to read their last words."""


@dataclass(frozen=True, slots=True)
class Options:
    """slots: answers made at once; waiting: the most that wait for one."""

    slots: int = 1
    waiting: int = 256
    access: Access = OPEN


ONE_SLOT = Options()


class Server(uvicorn.Server):
    """The server around a loaded model, which it owns. `ready` is told the URL once requests are taken."""

    def __init__(
        self, served: Served, options: Options = ONE_SLOT, ready: Callable[[str], None] = lambda _: None
    ) -> None:
        self.worker = Worker(served, slots=options.slots, waiting=options.waiting)
        config = uvicorn.Config(
            create_app(self.worker, options.access),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_GRACE_S,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            http=H11Protocol,
            ws="none",
        )
        super().__init__(config)
        self._told_ready = ready
        self._url = ""

    def run_on(self, listening: socket.socket) -> None:
        """Serves until SIGTERM, SIGINT or `should_exit`. Ends what the engine makes, then the models are closed."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                # uvicorn raises a signal again when it has ended, which by default would kill before the models are closed
                signal.signal(number, self.handle_exit)
        sys.setswitchinterval(_SWITCH_S)
        self._url = url_of(listening)
        self.worker.start()
        gc.freeze()
        gc.enable()
        try:
            self.run(sockets=[listening])
        finally:
            self.worker.stop()
            close(self.worker.served)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._told_ready(self._url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # first the engine, so that streams end with their last words instead of being waited for
        await asyncio.to_thread(self.worker.stop)
        await super().shutdown(sockets)


class Background:
    """`with Background(served) as server: server.url`: the server in a thread, on a free port of this machine.

    kind: what makes the server.
    """

    def __init__(
        self,
        served: Served,
        options: Options = ONE_SLOT,
        kind: Callable[[Served, Options, Callable[[str], None]], Server] = Server,
    ) -> None:
        self.url = ""
        self._ready = threading.Event()
        self._server = kind(served, options, self._listens)
        self._listening = listen("127.0.0.1", 0)
        self._thread = threading.Thread(target=self._server.run_on, args=(self._listening,), name="server", daemon=True)

    @property
    def worker(self) -> Worker:
        return self._server.worker

    def _listens(self, url: str) -> None:
        self.url = url
        self._ready.set()

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_START_S):
            raise UsageError("The server did not start.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listening.close()


def close(served: Served) -> None:
    """Frees the models."""
    served.models.close()
