"""Server dialects, the most particular first: the first one that recognises a server speaks with it."""

from __future__ import annotations

from draftproof.client.dialect import Dialect
from draftproof.client.dialects import (
    llama_cpp_python,
    llama_server,
    lm_studio,
    ollama,
    openai,
    sglang,
    tabby,
    tgi,
    vllm,
)

DIALECTS: tuple[Dialect, ...] = (
    llama_server.DIALECT,
    vllm.DIALECT,
    sglang.DIALECT,
    tgi.DIALECT,
    tabby.DIALECT,
    lm_studio.DIALECT,
    ollama.DIALECT,
    llama_cpp_python.DIALECT,
    openai.DIALECT,
)
