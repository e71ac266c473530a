"""What the server can be asked, one module for each kind."""

from __future__ import annotations

from draftproof.server.routes import generate, meta, words

ROUTERS = (generate.ROUTER, meta.ROUTER, words.ROUTER)
