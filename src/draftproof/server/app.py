"""The application: routes, guard, and errors in the API's own form."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from draftproof.core.errors import UsageError
from draftproof.server.chat import PLAIN, ChatTemplate
from draftproof.server.errors import Refusal, not_found, refusal
from draftproof.server.guard import Guard
from draftproof.server.openapi import document
from draftproof.server.routes import GROUPS
from draftproof.server.self_report import SelfReport
from draftproof.server.state import State
from draftproof.server.wire import answer
from draftproof.server.worker import Worker

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask, and how much. `keys`: empty for anybody. `origins`: foreign web pages that may. `body_limit` in bytes.

    `page`: whether there is a page at /. `slots`: whether /slots tells what is being made.
    """

    keys: Sequence[str] = ()
    origins: Sequence[str] = ()
    body_limit: int = 16 * 2**20
    page: bool = True
    slots: bool = True


OPEN = Access()


def create_app(worker: Worker, access: Access = OPEN) -> Starlette:
    """The server around a worker that was started."""
    served = worker.served
    template = ChatTemplate(served.template or PLAIN, served.vocabulary, served.defaults.template_options)
    app = Starlette(routes=[route for group in GROUPS for route in group.starlette])
    report = SelfReport(worker, template, page=access.page, tells_slots=access.slots)
    app.router.redirect_slashes = False  # a redirect would repeat the client's own Host, and an unknown route is 404
    app.state.draftproof = State(worker, template, report, access.body_limit)
    app.add_route("/openapi.json", _description)
    app.add_exception_handler(UsageError, _refused)
    app.add_exception_handler(UnicodeEncodeError, _refused)  # half a surrogate pair in the request's text
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _broken)
    app.add_middleware(Guard, keys=access.keys, origins=access.origins)
    return app


async def _description(_: Request) -> Response:
    return answer(document(route for group in GROUPS for route in group.described))


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
