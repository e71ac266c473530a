"""Bodies are read by hand, for llama-server takes them under any content type; the API's description is told of them here."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from draftproof import __version__
from draftproof.server.schema import Body

_REFERENCE = "#/components/schemas/{model}"


def takes(model: type[Body]) -> dict[str, Any]:
    """What a route says of the body that it takes."""
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def describe_bodies(app: FastAPI, models: tuple[type[Body], ...]) -> None:
    """The description of `app` has the schema of every model."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title="draftproof serve", version=__version__, routes=app.routes)
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            for model in models:
                schema = model.model_json_schema(ref_template=_REFERENCE)
                schemas.update(schema.pop("$defs", {}))
                schemas[model.__name__] = schema
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
