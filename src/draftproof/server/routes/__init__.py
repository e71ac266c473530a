"""What the server can be asked, one module for each kind."""

from __future__ import annotations

from draftproof.server.routes import generate, meta, words

GROUPS = (generate.ROUTES, meta.ROUTES, words.ROUTES)
