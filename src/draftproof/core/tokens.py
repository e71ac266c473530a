"""Tokens as a server reports them. Absence is a value (None), never a gap."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alternative:
    """One entry of a token's list of alternatives. `id` is None where the API gives text only."""

    id: int | None
    text: str
    logprob: float | None


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """One generated token.

    `logprob` None: the field was absent or null. `alternatives` None: the list was absent; (): it was there and empty.
    With `Ask.post_sampling` the values are log of the probabilities after the samplers.
    """

    id: int | None
    text: str
    bytes: tuple[int, ...] | None
    logprob: float | None
    alternatives: tuple[Alternative, ...] | None
