"""A gateway that listens, and its clean end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import uvicorn

from draftproof.core.errors import UsageError
from draftproof.gateway.app import Options, create_app
from draftproof.gateway.upstream import Fleet, Upstream
from draftproof.server.listening import listen, url_of

_KEEP_ALIVE_S = 30
_GRACE_S = 3
_START_S = 30


class Server(uvicorn.Server):
    """`ready` is told the URL once requests are taken."""

    def __init__(
        self, fleet: Fleet, plain: Fleet | None, options: Options, ready: Callable[[str], None] = lambda _: None
    ) -> None:
        config = uvicorn.Config(
            create_app(fleet, plain, options),
            log_config=None,
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=_GRACE_S,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            http="h11",
        )
        super().__init__(config)
        self._told_ready = ready
        self._url = ""

    def run_on(self, listening: socket.socket) -> None:
        """Serves until SIGTERM, SIGINT or `should_exit`."""
        self._url = url_of(listening)
        self.run(sockets=[listening])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._told_ready(self._url)


class Background:
    """`with Background(["http://127.0.0.1:8080"]) as gateway: gateway.url`: a gateway in a thread, on a free port."""

    def __init__(
        self,
        upstreams: Sequence[str],
        plain: Sequence[str] = (),
        options: Options | None = None,
        silence_s: float = 600.0,
    ) -> None:
        self.url = ""
        self._ready = threading.Event()
        self._upstreams, self._plain, self._silence_s = upstreams, plain, silence_s
        self._options = options or Options()
        self._listening = listen("127.0.0.1", 0)
        self._server: Server | None = None
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    def _run(self) -> None:
        self._server = Server(
            Fleet([Upstream(u, f"upstream {n}", silence_s=self._silence_s) for n, u in enumerate(self._upstreams, 1)]),
            Fleet([Upstream(u, f"plain {n}") for n, u in enumerate(self._plain, 1)]) if self._plain else None,
            self._options,
            self._listens,
        )
        self._server.run_on(self._listening)

    def _listens(self, url: str) -> None:
        self.url = url
        self._ready.set()

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_START_S):
            raise UsageError("The gateway did not start.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.should_exit = True
        self._thread.join()
        self._listening.close()
