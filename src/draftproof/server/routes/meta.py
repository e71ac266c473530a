"""What the server says of itself."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from draftproof.server.errors import Refusal, not_found
from draftproof.server.page import page as the_page
from draftproof.server.state import state_of
from draftproof.server.wire import answer

ROUTER = APIRouter(tags=["about the server"])


@ROUTER.get("/health")
@ROUTER.get("/v1/health", include_in_schema=False)
async def health(request: Request) -> Response:
    """Whether the engine works."""
    if not state_of(request).worker.is_alive:
        raise Refusal("The engine is not running.", 503, "unavailable_error")
    return answer({"status": "ok"})


@ROUTER.get("/props")
async def props(request: Request) -> Response:
    """Model, defaults, and speculation as it is."""
    return answer(state_of(request).report.props())


@ROUTER.get("/slots")
async def slots(request: Request, fail_on_no_slot: str = "") -> Response:
    """Every slot, and what runs or ran in it."""
    told = state_of(request).report.slots()
    if fail_on_no_slot and all(slot["is_processing"] for slot in told):
        raise Refusal("no slot available", 503, "unavailable_error")
    return answer(told)


@ROUTER.get("/metrics")
async def metrics(request: Request) -> Response:
    """Totals, for Prometheus."""
    return Response(state_of(request).report.metrics(), media_type="text/plain; version=0.0.4")


@ROUTER.get("/v1/models")
@ROUTER.get("/models", include_in_schema=False)
async def models(request: Request) -> Response:
    """The one model."""
    return answer(state_of(request).report.models())


@ROUTER.get("/lora-adapters", include_in_schema=False)
async def lora_adapters() -> Response:
    """There are none."""
    return answer([])


@ROUTER.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """A page to try the model with."""
    if not state_of(request).report.page:
        raise not_found()
    return the_page()
