"""Small servers with vLLM's and SGLang's bodies, as recorded and documented (tests/data), and placeholders for drafted tokens."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.gateway.upstreams import LETTERS, FakeServer, entry

TRIPLE = tuple[float | None, int, str]


class FakeVLLM(FakeServer):
    """Drafted tokens have the logprob 0.0 and no alternatives. `faults.shifted`: prompt_logprobs are of other contexts."""

    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self._models),
            Route("/v1/completions", self._completions, methods=["POST"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
        ]

    async def _models(self, _: Request) -> Response:
        return JSONResponse({"data": [{"id": "letters", "owned_by": "vllm"}]})

    async def _completions(self, request: Request) -> Response:
        body = await self._body(request)
        prompt = body["prompt"]
        ids = [LETTERS.index(c) for c in prompt] if isinstance(prompt, str) else prompt
        n = body.get("logprobs") or 0
        made, found = self._made(ids, body, n)
        choice: dict[str, Any] = {"index": 0, "text": "".join(LETTERS[i] for i in made), "finish_reason": "length"}
        if n:
            choice["logprobs"] = {
                "tokens": [e["token"] for e in found],
                "token_logprobs": [e["logprob"] for e in found],
                "top_logprobs": [_top(e) for e in found],
                "text_offset": list(range(len(found))),
            }
        if "prompt_logprobs" in body:
            shift = 1 if self.faults.shifted else 0
            rows = [entry([*ids[:i], *[0] * shift], ids[i], body["prompt_logprobs"]) for i in range(1, len(ids))]
            choice["prompt_logprobs"] = [None, *map(_row, rows)]
        return JSONResponse({"choices": [choice | _ids(body, ids, made)], "object": "text_completion"})

    async def _chat(self, request: Request) -> Response:
        body = await self._body(request)
        ids = [LETTERS.index(c) for c in "".join(m["content"] for m in body["messages"])]
        made, found = self._made(ids, body, body.get("top_logprobs", 0) or 1)
        content = [{k: v for k, v in e.items() if k != "id"} for e in found]
        for one in content:
            one["top_logprobs"] = [{k: v for k, v in a.items() if k != "id"} for a in one["top_logprobs"]]
            one["top_logprobs"] = one["top_logprobs"][: body.get("top_logprobs", 0)]
        message = {"role": "assistant", "content": "".join(LETTERS[i] for i in made)}
        told = _ids(body, ids, made)
        prompt = {"prompt_token_ids": told.pop("prompt_token_ids")} if told else {}
        choice = {"index": 0, "message": message, "logprobs": {"content": content}, "finish_reason": "length"} | told
        return JSONResponse({"choices": [choice], "object": "chat.completion", **prompt})


class FakeSGLang(FakeServer):
    """Drafted tokens have the logprob 0.0 and null for alternatives. `faults.shifted` as above."""

    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self._models),
            Route("/tokenize", self._tokenize, methods=["POST"]),
            Route("/generate", self._generate, methods=["POST"]),
        ]

    async def _models(self, _: Request) -> Response:
        return JSONResponse({"data": [{"id": "letters", "owned_by": "sglang"}]})

    async def _tokenize(self, request: Request) -> Response:
        body = await self._body(request)
        return JSONResponse({"tokens": [LETTERS.index(c) for c in body["prompt"]]})

    async def _generate(self, request: Request) -> Response:
        body = await self._body(request)
        ids = body.get("input_ids") or [LETTERS.index(c) for c in body["text"]]
        params, n = body["sampling_params"], body["top_logprobs_num"]
        made, found = self._made(ids, {"max_tokens": params["max_new_tokens"]}, n)
        meta: dict[str, Any] = {
            "prompt_tokens": len(ids),
            "completion_tokens": len(made),
            "finish_reason": {"type": "length", "length": len(made)},
            "output_token_logprobs": [_triple(e) for e in found],
            "output_top_logprobs": [list(map(_triple, e["top_logprobs"])) or None for e in found],
        }
        start = body.get("logprob_start_len", -1)
        if start >= 0:
            shift = 1 if self.faults.shifted else 0
            rows = [entry([*ids[:i], *[0] * shift], ids[i], n) for i in range(start + 1, len(ids))]
            meta["input_token_logprobs"] = [(None, ids[start], LETTERS[ids[start]]), *map(_triple, rows)]
            meta["input_top_logprobs"] = [None, *(list(map(_triple, e["top_logprobs"])) for e in rows)]
        return JSONResponse({"text": "".join(LETTERS[i] for i in made), "output_ids": made, "meta_info": meta})


def _ids(body: dict[str, Any], prompt: list[int], made: list[int]) -> dict[str, Any]:
    return {"token_ids": made, "prompt_token_ids": prompt} if body.get("return_token_ids") else {}


def _top(one: dict[str, Any]) -> dict[str, float]:
    """The token itself before all, as vLLM has it."""
    if not one["top_logprobs"]:
        return {}
    return {one["token"]: one["logprob"]} | {a["token"]: a["logprob"] for a in one["top_logprobs"]}


def _row(one: dict[str, Any]) -> dict[str, Any]:
    named = [(one["id"], one), *((a["id"], a) for a in one["top_logprobs"])]
    return {str(i): {"logprob": a["logprob"], "rank": 1, "decoded_token": a["token"]} for i, a in named}


def _triple(one: dict[str, Any]) -> TRIPLE:
    return one["logprob"], one["id"], one["token"]
