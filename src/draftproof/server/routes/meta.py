"""What the server says of itself."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from draftproof.server.errors import Refusal, not_found, unsupported
from draftproof.server.openapi import Routes
from draftproof.server.page import page as the_page
from draftproof.server.state import state_of
from draftproof.server.wire import answer

ROUTES = Routes("about the server")


@ROUTES.get("/health")
@ROUTES.get("/v1/health", listed=False)
async def health(request: Request) -> Response:
    """Whether the engine works."""
    if not state_of(request).worker.is_alive:
        raise Refusal("The engine is not running.", 503, "unavailable_error")
    return answer({"status": "ok"})


@ROUTES.get("/props")
async def props(request: Request) -> Response:
    """Model, defaults, and speculation as it is."""
    # in a thread, for what rows cost may have to be measured first
    return answer(await asyncio.to_thread(state_of(request).report.props))


@ROUTES.get("/slots", query=("fail_on_no_slot",))
async def slots(request: Request) -> Response:
    """Every slot, and what runs or ran in it."""
    report = state_of(request).report
    if not report.tells_slots:
        raise unsupported("This server does not tell what is being made: it was started with --no-slots.")
    told = report.slots()
    if request.query_params.get("fail_on_no_slot") and all(slot["is_processing"] for slot in told):
        raise Refusal("no slot available", 503, "unavailable_error")
    return answer(told)


@ROUTES.get("/metrics")
async def metrics(request: Request) -> Response:
    """Totals, for Prometheus."""
    return Response(state_of(request).report.metrics(), media_type="text/plain; version=0.0.4")


@ROUTES.get("/v1/models")
@ROUTES.get("/models", listed=False)
async def models(request: Request) -> Response:
    """The one model."""
    return answer(state_of(request).report.models())


@ROUTES.get("/v1/models/{name:path}", listed=False)
async def model(request: Request) -> Response:
    """The one model, by its name."""
    name = request.path_params["name"]
    for known in state_of(request).report.models()["data"]:
        if known["id"] == name:
            return answer(known)
    raise Refusal(f"There is no model {name!r}; GET /v1/models tells which there is.", 404, "not_found_error")


@ROUTES.get("/lora-adapters", listed=False)
async def lora_adapters(_: Request) -> Response:
    """There are none."""
    return answer([])


@ROUTES.get("/", listed=False)
async def page(request: Request) -> Response:
    """A page to try the model with."""
    if not state_of(request).report.page:
        raise not_found()
    return the_page()
