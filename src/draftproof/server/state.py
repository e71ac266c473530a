"""What the routes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from draftproof.server.chat import ChatTemplate
from draftproof.server.self_report import SelfReport
from draftproof.server.served import Served
from draftproof.server.wire import read_json
from draftproof.server.worker import Worker


@dataclass(frozen=True, slots=True)
class State:
    worker: Worker
    template: ChatTemplate
    report: SelfReport
    body_limit: int

    @property
    def served(self) -> Served:
        return self.worker.served


def state_of(request: Request) -> State:
    """The state of the application that a request came to."""
    state = request.app.state.draftproof
    assert isinstance(state, State)
    return state


async def body_of(request: Request) -> Any:
    """The JSON of a request's body. Raises Refusal."""
    return await read_json(request, state_of(request).body_limit)
