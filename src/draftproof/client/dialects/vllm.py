"""vLLM: OpenAI's routes with vLLM's sampler names, the ids of tokens, prompt_logprobs, and draft counters in /metrics.

Its lists of alternatives name tokens by text or by id, never both. Text it is: ids without text could not be told to anybody, and
joined texts are the only contexts to be written down. So prompts are text too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from draftproof.client.described import owner
from draftproof.client.dialect import Survey
from draftproof.client.dialects.openai import OpenAI
from draftproof.client.openai_wire import CHAT, COMPLETIONS
from draftproof.core.ask import Ask


@dataclass(frozen=True, slots=True)
class VLLM(OpenAI):
    """`n` answers have consecutive seeds. An answer counts its own drafts only where the server was started with that option.

    No grammar is sent: a token that a grammar forces has logprob 0, which is right after the grammar and wrong of the model.
    """

    name: str = "vllm"
    paths: tuple[str, ...] = ("/version", "/metrics")
    batch_routes: tuple[str, ...] = (COMPLETIONS, CHAT)

    def recognise(self, survey: Survey) -> str:
        if owner(survey) == "vllm":
            return "/v1/models says owned_by vllm"
        return "/metrics has vllm: counters" if "\nvllm:" in (survey.text("/metrics") or "") else ""

    def body(self, ask: Ask, route: str) -> dict[str, Any]:
        # No super(): a dataclass with slots is made anew, and the bare form would look for the class it was made from.
        body = OpenAI.body(self, ask, route) | {"return_token_ids": True}
        if body.pop("echo", False):
            body["prompt_logprobs"] = ask.alternatives
        return body


DIALECT = VLLM()
