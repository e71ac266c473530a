"""The documentation names every field, route and drafter."""

from __future__ import annotations

from pathlib import Path

from tests.server.loopback import Client
from tests.server.test_schema import ROUTES, fields

from draftproof.engine.draft import DRAFTERS

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")


def test_every_field_is_documented() -> None:
    named = {name for model, _ in ROUTES.values() for name in fields(model)}
    assert [name for name in sorted(named) if f"`{name}`" not in PAGE and f"`{name}:" not in PAGE] == []


def test_every_route_and_drafter_is_documented(plain: Client) -> None:
    paths = plain.get("/openapi.json").json()["paths"]
    assert [path for path in paths if path not in PAGE] == []
    assert [kind.name for kind in DRAFTERS if f"`{kind.name}`" not in PAGE] == []
