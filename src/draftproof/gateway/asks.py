"""What a request asks for: whether logprobs, in which shape, and whether they can be re-scored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftproof.gateway.wire import Incoming
from draftproof.server.errors import Refusal

NATIVE, COMPLETIONS, CHAT, GENERATE = "/completion", "/v1/completions", "/v1/chat/completions", "/generate"
_ROUTES = {
    "/completion": NATIVE,
    "/completions": NATIVE,
    "/v1/completions": COMPLETIONS,
    "/chat/completions": CHAT,
    "/v1/chat/completions": CHAT,
    "/generate": GENERATE,
}
_ELSEWHERE = ("/infill", "/v1/responses", "/responses", "/v1/messages")
_NAMES = ("logprobs", "n_probs", "top_logprobs")
_ASKING = {CHAT: ("logprobs", "n_probs"), GENERATE: ("return_logprob",)}
_HINTS = (b"logprob", b"n_probs", b"\\u")
_UNPROVABLE = (
    "grammar",
    "json_schema",
    "response_format",
    "tools",
    "mirostat",
    "xtc_probability",
    "adaptive_target",
)
"""Settings under which the law after the samplers depends on more than the tokens before, or on chance."""
_CONTENT = ("text",)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request for logprobs. `alternatives`: as far as the request says it; 0 where only the answer shows it."""

    route: str
    body: Mapping[str, Any]
    alternatives: int
    stream: bool
    post_sampling: bool

    @property
    def answers(self) -> int:
        """Answers per prompt."""
        asked = self.body
        if self.route == GENERATE:
            asked = asked["sampling_params"] if isinstance(asked.get("sampling_params"), dict) else {}
        n = asked.get("n_cmpl", asked.get("n", 1)) if self.route == NATIVE else asked.get("n", 1)
        return n if isinstance(n, int) and n > 0 else 1

    @property
    def prompts(self) -> list[Any]:
        """Texts or lists of token ids; of a chat the messages, as one."""
        if self.route == CHAT:
            return [self.body.get("messages")]
        prompt = self.body.get("prompt")
        if self.route == GENERATE:
            prompt = self.body.get("text", self.body.get("input_ids"))
        if isinstance(prompt, list) and (not prompt or not all(type(p) is int for p in prompt)):
            return list(prompt)
        return [prompt]

    def why_not(self) -> str:
        """Why the answer to this request cannot be re-scored; "" if it can."""
        if self.route == CHAT and _has_media(self.body.get("messages")):
            return "it holds images or sound, which have no token ids"
        if self.route != CHAT and not all(_is_prompt(p) for p in self.prompts):
            return "its prompt is neither text nor a list of token ids"
        if self.post_sampling:
            acting = [name for name in _UNPROVABLE if _acts(self.body.get(name))]
            if acting:
                return f"probabilities after sampling depend on more than the tokens before, with {', '.join(acting)}"
        return ""


class Unscorable(Refusal):
    """A request for logprobs that cannot be re-scored. `why` completes "logprobs that cannot be re-scored: "."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"This request asks for logprobs that cannot be re-scored: {why}. Leave logprobs out, or start the gateway with "
            "--plain and the URL of a server without speculation."
        )


def wanted(incoming: Incoming) -> Wanted | None:
    """None for a request that passes through untouched: no logprobs asked, or nothing that is understood. Raises Unscorable."""
    if incoming.method != "POST" or not any(hint in incoming.body for hint in _HINTS):
        return None
    try:
        body = json.loads(incoming.body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    if incoming.path in _ELSEWHERE and (
        any(_is_asked(body.get(n)) for n in _NAMES) or "logprobs" in str(body.get("include"))
    ):
        raise Unscorable(f"{incoming.path} gives no token ids; {COMPLETIONS}, {CHAT} and {NATIVE} do")
    route = _ROUTES.get(incoming.path)
    if route is None or not any(_is_asked(body.get(name)) for name in _ASKING.get(route, _NAMES)):
        return None
    found = Wanted(route, body, _alternatives(body), body.get("stream") is True, bool(body.get("post_sampling_probs")))
    if why := found.why_not():
        raise Unscorable(why)
    return found


def _is_asked(value: object) -> bool:
    return value is True or (isinstance(value, int | float) and value > 0)


def _alternatives(body: Mapping[str, Any]) -> int:
    for name in ("n_probs", "top_logprobs", "top_logprobs_num", "logprobs"):
        value = body.get(name)
        if type(value) is int and value > 0:
            return value
    return 0


def _acts(value: object) -> bool:
    if isinstance(value, int | float):
        return value > 0
    return bool(value) and value != {"type": "text"}


def _is_prompt(prompt: object) -> bool:
    return isinstance(prompt, str) or (isinstance(prompt, list) and all(type(t) is int for t in prompt))


def _has_media(messages: object) -> bool:
    parts = [
        part
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        for part in message["content"]
    ]
    return any(isinstance(part, dict) and part.get("type") not in _CONTENT for part in parts)
