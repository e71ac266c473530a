"""A seed gives llama-server's own text."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from tests.clients.served import DRAFTING, PAIR, TARGET, serve

from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel

pytestmark = pytest.mark.real

SEEDS = range(1000, 1006)
TOKENS = 24
SAME: dict[str, dict[str, Any]] = {
    "defaults": {},
    "no sampler": {"top_k": 0, "top_p": 1.0, "min_p": 0.0},
    "top_k": {"top_k": 3, "top_p": 1.0, "min_p": 0.0},
    "top_k, top_p": {"top_k": 6, "top_p": 0.8, "min_p": 0.0},
    "min_p": {"top_k": 0, "top_p": 1.0, "min_p": 0.1},
    "top_n_sigma": {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "top_n_sigma": 1.0},
    "temperature": {"temperature": 0.7, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    "dynatemp": {"dynatemp_range": 0.5},
    "penalties": {"repeat_penalty": 1.3, "presence_penalty": 0.5},
    "dry": {"dry_multiplier": 1.0},
    "logit_bias": {"logit_bias": [[3, 2.0]]},
    "another order": {"samplers": ["min_p", "temperature", "top_k"], "min_p": 0.05, "top_k": 5},
}
XTC: dict[str, Any] = {"xtc_probability": 0.5, "xtc_threshold": 0.1}
"""Here llama-server draws in another way."""
LOOKED_UP = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", 2, "--spec-ngram-simple-size-m", 8)


def texts(url: str, settings: dict[str, Any]) -> list[list[int]]:
    return [tokens(url, {**settings, "seed": seed}) for seed in SEEDS]


def tokens(url: str, settings: dict[str, Any]) -> list[int]:
    asked = {
        "prompt": [1, 2, 3, 1, 2],
        "n_predict": TOKENS,
        "temperature": 1.0,
        "return_tokens": True,
        "ignore_eos": True,
    }
    request = urllib.request.Request(
        f"{url}/completion", json.dumps({**asked, **settings}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: list[int] = json.load(answer)["tokens"]
    assert len(found) == TOKENS
    return found


def test_a_seed_gives_llama_servers_text_speculated_or_not() -> None:
    with LlamaWheel(PAIR / "target.gguf", options=EXACT_NUMBERS) as llama:
        theirs = {name: texts(llama.url, settings) for name, settings in SAME.items()}
        excluding = texts(llama.url, XTC)
    assert len({str(found) for found in theirs.values()}) == len(theirs)
    for flags in (TARGET, (*DRAFTING, "--spec-rule", "match"), (*TARGET, *LOOKED_UP, "--no-spec-adaptive")):
        with serve(*flags) as url:
            assert {name: texts(url, settings) for name, settings in SAME.items()} == theirs
    with serve(*TARGET) as url:
        assert texts(url, XTC) != excluding
