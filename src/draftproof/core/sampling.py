"""How a token is drawn from logits: llama.cpp's parameter names, neutral by default (every sampler off, temperature 1)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampler settings of one request. Applied in llama.cpp's order: bias, penalties, top-k, top-p, min-p, temperature.

    `top_k` 0 keeps all tokens; `temperature` 0 takes the most likely one. `logit_bias` is (token id, added logit); -inf bans.
    `repeat_last_n` counts prompt tokens too; 0 switches the penalties off, -1 looks at the whole context.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()


NEUTRAL = Sampling()
GREEDY = Sampling(temperature=0.0)
