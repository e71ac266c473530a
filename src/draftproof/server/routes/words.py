"""Between text and token ids."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from draftproof.server.openapi import takes
from draftproof.server.schema import ApplyTemplate, Detokenize, Tokenize
from draftproof.server.state import body_of, state_of
from draftproof.server.vocabulary import Vocabulary
from draftproof.server.wire import answer

ROUTER = APIRouter(tags=["words"])


@ROUTER.post("/tokenize", openapi_extra=takes(Tokenize))
async def tokenize(request: Request) -> Response:
    """Token ids of a text."""
    asked = Tokenize.read(await body_of(request))
    vocabulary = state_of(request).served.vocabulary
    add, parse = bool(asked.add_special), asked.parse_special is not False
    parts = [asked.content] if isinstance(asked.content, str) else asked.content or []
    tokens: list[int] = []
    for i, part in enumerate(parts):
        if isinstance(part, str):
            tokens += vocabulary.tokenize(part, add_special=add and i == 0, parse_special=parse)
        else:
            tokens.append(part)
    if asked.with_pieces:
        return answer({"tokens": [{"id": t, "piece": _piece(t, vocabulary)} for t in tokens]})
    return answer({"tokens": tokens})


def _piece(token: int, vocabulary: Vocabulary) -> Any:
    """The text of a token, or its bytes where they are no text by themselves."""
    raw = vocabulary.piece(token)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return list(raw)


@ROUTER.post("/detokenize", openapi_extra=takes(Detokenize))
async def detokenize(request: Request) -> Response:
    """The text of token ids."""
    asked = Detokenize.read(await body_of(request))
    raw = state_of(request).served.vocabulary.detokenize(asked.tokens or [])
    return answer({"content": raw.decode("utf-8", "replace")})


@ROUTER.post("/apply-template", openapi_extra=takes(ApplyTemplate))
async def apply_template(request: Request) -> Response:
    """The text that a conversation becomes."""
    asked = ApplyTemplate.read(await body_of(request))
    opening = asked.add_generation_prompt is not False
    text = state_of(request).template.render(asked.messages, asked.chat_template_kwargs, opening=opening)
    return answer({"prompt": text})
