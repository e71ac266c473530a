"""Answers written by hand, from which the checks' EXAMPLES are made."""

from __future__ import annotations

import math
from collections.abc import Sequence

from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.tokens import Alternative, TokenRecord

PROMPT = (1, 2, 3, 1, 2)
LAW = (0.5, 0.25, 0.125, 0.0625, 0.0625)
"""The law of every token in the examples: letters a to e."""

LIVE_OFF: tuple[tuple[str, Scalar], ...] = (("/props speculative.types", "none"), ("/slots speculative", False))
LIVE_ON: tuple[tuple[str, Scalar], ...] = (("/props speculative.types", "none"), ("/slots speculative", True))

DECLINED: tuple[tuple[str, Scalar], ...] = (
    ("speculation.effective.types", '["none"]'),
    ("speculation.reason", 'the rule "greedy" samples another law at temperatures above 0'),
)
"""What an answer of draftproof's server says that was made without speculation, against what the server does otherwise."""
UNEXPLAINED: tuple[tuple[str, Scalar], ...] = (DECLINED[0], ("speculation.reason", ""))
IN_USE: tuple[tuple[str, Scalar], ...] = (
    ("speculation.effective.types", '["draft-simple"]'),
    ("speculation.reason", ""),
)


def letter(token: int) -> str:
    return chr(ord("a") + token)


def alternatives(law: Sequence[float], n: int) -> tuple[Alternative, ...]:
    """The n most likely tokens of a law, best first."""
    order = sorted(range(len(law)), key=lambda i: (-law[i], i))[:n]
    return tuple(Alternative(i, letter(i), math.log(law[i]) if law[i] > 0 else -math.inf) for i in order)


def true_token(token: int, law: Sequence[float] = LAW, n: int = 3) -> TokenRecord:
    """A token with its own logprob and n alternatives."""
    return TokenRecord(token, letter(token), (97 + token,), math.log(law[token]), alternatives(law, n))


def placeholder(token: int) -> TokenRecord:
    """What llama-server reports of a drafted token."""
    return TokenRecord(token, letter(token), (97 + token,), 0.0, ())


def answer(
    tokens: Sequence[TokenRecord] = (),
    *,
    n: int = 3,
    route: str = "/completion",
    sampling: Sampling = NEUTRAL,
    max_tokens: int | None = None,
    seed: int | None = 7,
    drafted: int | None = None,
    accepted: int | None = None,
    finish: str | None = "length",
    ids: Sequence[int] | None = None,
    usage: int | None = None,
    stream: bool = False,
    claims: tuple[tuple[str, Scalar], ...] = (),
    status: int = 200,
    error: str | None = None,
) -> Completion:
    """A whole answer to the prompt `bcdbc`; token ids and usage follow from `tokens` unless given."""
    made = tuple(ids) if ids is not None else tuple(t.id for t in tokens if t.id is not None)
    return Completion(
        ask=Ask(PROMPT, max_tokens or max(len(made), 1), n, sampling, seed, route=route, stream=stream),
        exchange=1,
        route=route,
        status=status,
        text="".join(map(letter, made)),
        tokens=tuple(tokens),
        token_ids=made,
        finish=finish,
        prompt_tokens=len(PROMPT),
        completion_tokens=len(made) if usage is None else usage,
        drafted=drafted,
        accepted=accepted,
        claims=claims,
        error=error,
    )
