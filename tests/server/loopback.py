"""A real server on loopback around a countable model, and the answers of a real llama-server to compare with."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2

from draftproof.core.speculation import DraftModel, NgramLookup, NgramMod, Speculation
from draftproof.countable.catalogue import named
from draftproof.engine.backend import Feed, Rows
from draftproof.engine.backends.law import LawBackend
from draftproof.server.app import OPEN, Access
from draftproof.server.load import load_table
from draftproof.server.run import Background, Options
from draftproof.server.served import Defaults

RECORDED = Path(__file__).parent.parent / "data" / "llama-server-b11434"
PROMPT = "bcdbc"
NEUTRAL: dict[str, Any] = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}
NONE = Speculation()
DRAFT = Speculation(types=("draft-simple",), draft=DraftModel(n_max=3))
NGRAM = Speculation(
    types=("ngram-simple", "ngram-mod"),
    ngram_simple=NgramLookup(size_n=2, size_m=4),
    ngram_mod=NgramMod(n_match=2, n_min=1, n_max=4),
)


class _Slow(LawBackend):
    pause_s = 0.0

    def extend(self, feeds: Sequence[Feed]) -> list[Rows]:
        time.sleep(self.pause_s)
        return super().extend(feeds)


class Client(httpx2.Client):
    """Speaks to one server; `events` reads a stream to its end."""

    def ask(self, path: str = "/completion", **body: Any) -> Any:
        """The JSON of an answer that must be 200."""
        answer = self.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, path: str = "/completion", status: int = 400, **body: Any) -> str:
        """The sentence of an answer that must be an error, in the API's form."""
        answer = self.post(path, json=body)
        assert answer.status_code == status, answer.text
        error = answer.json()["error"]
        assert error["code"] == status
        assert error["type"]
        return str(error["message"])

    def events(self, path: str = "/completion", **body: Any) -> list[Any]:
        """The objects of a stream; "[DONE]" as such."""
        answer = self.post(path, json={**body, "stream": True})
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]


@contextmanager
def serving(
    speculation: Speculation = NONE,
    *,
    model: str = "story",
    slots: int = 2,
    waiting: int = 256,
    context: int = 512,
    access: Access = OPEN,
    draft: bool = True,
    pause_s: float = 0.0,
    eog: Sequence[int] = (),
) -> Iterator[tuple[Client, Background]]:
    """A client and its server. pause_s: how long each pass of the target takes at least. eog: tokens that end an answer."""
    served = load_table(model, Defaults(speculation=speculation), context=context, draft=draft)
    if pause_s or eog:
        target = _Slow(named(model).target_logits, served.vocabulary.size, "", context=context, eog=eog)
        target.pause_s, target.vocabulary = pause_s, served.models.target.vocabulary
        served = replace(served, models=replace(served.models, target=target))
    with (
        Background(served, Options(slots, waiting, access)) as server,
        Client(base_url=server.url, timeout=30) as client,
    ):
        yield client, server


def recorded(name: str) -> Any:
    """An answer of a real llama-server, by its path without .json."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def parsed(body: Any) -> list[Any]:
    """The objects of a recorded body, streamed or not."""
    if not isinstance(body, str):
        return [body]
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def lacks(theirs: Any, ours: Any, path: str = "") -> list[str]:
    """Where an answer of llama-server has a key, or a type of value, that ours does not have. Lists are compared by their first."""
    if isinstance(theirs, dict):
        if not isinstance(ours, dict):
            return [f"{path}: {ours!r} is no object"]
        missing = [f"{path}/{key} is missing" for key in theirs if key not in ours]
        return missing + [m for key in theirs if key in ours for m in lacks(theirs[key], ours[key], f"{path}/{key}")]
    if isinstance(theirs, list):
        if not isinstance(ours, list):
            return [f"{path}: {ours!r} is no list"]
        return lacks(theirs[0], ours[0], f"{path}[0]") if theirs and ours else []
    number = (int, float)
    if isinstance(theirs, number) and isinstance(ours, number) and not isinstance(theirs, bool):
        return []
    return [] if type(theirs) is type(ours) else [f"{path}: {ours!r} instead of {theirs!r}"]
