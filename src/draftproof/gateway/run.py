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
from draftproof.gateway.wire import HeaderList
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


def fleet(urls: Sequence[str], kind: str, credentials: HeaderList | None = None, silence_s: float = 600.0) -> Fleet:
    """Upstreams by URL, named "kind 1", "kind 2" ... Raises UsageError for none, and for a URL that cannot be one."""
    return Fleet([Upstream(url, f"{kind} {n}", credentials, silence_s) for n, url in enumerate(urls, 1)])


class Background:
    """`with Background(["http://127.0.0.1:8080"]) as gateway: gateway.url`: a gateway in a thread, on a free port."""

    def __init__(
        self,
        upstreams: Sequence[str],
        plain: Sequence[str] = (),
        options: Options | None = None,
        credentials: HeaderList | None = None,
    ) -> None:
        self.url = ""
        self._ready = threading.Event()
        self._listening = listen("127.0.0.1", 0)
        self._server = Server(
            fleet(upstreams, "upstream", credentials),
            fleet(plain, "plain", credentials) if plain else None,
            options or Options(),
            self._listens,
        )
        self._thread = threading.Thread(
            target=self._server.run_on, args=(self._listening,), name="gateway", daemon=True
        )

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
        self._server.should_exit = True
        self._thread.join()
        self._listening.close()
