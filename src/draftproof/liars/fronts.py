"""What clients see of a liar: our own routes, some of them, or those of a server of another make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from draftproof.liars.retelling import Join, Reask, Retell, Telling
from draftproof.server.served import Served

NATIVE = frozenset(
    {"/completion", "/completions", "/props", "/slots", "/tokenize", "/detokenize", "/metrics", "/apply-template"}
)
"""What servers of another make do not have."""


def _as_asked(path: str, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - changes nothing
    return asked


def _as_it_is(telling: Telling) -> Any:
    return telling.told


def _one_by_one(events: list[Any]) -> list[Any]:
    return events


@dataclass(frozen=True, slots=True)
class Words:
    """Between our server and a client of another: `reask` and `retell` translate bodies, `join` the events that go out together.

    paths: our route for one of theirs; "": it is not there.
    """

    reask: Reask = _as_asked
    retell: Retell = _as_it_is
    join: Join = _one_by_one
    paths: Mapping[str, str] = field(default_factory=dict)


Front: TypeAlias = Callable[[Served], Words]
"""The words in which a model is served."""


def ours(served: Served) -> Words:  # noqa: ARG001 - a hook
    """Our own routes, which are llama-server's and OpenAI's."""
    return Words()


def openai(served: Served) -> Words:  # noqa: ARG001 - a hook
    """OpenAI's routes and no others."""
    return Words(paths=dict.fromkeys(NATIVE, ""))
