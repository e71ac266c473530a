"""A small llama-server: eight letters, laws given by the last two of them, placeholders for all tokens but the first and the last.

Its faults can be set while it runs.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType
from typing import Any, Self

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

LETTERS = "abcdefgh"


def law(context: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Log-probabilities of the eight letters."""
    return _law(tuple(context[-2:]))


@cache
def _law(last: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    logits = np.random.default_rng([3, *last]).normal(0, 2, len(LETTERS))
    return np.asarray(logits - np.log(np.exp(logits).sum()))


def entry(context: Sequence[int], token: int, n: int) -> dict[str, Any]:
    values = law(context)
    best = [int(i) for i in np.argsort(-values, kind="stable")[:n]]
    listed = [{"id": i, "token": LETTERS[i], "bytes": [97 + i], "logprob": float(values[i])} for i in best]
    return {
        "id": token,
        "token": LETTERS[token],
        "bytes": [97 + token],
        "logprob": float(values[token]),
        "top_logprobs": listed,
    }


def true_entries(prompt: str, text: str, n: int) -> list[dict[str, Any]]:
    ids = [LETTERS.index(c) for c in prompt + text]
    return [entry(ids[:i], ids[i], n) for i in range(len(prompt), len(ids))]


@dataclass
class Faults:
    """`step_s` between tokens; `break_at`: the connection ends before that token of a stream; `shifted`: one-token requests
    tell the law of another context; `silent`: they come without alternatives; `prompt_tokens`: what it counts too many of the
    prompt; `padding`: bytes that make the events of streams longer.
    """

    step_s: float = 0.0
    break_at: int | None = None
    shifted: bool = False
    silent: bool = False
    prompt_tokens: int = 0
    padding: int = 0
    types: str = "draft-simple"
    drafting: bool = True


@dataclass
class Seen:
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    cancelled: int = 0
    sent: int = 0


class FakeServer:
    """`with FakeServer() as server: server.url`. After `stop`, `start` listens at the same address again."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.seen = Seen()
        self._port = 0
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def routes(self) -> list[Route]:
        return [
            Route("/health", self._health),
            Route("/v1/models", self._models),
            Route("/props", self._props),
            Route("/slots", self._slots),
            Route("/tokenize", self._tokenize, methods=["POST"]),
            Route("/apply-template", self._template, methods=["POST"]),
            Route("/completion", self._native, methods=["POST"]),
            Route("/v1/completions", self._openai, methods=["POST"]),
            Route("/v1/chat/completions", self._openai, methods=["POST"]),
            Route("/{path:path}", self._echo, methods=["GET", "POST", "DELETE"]),
        ]

    def start(self) -> None:
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self._port))
        listening.listen(256)
        self._port = listening.getsockname()[1]
        config = uvicorn.Config(
            Starlette(routes=self.routes()), log_config=None, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)

    def stop(self) -> None:
        """Breaks off what is under way."""
        assert self._server is not None
        assert self._thread is not None
        self._server.force_exit = self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _body(self, request: Request) -> dict[str, Any]:
        raw = await request.body()
        self.seen.requests.append((request.url.path, dict(request.headers), raw))
        found = json.loads(raw)
        assert isinstance(found, dict)
        return found

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _models(self, _: Request) -> Response:
        return JSONResponse({"data": [{"id": "letters", "owned_by": "llamacpp"}]})

    async def _props(self, _: Request) -> Response:
        params = {"speculative.types": "none", "temperature": 0.8}
        return JSONResponse({"default_generation_settings": {"params": params, "n_ctx": 512}, "total_slots": 4})

    async def _slots(self, _: Request) -> Response:
        return JSONResponse([{"id": 0, "speculative": self.faults.drafting}])

    async def _tokenize(self, request: Request) -> Response:
        body = await self._body(request)
        return JSONResponse({"tokens": [LETTERS.index(c) for c in body["content"]]})

    async def _template(self, request: Request) -> Response:
        body = await self._body(request)
        return JSONResponse({"prompt": "".join(m["content"] for m in body["messages"])})

    async def _echo(self, request: Request) -> Response:
        raw = await request.body()
        self.seen.requests.append((request.url.path, dict(request.headers), raw))
        return Response(raw or b"nothing", 203, {"x-own": "kept", "content-type": "text/odd"})

    def _made(self, prompt: Sequence[int], body: dict[str, Any], n: int) -> tuple[list[int], list[dict[str, Any]]]:
        """The ids and entries of an answer; a biased token is drawn if it is the only one."""
        count = body.get("n_predict", body.get("max_tokens", 16))
        bias = body.get("logit_bias")
        draw = np.random.default_rng(body.get("seed", 1))
        ids: list[int] = []
        entries: list[dict[str, Any]] = []
        for i in range(count):
            context = [*prompt, *ids][-2:] if i < 2 else ids[-2:]
            token = bias[0][0] if bias else int((draw.random() > np.exp(law(context)).cumsum()[:-1]).sum())
            if not n:
                ids.append(token)
                continue
            told = entry([*context, 0] if self.faults.shifted and count == 1 else context, token, n)
            if (0 < i < count - 1 and self.faults.drafting) or (self.faults.silent and count == 1):
                told |= {"logprob": 0.0, "top_logprobs": []}
            ids.append(token)
            entries.append(told)
        return ids, entries

    async def _native(self, request: Request) -> Response:
        body = await self._body(request)
        prompt = body["prompt"]
        ids = [LETTERS.index(c) for c in prompt] if isinstance(prompt, str) else prompt
        n = body.get("n_probs", 0)
        made, entries = self._made(ids, body, n)
        text = "".join(LETTERS[i] for i in made)
        final = {
            "index": 0,
            "content": text,
            "tokens": made if body.get("return_tokens") else [],
            "stop": True,
            "tokens_predicted": len(made),
            "tokens_evaluated": len(ids) + (self.faults.prompt_tokens if len(made) > 1 else 0),
            "generation_settings": {"speculative.types": self.faults.types},
            "truncated": False,
            "stop_type": "limit",
            "timings": {"draft_n": 6, "draft_n_accepted": 3} if len(made) > 1 and self.faults.drafting else {},
        }
        if not body.get("stream"):
            await asyncio.sleep(self.faults.step_s * len(made))
            return JSONResponse(final | ({"completion_probabilities": entries} if n else {}))
        return StreamingResponse(self._events(made, entries, final, n), media_type="text/event-stream")

    async def _events(
        self, made: list[int], entries: list[dict[str, Any]], final: dict[str, Any], n: int
    ) -> AsyncIterator[bytes]:
        try:
            for i, token in enumerate(made):
                if i == self.faults.break_at:
                    raise RuntimeError("broken on purpose")
                await asyncio.sleep(self.faults.step_s)
                part = {
                    "index": 0,
                    "content": LETTERS[token],
                    "tokens": [token],
                    "stop": False,
                    "tokens_predicted": i + 1,
                    "tokens_evaluated": final["tokens_evaluated"],
                    "padding": " " * self.faults.padding,
                }
                if n and entries[i]["top_logprobs"]:
                    part["completion_probabilities"] = [entries[i]]
                self.seen.sent += 1
                yield b"data: " + json.dumps(part).encode() + b"\n\n"
            yield b"data: " + json.dumps(final | {"content": "", "tokens": []}).encode() + b"\n\n"
        except asyncio.CancelledError:
            self.seen.cancelled += 1
            raise

    async def _openai(self, request: Request) -> Response:
        body = await self._body(request)
        chat = "chat" in request.url.path
        prompt = "".join(m["content"] for m in body["messages"]) if chat else body["prompt"]
        ids = [LETTERS.index(c) for c in prompt] if isinstance(prompt, str) else prompt
        n = body.get("top_logprobs", 20) if chat and body.get("logprobs") else int(body.get("logprobs") or 0)
        made, entries = self._made(ids, body, n)
        text = "".join(LETTERS[i] for i in made)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        if n:
            choice["logprobs"] = {"content": entries}
        usage = {"completion_tokens": len(made), "prompt_tokens": len(ids)}
        kind = "chat.completion" if chat else "text_completion"
        return JSONResponse({"choices": [choice], "object": kind, "id": "x", "usage": usage})
