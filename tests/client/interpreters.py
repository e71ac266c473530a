"""SGLang's way of speaking in front of a server that speaks llama-server's: what is sound or broken behind it shows through it.

vLLM's is that of some of the liars (`draftproof.liars.vllm_words`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

Json = dict[str, Any]
SAMPLERS = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}


class Refused(Exception):
    """The server behind refused: `status` and its words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class Upstream:
    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str) -> str:
        with urlopen(self.url + path, timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    def post(self, path: str, body: Mapping[str, Any]) -> Json:
        request = Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=30) as answer:
                parsed: Json = json.load(answer)
                return parsed
        except HTTPError as e:
            raise Refused(e.code, e.read().decode()) from e

    def complete(self, prompt: object, body: Mapping[str, Any], **fields: Any) -> Json:
        """One native answer; `body` holds samplers by the names that all share."""
        top_k = body.get("top_k", -1)
        native = {name: body.get(name, neutral) for name, neutral in SAMPLERS.items()} | {
            "prompt": prompt,
            "top_k": max(top_k, 0),
            "repeat_penalty": body.get("repetition_penalty", 1.0),
            "return_tokens": True,
            "stop": body.get("stop", []),
        }
        return self.post("/completion", native | fields)

    def echo(self, prompt: object, k: int) -> Json:
        """The parallel lists of the prompt's logprobs."""
        asked = {"prompt": prompt, "max_tokens": 0, "logprobs": k, "echo": True}
        lists: Json = self.post("/v1/completions", asked)["choices"][0]["logprobs"]
        return lists


def _letter(text: str) -> int:
    return ord(text) - ord("a")


Answer = Json | list[Any] | str
"""An object or a list is JSON, a text is told as it is."""


class Interpreter:
    """One kind of server. `get` and `post` answer, or raise KeyError for a path that it has not; `stream` gives the events of a
    request that wants a stream.
    """

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.seen: list[Json] = []

    def get(self, path: str) -> Answer:
        raise KeyError(path)

    def post(self, path: str, body: Json) -> Answer:
        raise KeyError(path)

    def stream(self, path: str, body: Json) -> Iterator[Json]:
        raise KeyError(path)


class SGLang(Interpreter):
    def get(self, path: str) -> Answer:
        known: dict[str, Answer] = {
            "/health": "",
            "/v1/models": {"data": [{"id": "tiny", "owned_by": "sglang", "max_model_len": 512}]},
            "/server_info": {"version": "0.5.23", "max_running_requests": 4, "speculative_algorithm": "STANDALONE"},
            "/model_info": {"model_path": "models/tiny", "is_generation": True},
        }
        return known[path]

    def post(self, path: str, body: Json) -> Answer:
        if path == "/tokenize":
            return self.upstream.post("/tokenize", {"content": body["prompt"], "add_special": False})
        if path != "/generate":
            raise KeyError(path)
        prompts: Any = body["input_ids"] if "input_ids" in body else body["text"]
        bulk = isinstance(body["sampling_params"], list)
        samplings = body["sampling_params"] if bulk else [body["sampling_params"]]
        answers: list[Any] = [
            self._answer(prompt, body, sampling)
            for prompt, sampling in zip(list(prompts or ()) if bulk else [prompts], samplings, strict=True)
        ]
        return answers if bulk else answers[0]

    def _answer(self, prompt: object, body: Json, sampling: Json) -> Json:
        k = body.get("top_logprobs_num", 0)
        native = self.upstream.complete(
            prompt,
            sampling,
            n_predict=sampling["max_new_tokens"],
            n_probs=k,
            seed=sampling.get("sampling_seed", -1),
        )
        timings = native["timings"]
        meta = {
            "prompt_tokens": native["tokens_evaluated"],
            "completion_tokens": native["tokens_predicted"],
            "finish_reason": {"type": "length" if native["stop_type"] == "limit" else "stop"},
        }
        if timings.get("draft_n"):
            meta |= {
                "spec_num_proposed_drafts": timings["draft_n"],
                "spec_num_correct_drafts": timings["draft_n_accepted"],
            }
        if body.get("return_logprob"):
            entries = native.get("completion_probabilities", [])
            meta["output_token_logprobs"] = [_triple(e) for e in entries]
            meta["output_top_logprobs"] = [[_triple(a) for a in e["top_logprobs"]] or None for e in entries]
            if body["logprob_start_len"] == 0:
                meta |= self._prompt(prompt, k)
        return {"text": native["content"], "output_ids": native["tokens"], "meta_info": meta}

    def _prompt(self, prompt: object, k: int) -> Json:
        """By the echo of the server behind, whose tokens are letters."""
        told = self.upstream.echo(prompt, k)
        tops = [None if top is None else [[x, _letter(t), t] for t, x in top.items()] for top in told["top_logprobs"]]
        own = zip(told["token_logprobs"], told["tokens"], strict=True)
        return {"input_token_logprobs": [[x, _letter(t), t] for x, t in own], "input_top_logprobs": tops}

    def stream(self, path: str, body: Json) -> Iterator[Json]:
        """Everything so far in every event, one token more in each."""
        whole = self.post(path, body)
        assert isinstance(whole, dict)
        meta, ids = whole["meta_info"], whole["output_ids"]
        for n in range(1, len(ids) + 1):
            parts = {name: v[:n] if isinstance(v, list) else v for name, v in meta.items()} | {"completion_tokens": n}
            if n < len(ids):
                parts["finish_reason"] = None
            yield {"text": whole["text"][:n], "output_ids": ids[:n], "meta_info": parts}


def _triple(entry: Json) -> list[Any]:
    return [entry["logprob"], entry["id"], entry["token"]]


@contextmanager
def interpreted(url: str, kind: Callable[[Upstream], Interpreter]) -> Iterator[str]:
    """The URL at which the server at `url` is spoken with as one of that kind."""
    interpreter = kind(Upstream(url))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answered(lambda: interpreter.get(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if body.get("stream"):
                self._answered(lambda: _as_events(interpreter.stream(self.path, body)), "text/event-stream")
            else:
                self._answered(lambda: interpreter.post(self.path, body))

        def _answered(self, answer: Callable[[], Answer], kind: str = "application/json") -> None:
            try:
                told = answer()
                status, raw = 200, told if isinstance(told, str) else json.dumps(told)
            except KeyError:
                status, raw = 404, '{"detail": "Not Found"}'
            except Refused as e:
                status, raw = e.status, e.words
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(raw.encode())))
            self.end_headers()
            self.wfile.write(raw.encode())

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def _as_events(events: Iterator[Json]) -> str:
    """All events of a stream at once, as behind a proxy that buffers."""
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
