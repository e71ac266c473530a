"""The servers behind the gateway: connections to them, which of them are up, how busy they are, what was seen of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2

from draftproof.client.dialect import Survey
from draftproof.client.dialects import DIALECTS
from draftproof.core.errors import UsageError
from draftproof.core.exchange import Exchange
from draftproof.gateway.wire import HeaderList, parsed
from draftproof.server.errors import Refusal
from draftproof.server.wire import to_json

log = logging.getLogger(__name__)

KIND = "upstream_error"
_CONNECT_S = 5.0
_HEALTH_S = 2.0
_IDLE_S = 2.5
"""Less than the five seconds after which llama-server closes an idle connection, so that none is used just then."""
_CONNECTIONS = 1024
_ANSWER_LIMIT = 256 << 20
_STREAM = b'"stream"'
"""In a body: the connection is not used again, which llama-server may close after a stream without a word."""
_DRAFTED = re.compile(rb'"draft_n":\s*([1-9])')
_GONE = (httpx2.ConnectError, httpx2.ConnectTimeout)


class Lost(Refusal):
    """The upstream broke off, or was restarted, while a request was at work there."""

    def __init__(self, message: str, status: int = 502) -> None:
        super().__init__(message, status, KIND)


@dataclass(slots=True, eq=False)
class Upstream:
    """One server. `epoch` grows whenever it was lost: what was made in different epochs may come from different models.

    `drafted`: whether an answer of it counted drafts. `types`: its kinds of speculation, by its own answers.
    """

    url: str
    name: str
    credentials: HeaderList | None = None
    silence_s: float = 600.0
    up: bool = True
    load: int = 0
    epoch: int = 0
    slots: int | None = None
    context: int | None = None
    drafted: bool = False
    types: str = ""
    kind: str = ""
    """The name of its dialect; "" until it was asked, and where it is not known."""
    build: str = ""
    model: str = ""
    """As it names its model."""
    speculates: bool = False
    """Whether its slots say so."""
    echoes: bool | None = None
    """Whether it gives the logprobs of a prompt, as our own server does; None until it was tried."""
    scoring: asyncio.Semaphore | None = None
    """As many re-scores at once as the server has slots; None until it was asked."""
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """For answers that are asked for token by token, as many as it has slots: more would take each other's cached contexts."""
    free: set[int] = field(default_factory=set)
    """Its slots that no lane of re-scores has to itself."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the one request that finds out what it is."""
    _client: httpx2.AsyncClient = field(init=False)
    _timeouts: dict[str, float | None] = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{self.name}: the URL must begin with http:// or https://.")
        self.url = self.url.rstrip("/").removesuffix("/v1")
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # it would log URLs, and queries may hold keys
        limits = httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=64, keepalive_expiry=_IDLE_S)
        self._client = httpx2.AsyncClient(limits=limits, trust_env=False)
        self._timeouts = {"connect": _CONNECT_S, "read": self.silence_s, "write": self.silence_s, "pool": None}

    @contextlib.asynccontextmanager
    async def ask(
        self, method: str, target: str, headers: HeaderList, body: bytes = b"", *, again: bool = True
    ) -> AsyncIterator[httpx2.Response]:
        """The answer's head; its body is still to be read, within the context. Leaving the context early cancels the request.

        again: whether it is sent once more when the server closes the connection without a word, as llama-server now and then does
        after a stream: that is no loss, but it cannot be told from a restart.
        Raises Lost when the server is gone or silent, also out of the reading of the body.
        """
        if _STREAM in body:
            headers = [*headers, (b"connection", b"close")]
        request = httpx2.Request(
            method, self.url + target, headers=headers, content=body or None, extensions={"timeout": self._timeouts}
        )
        self.load += 1
        try:
            try:
                response = await self._client.send(request, stream=True)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                if not again:
                    raise
                response = await self._client.send(request, stream=True)
            self._seen(up=True)
            try:
                yield response
            finally:
                with contextlib.suppress(httpx2.HTTPError):
                    await response.aclose()
        except httpx2.TimeoutException as error:
            if isinstance(error, _GONE):
                self._lost(error)
                raise Lost(f"{self.name} cannot be reached.", 503) from error
            raise Lost(f"{self.name} was silent for {self.silence_s:g} seconds.", 504) from error
        except httpx2.HTTPError as error:
            self._lost(error)
            if isinstance(error, _GONE):
                raise Lost(f"{self.name} cannot be reached.", 503) from error
            raise Lost(f"{self.name} broke off its answer.") from error
        finally:
            self.load -= 1

    async def whole(
        self, method: str, target: str, headers: HeaderList, body: bytes = b"", *, again: bool = True
    ) -> tuple[httpx2.Response, bytes]:
        """The answer and its decoded body. Raises Lost."""
        async with self.ask(method, target, headers, body, again=again) as response:
            parts, size = [], 0
            async for part in response.aiter_bytes():
                size += len(part)
                if size > _ANSWER_LIMIT:
                    raise Lost(f"{self.name} gave an answer of more than {_ANSWER_LIMIT >> 20} MB.")
                parts.append(part)
            return response, b"".join(parts)

    async def post(self, path: str, value: Any, headers: HeaderList, *, again: bool = True) -> Any:
        """The answer's JSON. Raises Refusal with the upstream's own words where it refuses, Lost where it is gone."""
        response, body = await self.whole("POST", path, headers, to_json(value), again=again)
        answer = parsed(body)
        if response.status_code != 200:
            told = answer.get("error") if isinstance(answer, dict) else None
            words = told.get("message") if isinstance(told, dict) else None
            raise Refusal(f"{self.name} refused {path}: {words or response.status_code}", 502, KIND)
        return answer

    async def get(self, path: str, headers: HeaderList) -> Any:
        """The JSON at a path; None where there is none. Raises Lost."""
        response, body = await self.whole("GET", path, headers)
        if response.status_code != 200:
            return None
        with contextlib.suppress(Refusal):
            return parsed(body)
        return None

    def observe(self, part: bytes) -> None:
        """Notes whether a part of an answer counts drafts."""
        if not self.drafted and b'"draft_n"' in part and _DRAFTED.search(part):
            self.drafted = True

    async def survey(self, headers: HeaderList) -> None:
        """Learns kind, slots and context, once per epoch. Raises Lost."""
        async with self.asking:
            if self.scoring is not None:
                return
            props = await self.get("/props", headers)
            props = props if isinstance(props, dict) else {}
            defaults = props.get("default_generation_settings")
            slots, context = props.get("total_slots"), defaults.get("n_ctx") if isinstance(defaults, dict) else None
            self.kind = await self._kind_of(headers)
            self.build = str(props.get("build_info") or "")
            self.model = str(props.get("model_alias") or props.get("model_path") or "")
            if self.kind == "llama_server":
                self.speculates = says_speculating(await self.get("/slots", headers))
            self.slots = slots if isinstance(slots, int) and slots > 0 else None
            self.context = context if isinstance(context, int) and context > 0 else None
            self.scoring, self.turns = (asyncio.Semaphore(self.slots or 1) for _ in range(2))
            self.free = set(range(self.slots or 0))

    @property
    def has_oracle(self) -> bool:
        """Whether it can be asked for one token after given ids, as llama-server can."""
        return self.kind not in ("vllm", "sglang")

    async def _kind_of(self, headers: HeaderList) -> str:
        answers: dict[str, Exchange] = {}
        for dialect in DIALECTS:
            for path in ("", "/v1/models", *dialect.paths):
                if path and path not in answers:
                    response, body = await self.whole("GET", path, headers)
                    text = body.decode(errors="replace")
                    answers[path] = Exchange(0, "GET", path, "", response.status_code, text, ())
                if answers and dialect.recognise(Survey(answers)):
                    return dialect.name
        return ""

    async def check_health(self) -> None:
        """Marks the server up or down."""
        with contextlib.suppress(Lost):
            response, _ = await asyncio.wait_for(self.whole("GET", "/health", self.credentials or []), _CONNECT_S)
            self._seen(up=response.status_code < 500)
            return
        self._seen(up=False)

    async def close(self) -> None:
        await self._client.aclose()

    def _seen(self, *, up: bool) -> None:
        if up != self.up:
            self.up = up
            log.warning("%s is %s.", self.name, "up again" if up else "down")

    def _lost(self, error: Exception) -> None:
        self.epoch += 1
        self.scoring = None
        self.types, self.drafted = "", False
        self.kind, self.speculates, self.echoes = "", False, None
        self._seen(up=not isinstance(error, _GONE))


def says_speculating(slots: Any) -> bool:
    """By the body of /slots."""
    return isinstance(slots, list) and any(isinstance(s, dict) and s.get("speculative") is True for s in slots)


class Fleet:
    """Upstreams that stand in for each other."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        if not upstreams:
            raise UsageError("Name at least one upstream.")
        self.upstreams = list(upstreams)
        self._turn = 0

    def order(self) -> list[Upstream]:
        """All of them, in the order in which to try them: those that are up, the least busy first, equals in turn."""
        self._turn += 1
        n = len(self.upstreams)
        turned = [self.upstreams[(self._turn + i) % n] for i in range(n)]
        return sorted(turned, key=lambda u: (not u.up, u.load))

    async def watch(self) -> None:
        """Checks their health without end."""
        while True:
            await asyncio.gather(*(u.check_health() for u in self.upstreams), return_exceptions=True)
            await asyncio.sleep(_HEALTH_S)

    async def close(self) -> None:
        for upstream in self.upstreams:
            await upstream.close()
