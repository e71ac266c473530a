"""The application: routes, guard, and errors in the API's own form."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from draftproof import __version__
from draftproof.core.errors import UsageError
from draftproof.server.chat import PLAIN, ChatTemplate
from draftproof.server.errors import Refusal, not_found, refusal
from draftproof.server.guard import Guard
from draftproof.server.openapi import describe_bodies
from draftproof.server.routes import ROUTERS
from draftproof.server.schema import (
    ApplyTemplate,
    ChatCompletion,
    Detokenize,
    NativeCompletion,
    OpenAICompletion,
    Tokenize,
)
from draftproof.server.self_report import SelfReport
from draftproof.server.state import State
from draftproof.server.wire import answer
from draftproof.server.worker import Worker

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask, and how much. `keys`: empty for anybody. `origins`: foreign web pages that may. `body_limit` in bytes.

    `page`: whether there is a page at /.
    """

    keys: Sequence[str] = ()
    origins: Sequence[str] = ()
    body_limit: int = 16 * 2**20
    page: bool = True


OPEN = Access()


def create_app(worker: Worker, access: Access = OPEN) -> FastAPI:
    """The server around a worker that was started. Raises UsageError for a chat template that is broken."""
    template = ChatTemplate(worker.served.template or PLAIN, worker.served.vocabulary)
    app = FastAPI(title="draftproof serve", version=__version__, docs_url=None, redoc_url=None)
    app.state.draftproof = State(worker, template, SelfReport(worker, template, page=access.page), access.body_limit)
    for router in ROUTERS:
        app.include_router(router)
    describe_bodies(app, (NativeCompletion, OpenAICompletion, ChatCompletion, Tokenize, Detokenize, ApplyTemplate))
    app.add_exception_handler(UsageError, _refused)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _broken)
    app.add_middleware(Guard, keys=access.keys, origins=access.origins)
    return app


async def _refused(_: Request, error: Exception) -> Response:
    told = refusal(error)
    return answer(told.body, told.status)


async def _no_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = not_found() if error.status_code in {404, 405} else Refusal(str(error.detail), error.status_code)
    return answer(told.body, told.status)


async def _broken(_: Request, error: Exception) -> Response:
    log.error("A request failed.", exc_info=error)
    told = refusal(error)
    return answer(told.body, 500)
