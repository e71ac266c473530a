"""Answers recorded from llama-server b11434 on a countable pair, as exchanges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from draftproof.client.dialect import Survey
from draftproof.core.ask import Ask
from draftproof.core.exchange import Attempt, Exchange
from draftproof.core.sampling import Sampling

FOLDER = Path(__file__).parent.parent / "data" / "llama-server-b11434"


def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return loaded


def exchange(answer: object, path: str = "/completion", status: int | None = 200, **fields: Any) -> Exchange:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return Exchange(7, "POST", path, "{}", status, text, (Attempt(0.0, 0.5, str(status)),), **fields)


def recorded(name: str) -> tuple[Ask, Exchange]:
    """The question and the answer of `logprobs/<name>.json`."""
    record = load(f"logprobs/{name}")
    request, body = record["request"], record["body"]
    ask = Ask(
        prompt="bcdbc",
        max_tokens=12,
        alternatives=3,
        sampling=Sampling(top_k=3),
        seed=request["seed"],
        stream=request["stream"],
        post_sampling=request.get("post_sampling_probs", False),
    )
    return ask, exchange(body, record["path"], record["status"])


def survey(mode: str) -> Survey:
    """The well-known endpoints of a server started in `mode`, before its first request."""
    fresh = load(f"meta/{mode}")["fresh"]
    return Survey({path: exchange(a["body"], path, a["status"]) for path, a in fresh.items() if "body" in a})
