"""How a token is drawn from logits: llama.cpp's parameter names, neutral by default (every sampler off, temperature 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

SAMPLERS = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
"""llama-server's samplers in its default order, by its own names."""

ALIASES = {
    "typical_p": "typ_p",
    "typical": "typ_p",
    "top-k": "top_k",
    "top-p": "top_p",
    "min-p": "min_p",
    "temp": "temperature",
}

ANY = 3.4028234663852886e38
"""The largest float32: samplers reckon in float32 in llama.cpp, and what is made of such numbers here stays within float64."""
_WHOLE = 2**31 - 1
_MOST_SAMPLERS = 64

_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (-ANY, ANY),
    "top_k": (-_WHOLE - 1, _WHOLE),
    "top_p": (0, ANY),
    "min_p": (0, 1),
    "typical_p": (0, ANY),
    "repeat_penalty": (1e-9, ANY),
    "presence_penalty": (-ANY, ANY),
    "frequency_penalty": (-ANY, ANY),
    "top_n_sigma": (-ANY, ANY),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "dynatemp_range": (0, ANY),
    "dynatemp_exponent": (0, ANY),
    "mirostat_tau": (0, ANY),
    "mirostat_eta": (0, ANY),
    "dry_multiplier": (0, ANY),
    "dry_base": (0, ANY),
    "repeat_last_n": (-1, _WHOLE),
    "dry_penalty_last_n": (-1, _WHOLE),
    "dry_allowed_length": (0, _WHOLE),
    "min_keep": (0, _WHOLE),
}


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampler settings of one request. `logit_bias` comes first, then `samplers` in their order.

    `top_k` 0 keeps all tokens; `temperature` 0 takes the most likely one. `logit_bias` is (token id, added logit); -inf bans.
    `repeat_last_n` and `dry_penalty_last_n` count prompt tokens too; 0 switches off, -1 looks at the whole context.
    `dynatemp_range` r > 0 lets the temperature move in temperature ± r with the entropy. `mirostat` 1 or 2 replaces all
    samplers but the bias and the temperature. `dry_breakers` are sequences of token ids that end a repetition.
    `min_keep` is what the truncating samplers leave at least. A sampler that is not in `samplers` is off, the temperature too.
    Raises ValueError for a value that no sampler can use.
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
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_breakers: tuple[tuple[int, ...], ...] = ()
    min_keep: int = 0
    samplers: tuple[str, ...] = SAMPLERS

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} must be a number in [{low:g}, {high:g}], not {value!r}")
        if self.mirostat not in {0, 1, 2}:
            raise ValueError(f"mirostat must be 0, 1 or 2, not {self.mirostat!r}")
        for token, bias in self.logit_bias:
            if token < 0 or not (-ANY <= bias <= ANY or bias == -math.inf):
                raise ValueError(
                    f"logit_bias ({token}, {bias}): the id must not be negative, the bias in [{-ANY:g}, {ANY:g}] or -inf"
                )
        names = tuple(ALIASES.get(name, name) for name in self.samplers)
        unknown = sorted(set(names) - set(SAMPLERS))
        if unknown:
            raise ValueError(f"unknown sampler {', '.join(unknown)}; known are {', '.join(SAMPLERS)}")
        if len(names) > _MOST_SAMPLERS:
            raise ValueError(f"{len(names)} samplers: at most {_MOST_SAMPLERS}")
        object.__setattr__(self, "samplers", names)

    @property
    def greedy(self) -> bool:
        """Whether the law is one-hot on the largest logit after bias and penalties, whatever the other samplers do."""
        return (
            self.temperature <= 0
            and "temperature" in self.samplers
            and self.dynatemp_range == 0
            and not (self.typical_p < 1 or self.mirostat)
            and not self.has_xtc
        )

    @property
    def has_xtc(self) -> bool:
        """Whether a coin decides at each token if the top choices are left out."""
        return not self.mirostat and self.xtc_probability > 0 and self.xtc_threshold <= 0.5 and "xtc" in self.samplers


NEUTRAL = Sampling()
GREEDY = Sampling(temperature=0.0)
