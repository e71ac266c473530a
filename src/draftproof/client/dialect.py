"""What a server dialect must know: how to say an Ask, how to read an answer, where the server describes itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from draftproof.client.wire import strict_json
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Call:
    """A POST: `path` relative to the server's base URL, `body` JSON in UTF-8."""

    path: str
    body: bytes

    @classmethod
    def of(cls, path: str, body: Mapping[str, Any]) -> Self:
        return cls(path, json.dumps(body, separators=(",", ":"), allow_nan=False).encode())


@dataclass(frozen=True, slots=True)
class Survey:
    """What the well-known endpoints answered; a missing path was not answered at all."""

    answers: Mapping[str, Exchange]

    def text(self, path: str) -> str | None:
        """Body of a 200 answer, else None."""
        exchange = self.answers.get(path)
        return exchange.answer if exchange is not None and exchange.status == 200 else None

    def json(self, path: str) -> Any:
        """Parsed body of a 200 answer, else None; None too where it is no JSON."""
        text = self.text(path)
        try:
            return None if text is None else strict_json(text)
        except ValueError:
            return None

    def obj(self, path: str) -> dict[str, Any]:
        """Like `json`, and {} for anything but an object."""
        body = self.json(path)
        return body if isinstance(body, dict) else {}


@dataclass(frozen=True, slots=True)
class Description:
    """What a server says of itself before it is asked for anything. Names as in `Facts`."""

    build: str | None = None
    model: str | None = None
    vocabulary: int | None = None
    context: int | None = None
    slots: int | None = None
    self_reports: tuple[tuple[str, Scalar], ...] = ()
    drafting: tuple[tuple[str, Scalar], ...] = ()
    notes: tuple[str, ...] = field(default=())


class Dialect(Protocol):
    """One kind of server. `paths`: where it describes itself, beside /health and /v1/models.

    `routes` that can generate, the best one first; `token_routes` take token ids as the prompt; `batch_routes` take `Ask.count` > 1
    and answer with consecutive seeds; `grammar_routes` take a grammar; `prompt_routes` can be asked for the logprobs of the
    prompt's own tokens (`Ask.echo`, which they answer in `Completion.prompt`).
    """

    @property
    def name(self) -> str: ...

    @property
    def paths(self) -> tuple[str, ...]: ...

    @property
    def routes(self) -> tuple[str, ...]: ...

    @property
    def token_routes(self) -> tuple[str, ...]: ...

    @property
    def batch_routes(self) -> tuple[str, ...]: ...

    @property
    def grammar_routes(self) -> tuple[str, ...]: ...

    @property
    def prompt_routes(self) -> tuple[str, ...]: ...

    @property
    def reports_drafts(self) -> bool: ...

    @property
    def uncached(self) -> tuple[tuple[str, Scalar], ...]:
        """Extra fields that make a request ignore the prompt cache; () where there are none."""
        ...

    def recognise(self, survey: Survey) -> str:
        """The evidence that the server speaks this dialect, or ""."""
        ...

    def describe(self, survey: Survey) -> Description: ...

    def adapted(self, survey: Survey) -> Dialect:
        """The dialect with what it must know of the server, such as the model's name."""
        ...

    def plainer(self) -> Dialect | None:
        """The same with fewer fields per request, for servers that refuse unknown ones; None when there is nothing to leave out."""
        ...

    def call(self, ask: Ask, route: str) -> Call:
        """Raises InstrumentError for what the route cannot carry (token ids in a chat)."""
        ...

    def parse(self, ask: Ask, exchange: Exchange) -> list[Completion]:
        """`ask.answers` answers in the order of their seeds or prompts, each with its own single Ask; a refusal gives answers with
        `error`.

        Raises TargetError when the answer cannot be used.
        """
        ...

    def tokenize_call(self, text: str) -> Call | None: ...

    def parse_ids(self, exchange: Exchange) -> tuple[int, ...] | None: ...
