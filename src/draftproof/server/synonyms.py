"""Fields that mean the same: which of them counts, and which are overruled."""

from __future__ import annotations

from collections.abc import Iterator

from draftproof.server.schema import ChatCompletion, Generate, OpenAICompletion

MAX_TOKENS = ("n_predict", "max_completion_tokens", "max_tokens")
CHOICES = ("n_cmpl", "n")
_CHAT_ALTERNATIVES = 20


def first_of(request: Generate, names: tuple[str, ...]) -> int | None:
    """The value that counts: that of the first of the names which is set."""
    return next((value for name in names if (value := getattr(request, name)) is not None), None)


def asked_alternatives(request: Generate) -> tuple[str, int]:
    """By which field, and how many: 0 for the token's own logprob alone, -1 for no logprobs."""
    if isinstance(request, ChatCompletion) and request.logprobs:
        return "top_logprobs", _CHAT_ALTERNATIVES if request.top_logprobs is None else request.top_logprobs
    if isinstance(request, OpenAICompletion) and request.logprobs is not None and request.logprobs is not False:
        return "logprobs", int(request.logprobs)
    return "n_probs", request.n_probs or -1


def overruled(request: Generate) -> Iterator[str]:
    """Names of fields that ask for something else than the one that counts."""
    for names in (MAX_TOKENS, CHOICES):
        counts = first_of(request, names)
        yield from (name for name in names if getattr(request, name) not in (None, counts))
    name, asked = asked_alternatives(request)
    if name != "n_probs" and request.n_probs not in (None, asked):
        yield "n_probs"
    elif name == "n_probs" and asked > 0:
        # 0 and false are the same here
        yield from (other for other in ("logprobs", "top_logprobs") if getattr(request, other, None) == 0)
