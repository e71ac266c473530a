"""Between text and token ids."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from draftproof.server.ignored import unknown
from draftproof.server.openapi import Routes
from draftproof.server.schema import ApplyTemplate, Detokenize, Tokenize
from draftproof.server.state import body_of, state_of
from draftproof.server.vocabulary import Vocabulary
from draftproof.server.wire import answer

ROUTES = Routes("words")


@ROUTES.post("/tokenize", Tokenize)
async def tokenize(request: Request) -> Response:
    """Token ids of a text."""
    asked = Tokenize.read(await body_of(request))
    served = state_of(request).served
    tokens = await asyncio.to_thread(_tokens, asked, served.vocabulary)
    told: dict[str, Any] = {"tokens": tokens, "ignored": sorted(unknown(asked))}
    if asked.with_pieces:
        told["tokens"] = [{"id": t, "piece": _piece(t, served.vocabulary)} for t in tokens]
    elif asked.prompt is not None:
        told |= {"count": len(tokens), "max_model_len": served.context}
    return answer(told)


def _tokens(asked: Tokenize, vocabulary: Vocabulary) -> list[int]:
    as_vllm = asked.prompt is not None
    content = asked.prompt if as_vllm else asked.content
    add = asked.add_special_tokens is not False if as_vllm else bool(asked.add_special)
    parse = asked.parse_special is not False
    tokens: list[int] = []
    for i, part in enumerate([content] if isinstance(content, str) else content or []):
        if isinstance(part, str):
            tokens += vocabulary.tokenize(part, add_special=add and i == 0, parse_special=parse)
        else:
            tokens.append(part)
    return tokens


def _piece(token: int, vocabulary: Vocabulary) -> Any:
    """The text of a token, or its bytes where they are no text by themselves."""
    raw = vocabulary.piece(token)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return list(raw)


@ROUTES.post("/detokenize", Detokenize)
async def detokenize(request: Request) -> Response:
    """The text of token ids."""
    asked = Detokenize.read(await body_of(request))
    raw = state_of(request).served.vocabulary.detokenize(asked.tokens or [])
    text = raw.decode("utf-8", "replace")
    return answer({"content": text, "prompt": text, "ignored": sorted(unknown(asked))})


@ROUTES.get("/tokenizer_info")
async def tokenizer_info(request: Request) -> Response:
    """What clients need that tokenize through the server, by vLLM's names."""
    state = state_of(request)
    vocabulary = state.served.vocabulary
    special = {"bos_token": vocabulary.bos, "eos_token": vocabulary.eos}
    names = {name: None if token is None else _piece(token, vocabulary) for name, token in special.items()}
    context = state.served.context
    return answer({**names, "pad_token": None, "chat_template": state.template.source, "model_max_length": context})


@ROUTES.post("/apply-template", ApplyTemplate)
async def apply_template(request: Request) -> Response:
    """The text that a conversation becomes."""
    asked = ApplyTemplate.read(await body_of(request))
    template = state_of(request).template
    text = await asyncio.to_thread(template.of, asked)
    return answer({"prompt": text, "ignored": sorted([*unknown(asked), *template.unread(asked)])})
