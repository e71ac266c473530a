"""Settings as llama-server tells them: `generation_settings` of answers, `params` of /slots and /props."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from draftproof.server.settings import Settings
from draftproof.server.speculating import types_text

_SAMPLING = (
    "temperature",
    "dynatemp_range",
    "dynatemp_exponent",
    "top_k",
    "top_p",
    "min_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "typical_p",
    "repeat_last_n",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
)
_OFF: dict[str, Any] = {"adaptive_target": -1.0, "adaptive_decay": 0.9}
"""Samplers that llama-server has and this server refuses to be asked for."""


def describe(settings: Settings, types: Sequence[str], *, private: bool) -> dict[str, Any]:
    """Every setting by llama-server's name. types: the drafters in use. private: with what came from the prompt's sender."""
    s = settings.sampling
    limits = {"max_tokens": settings.max_tokens, "n_predict": settings.max_tokens, "n_keep": 0, "n_discard": 0}
    told: dict[str, Any] = {"seed": settings.seed, **{name: getattr(s, name) for name in _SAMPLING}, **_OFF, **limits}
    told |= {
        "ignore_eos": settings.ignore_eos,
        "stream": settings.stream,
        "n_probs": max(settings.alternatives, 0),
        "min_keep": s.min_keep,
        "chat_format": "Content-only",
        "reasoning_format": "none",
        "reasoning_in_content": False,
        "generation_prompt": "",
        "samplers": list(s.samplers),
        "speculative.types": types_text(types),
        "timings_per_token": settings.timings_per_token,
        "post_sampling_probs": settings.post_sampling,
        "backend_sampling": False,
        "lora": [],
    }
    if types:
        told["speculative.rule"] = settings.speculation.rule
    return told | _private(settings) if private else told


def _private(settings: Settings) -> dict[str, Any]:
    return {
        "dry_sequence_breakers": list(settings.breakers),
        "stop": list(settings.stops),
        "logit_bias": [
            {"token": token, "bias": float(bias) if math.isfinite(bias) else None}
            for token, bias in settings.sampling.logit_bias
        ],
        "grammar": settings.grammar,
        "grammar_lazy": False,
        "grammar_triggers": [],
        "preserved_tokens": [],
    }
