"""The real llama-server behind the gateway, killed in the middle of streams and started again at the same address."""

from __future__ import annotations

import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.gateway.test_gateway import ROUTES, entries, events, text_of
from tests.real.modes import MODES

from draftproof.countable.files import write_pair
from draftproof.gateway.run import Background

pytestmark = pytest.mark.real
LAW: dict[str, Any] = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 5, "ignore_eos": True}
LOGPROBS = ("n_probs", "logprobs", "top_logprobs")
WITH = [(path, {**LAW, **body}) for path, body in ROUTES.items()]
WITHOUT = [(path, {k: v for k, v in body.items() if k not in LOGPROBS}) for path, body in WITH]
STREAMS = [*WITH, *WITHOUT]


def long(body: dict[str, Any], tokens: int) -> dict[str, Any]:
    return body | {name: tokens for name in ("n_predict", "max_tokens") if name in body} | {"stream": True}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def values(entry: dict[str, Any]) -> list[float]:
    return [entry["logprob"], *(a["logprob"] for a in entry["top_logprobs"])]


def are_alike(found: list[dict[str, Any]], true: list[dict[str, Any]]) -> None:
    assert [e["token"] for e in found] == [e["token"] for e in true]
    for mine, theirs in zip(found, true, strict=True):
        assert values(mine) == pytest.approx(values(theirs), abs=1e-5)


def test_streams_end_in_errors_and_the_next_requests_work(tmp_path: Path) -> None:
    target, draft, _law = write_pair(tmp_path)
    server = MODES["draft-simple"].server(target, draft, port=free_port(), n_ctx=32768)
    begun = threading.Semaphore(0)

    with server, Background([server.url]) as gateway, ThreadPoolExecutor(len(STREAMS)) as pool:

        def follow(path: str, body: dict[str, Any]) -> tuple[int, str]:
            parts = []
            with httpx2.stream("POST", gateway.url + path, json=long(body, 3000), timeout=60) as answer:
                for part in answer.iter_text():
                    parts.append(part)
                    begun.release()
            return answer.status_code, "".join(parts)

        asked = [pool.submit(follow, *one) for one in STREAMS]
        for _ in range(40):  # events of the streams; those of OpenAI's routes with logprobs come later
            assert begun.acquire(timeout=30)
        os.kill(server.pid, signal.SIGKILL)
        broken = [future.result(timeout=60) for future in asked]
        server.stop()
        refused = httpx2.post(gateway.url + "/completion", json=LAW | ROUTES["/completion"])
        assert refused.status_code == 503
        assert refused.json()["error"]["message"] == "upstream 1 cannot be reached."

        server.start()
        again = [httpx2.post(gateway.url + path, json=long(body, 100), timeout=60) for path, body in STREAMS]
        with MODES["no draft"].server(target, draft) as plain:
            true = [httpx2.post(plain.url + path, json=long(body, 100), timeout=60) for path, body in STREAMS]

    for (path, body), (status, text), after, without in zip(STREAMS, broken, again, true, strict=True):
        told = events(text)
        assert "[DONE]" not in text, path
        assert told[-1]["error"]["type"] == "upstream_error", (path, text[-300:])
        assert status == 200 or (len(told) == 1 and status in (502, 503))
        whole, reference = events(after.text), events(without.text)
        assert "".join(map(text_of, whole)) == "".join(map(text_of, reference))
        assert "".join(map(text_of, reference)).startswith("".join(map(text_of, told[:-1]))[:100])
        if any(name in body for name in LOGPROBS):
            right = [e for event in reference for e in entries(event)]
            are_alike([e for event in whole for e in entries(event)], right)
            before = [e for event in told[:-1] for e in entries(event)][:100]
            are_alike(before, right[: len(before)])
