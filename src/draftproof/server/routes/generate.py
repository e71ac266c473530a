"""The three routes that make text."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from draftproof.server.exchange import respond
from draftproof.server.jobs import Ticket
from draftproof.server.native import NativeForm
from draftproof.server.openai import OpenAIForm
from draftproof.server.openapi import Routes
from draftproof.server.prompts import Tokens, check_prompt, read_prompts
from draftproof.server.schema import ChatCompletion, NativeCompletion, OpenAICompletion
from draftproof.server.settings import Settings, read_settings, with_tools
from draftproof.server.state import State, body_of, state_of

ROUTES = Routes("text")


# In a thread is read what may take long: prompts of megabytes, grammars, and what a drafting request is the first to need
# measured. Other clients go on meanwhile.


def _read_completion(asked: NativeCompletion | OpenAICompletion, state: State) -> tuple[list[Tokens], Settings]:
    settings = read_settings(asked, state.served)
    return read_prompts(asked.prompt, state.served), settings


def _read_chat(asked: ChatCompletion, state: State) -> tuple[list[Tokens], Settings]:
    served, template = state.served, state.template
    settings = read_settings(asked, served, template.unread(asked))
    settings = with_tools(settings, asked, template.calls if asked.tools else None, served)
    tokens = served.vocabulary.tokenize(template.of(asked), add_special=True, parse_special=True)
    return [check_prompt(tuple(tokens), served)], settings


@ROUTES.post("/completion", NativeCompletion)
@ROUTES.post("/completions", NativeCompletion, listed=False)
async def completion(request: Request) -> Response:
    """llama-server's own route."""
    state = state_of(request)
    asked = NativeCompletion.read(await body_of(request))
    prompts, settings = await asyncio.to_thread(_read_completion, asked, state)
    ticket = Ticket(prompts, settings, state.served)
    return await respond(request, state.worker, ticket, NativeForm(state.served))


@ROUTES.post("/v1/completions", OpenAICompletion)
async def openai_completion(request: Request) -> Response:
    """OpenAI's route for text that is carried on."""
    state = state_of(request)
    asked = OpenAICompletion.read(await body_of(request))
    prompts, settings = await asyncio.to_thread(_read_completion, asked, state)
    ticket = Ticket(prompts, settings, state.served)
    return await respond(request, state.worker, ticket, OpenAIForm(state.served, chat=False))


@ROUTES.post("/v1/chat/completions", ChatCompletion)
@ROUTES.post("/chat/completions", ChatCompletion, listed=False)
async def chat_completion(request: Request) -> Response:
    """OpenAI's route for conversations."""
    state = state_of(request)
    asked = ChatCompletion.read(await body_of(request))
    prompts, settings = await asyncio.to_thread(_read_chat, asked, state)
    ticket = Ticket(prompts, settings, state.served)
    return await respond(request, state.worker, ticket, OpenAIForm(state.served, chat=True))
