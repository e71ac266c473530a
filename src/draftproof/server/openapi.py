"""Routes, and what `/openapi.json` says of them.

Bodies are read by hand, for llama-server takes them under any content type, so a route says here which model describes its body.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from draftproof import __version__
from draftproof.server.schema import Body

_REFERENCE = "#/components/schemas/{model}"

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Described:
    """A route. body: what describes the JSON that it takes; query: its parameters, by name."""

    path: str
    method: str
    endpoint: Endpoint
    body: type[Body] | None
    query: tuple[str, ...]
    listed: bool
    tag: str


class Routes:
    """The routes of one kind, in their order; `get` and `post` are decorators. The first line of a docstring is the summary."""

    def __init__(self, tag: str) -> None:
        self.described: list[Described] = []
        self._tag = tag

    def get(self, path: str, *, query: tuple[str, ...] = (), listed: bool = True) -> Callable[[Endpoint], Endpoint]:
        return self._route(path, "GET", None, query, listed=listed)

    def post(self, path: str, body: type[Body], *, listed: bool = True) -> Callable[[Endpoint], Endpoint]:
        return self._route(path, "POST", body, (), listed=listed)

    def _route(
        self, path: str, method: str, body: type[Body] | None, query: tuple[str, ...], *, listed: bool
    ) -> Callable[[Endpoint], Endpoint]:
        def add(endpoint: Endpoint) -> Endpoint:
            self.described.append(Described(path, method, endpoint, body, query, listed, self._tag))
            return endpoint

        return add

    @property
    def starlette(self) -> list[Route]:
        """As the framework takes them."""
        return [Route(r.path, r.endpoint, methods=[r.method]) for r in self.described]


def document(routes: Iterable[Described]) -> dict[str, Any]:
    """The description of those that are listed, by OpenAPI 3.1."""
    listed = [route for route in routes if route.listed]
    bodies = dict.fromkeys(route.body for route in listed if route.body is not None)
    _, found = models_json_schema([(body, "validation") for body in bodies], ref_template=_REFERENCE)
    paths: dict[str, Any] = {}
    for route in listed:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "draftproof serve", "version": __version__},
        "paths": paths,
        "components": {"schemas": found["$defs"]},
    }


def _operation(route: Described) -> dict[str, Any]:
    told: dict[str, Any] = {
        "tags": [route.tag],
        "summary": (inspect.getdoc(route.endpoint) or "").partition("\n")[0],
        "operationId": route.endpoint.__name__,
        "responses": {"200": {"description": "OK"}},
    }
    if route.query:
        told["parameters"] = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in route.query]
    if route.body is not None:
        schema = {"$ref": _REFERENCE.format(model=route.body.__name__)}
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return told
