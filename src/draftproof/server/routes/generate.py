"""The three routes that make text."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from draftproof.server.exchange import respond
from draftproof.server.jobs import Ticket
from draftproof.server.native import NativeForm
from draftproof.server.openai import OpenAIForm
from draftproof.server.openapi import Routes
from draftproof.server.prompts import check_prompt, read_prompts
from draftproof.server.schema import ChatCompletion, Generate, NativeCompletion, OpenAICompletion
from draftproof.server.settings import Settings, read_settings, with_tools
from draftproof.server.state import State, body_of, state_of

ROUTES = Routes("text")


async def _settings(asked: Generate, state: State) -> Settings:
    # in a thread: what a drafting request is the first to need is measured, and other clients go on meanwhile
    return await asyncio.to_thread(read_settings, asked, state.served)


def _chat_settings(asked: ChatCompletion, state: State) -> Settings:
    settings = read_settings(asked, state.served)
    settings = replace(settings, ignored=tuple(sorted([*settings.ignored, *state.template.unread(asked)])))
    return with_tools(settings, asked, state.template.calls if asked.tools else None, state.served)


@ROUTES.post("/completion", NativeCompletion)
@ROUTES.post("/completions", NativeCompletion, listed=False)
async def completion(request: Request) -> Response:
    """llama-server's own route."""
    state = state_of(request)
    asked = NativeCompletion.read(await body_of(request))
    settings = await _settings(asked, state)
    prompts = read_prompts(asked.prompt, state.served)
    ticket = Ticket(prompts, settings, state.served)
    return await respond(request, state.worker, ticket, NativeForm(state.served))


@ROUTES.post("/v1/completions", OpenAICompletion)
async def openai_completion(request: Request) -> Response:
    """OpenAI's route for text that is carried on."""
    state = state_of(request)
    asked = OpenAICompletion.read(await body_of(request))
    settings = await _settings(asked, state)
    prompts = read_prompts(asked.prompt, state.served)
    ticket = Ticket(prompts, settings, state.served)
    return await respond(request, state.worker, ticket, OpenAIForm(state.served, chat=False))


@ROUTES.post("/v1/chat/completions", ChatCompletion)
@ROUTES.post("/chat/completions", ChatCompletion, listed=False)
async def chat_completion(request: Request) -> Response:
    """OpenAI's route for conversations."""
    state = state_of(request)
    asked = ChatCompletion.read(await body_of(request))
    settings = await asyncio.to_thread(_chat_settings, asked, state)
    text = state.template.of(asked)
    tokens = state.served.vocabulary.tokenize(text, add_special=True, parse_special=True)
    prompt = check_prompt(tuple(tokens), state.served)
    ticket = Ticket([prompt], settings, state.served)
    return await respond(request, state.worker, ticket, OpenAIForm(state.served, chat=True))
