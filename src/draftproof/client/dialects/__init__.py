"""Server dialects, the most particular first: the first one that recognises a server speaks with it."""

from __future__ import annotations

from draftproof.client.dialect import Dialect
from draftproof.client.dialects import llama_server, openai

DIALECTS: tuple[Dialect, ...] = (llama_server.DIALECT, openai.DIALECT)
