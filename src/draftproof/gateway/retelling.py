"""Answers of /v1/completions, told from those of llama-server's native route: which has token ids in its streams."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from draftproof.gateway.asks import COMPLETIONS, Wanted
from draftproof.gateway.upstream import Upstream

_FINISH = {"eos": "stop", "word": "stop"}


def is_retold(wanted: Wanted, upstream: Upstream) -> bool:
    """Whether a request has a native form that means the same."""
    return (
        wanted.route == COMPLETIONS
        and upstream.kind == "llama_server"
        and wanted.answers == len(wanted.prompts) == 1
        and wanted.alternatives > 0
    )


def native(wanted: Wanted) -> dict[str, Any]:
    """The native form."""
    body = {k: v for k, v in wanted.body.items() if k not in ("logprobs", "stream_options", "model", "n")}
    if "max_tokens" in body:
        body["n_predict"] = body.pop("max_tokens")
    if isinstance(body.get("stop"), str):
        body["stop"] = [body["stop"]]  # the native route ignores a stop that is no list
    return body | {"n_probs": wanted.alternatives, "return_tokens": True}


@dataclass(frozen=True, slots=True)
class Retold:
    """One answer. `build`, `model`: as the server names itself and its model in OpenAI's answers."""

    build: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")

    @classmethod
    def of(cls, wanted: Wanted, upstream: Upstream) -> Self:
        asked = wanted.body.get("model")
        return cls(upstream.build, asked if isinstance(asked, str) and asked else upstream.model)

    def part(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """An event of a native stream."""
        return self._body(event, None)

    def ending(self, final: Mapping[str, Any]) -> dict[str, Any]:
        """A whole native answer, or the last event of its stream."""
        finish = _FINISH.get(str(final.get("stop_type")), "length")
        body = self._body(final, finish)
        timings = final.get("timings") or {}
        made, prompt = final.get("tokens_predicted", 0), final.get("tokens_evaluated", 0)
        body["usage"] = {
            "completion_tokens": made,
            "prompt_tokens": prompt,
            "total_tokens": made + prompt,
            "prompt_tokens_details": {"cached_tokens": timings.get("cache_n", 0)},
        }
        return body | {name: final[name] for name in ("timings", "draftproof") if name in final}

    def _body(self, told: Mapping[str, Any], finish: str | None) -> dict[str, Any]:
        entries = told.get("completion_probabilities")
        logprobs = {"content": entries} if entries else None
        choice = {"text": told.get("content") or "", "index": 0, "logprobs": logprobs, "finish_reason": finish}
        return {
            "choices": [choice],
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.build,
            "object": "text_completion",
            "id": self.id,
        }
