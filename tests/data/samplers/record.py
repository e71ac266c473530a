"""Records what a real llama-server says its samplers leave: `python tests/data/samplers/record.py TARGET.gguf` writes answers.json.

For each prompt: the model's logits (from the raw logprobs, with the constant that softmax hides recovered from one request
with a repeat penalty), and for each case the request and the list of probabilities after the samplers.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import httpx2

from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel

OFF: dict[str, Any] = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 1, "cache_prompt": False}
PROMPTS = {
    "story": [1, 2, 3, 1, 2],
    "loop": [1, 2, 3, 1, 2, 3, 1, 2],
    "flat": [0] * 4,
    "back": [7, 5, 5, 2, 7, 5, 5, 2, 7],
}
PENALTIES = {"repeat_penalty": 1.7, "presence_penalty": 0.3, "frequency_penalty": 0.25}
DRY = {"dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 1, "dry_penalty_last_n": 64}
CASES: list[dict[str, Any]] = [
    {},
    {"temperature": 0.5},
    {"temperature": 1.7},
    {"temperature": 0},
    {"temperature": -1},
    {"logit_bias": [[5, -3.5], [1, 2.0]]},
    {"logit_bias": [[7, False], [5, False]]},
    {"repeat_penalty": 1.5},
    {"repeat_penalty": 0.6},
    {"repeat_penalty": 1.5, "repeat_last_n": 2},
    {"repeat_penalty": 1.5, "repeat_last_n": 0},
    {"repeat_penalty": 1.5, "repeat_last_n": 64},
    {"presence_penalty": 0.7},
    {"frequency_penalty": 0.4, "repeat_last_n": 3},
    PENALTIES,
    {**PENALTIES, "temperature": 0},
    DRY,
    {**DRY, "dry_allowed_length": 2},
    {**DRY, "dry_allowed_length": 0},
    {**DRY, "dry_penalty_last_n": 3},
    {**DRY, "dry_penalty_last_n": 5, "dry_base": 3.0},
    {**DRY, "dry_base": 1.0},
    {**DRY, "dry_sequence_breakers": ["c"]},
    {**DRY, "dry_sequence_breakers": ["b"]},
    {**DRY, "dry_sequence_breakers": ["db", "ff"]},
    {**DRY, "dry_sequence_breakers": ["a", "hff"]},
    {"top_n_sigma": 0.5},
    {"top_n_sigma": 1.0},
    {"top_n_sigma": 2.0, "temperature": 1.5},
    {"top_k": 1},
    {"top_k": 3},
    {"top_k": 40},
    {"typical_p": 0.2},
    {"typical_p": 0.5},
    {"typical_p": 0.9},
    {"typical_p": 0.2, "min_keep": 4},
    {"typical_p": 0.3, "temperature": 0},
    {"top_p": 0},
    {"top_p": 0.3},
    {"top_p": 0.8},
    {"top_p": 0.95},
    {"top_p": 0.3, "min_keep": 3},
    {"min_p": 0.1},
    {"min_p": 0.5},
    {"min_p": 1.0},
    {"min_p": 0.5, "min_keep": 5},
    {"min_p": 0.5, "min_keep": 5, "top_k": 3},
    {"xtc_probability": 1.0, "xtc_threshold": 0.1},
    {"xtc_probability": 1.0, "xtc_threshold": 0.2},
    {"xtc_probability": 1.0, "xtc_threshold": 0.5},
    {"xtc_probability": 1.0, "xtc_threshold": 0.6},
    {"xtc_probability": 1.0, "xtc_threshold": 0.05, "min_keep": 4},
    {"xtc_probability": 1.0, "xtc_threshold": 0.05, "min_keep": 8},
    {"xtc_probability": 1.0, "xtc_threshold": 0.1, "temperature": 0},
    {"dynatemp_range": 0.5},
    {"dynatemp_range": 0.5, "temperature": 0.4, "dynatemp_exponent": 2.0},
    {"dynatemp_range": 1.5, "temperature": 1.0, "dynatemp_exponent": 0.5},
    {"dynatemp_range": 0.5, "top_k": 3},
    {"dynatemp_range": 0.5, "top_n_sigma": 1.0},
    {"dynatemp_range": 0.5, "logit_bias": [[5, False]]},
    {"dynatemp_range": 0.5, "temperature": 0},
    {"top_k": 5, "top_p": 0.9, "min_p": 0.1, "temperature": 0.8},
    {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8},
    {"top_k": 5, "typical_p": 0.7, "top_p": 0.9, "temperature": 1.3},
    {**PENALTIES, **DRY, "top_k": 6, "top_p": 0.9, "temperature": 0.7},
    {**PENALTIES, "xtc_probability": 1.0, "xtc_threshold": 0.15, "top_k": 5},
    {"top_k": 2, "min_p": 0.3, "typical_p": 0.95, "top_n_sigma": 1.5, "min_keep": 2},
    {"samplers": ["top_k"], "top_k": 3, "temperature": 0.3},
    {"samplers": ["top_k"], "top_k": 3, "temperature": 0},
    {"samplers": ["temperature", "top_p"], "temperature": 2.0, "top_p": 0.6},
    {"samplers": ["top_p", "temperature"], "temperature": 2.0, "top_p": 0.6},
    {"samplers": ["temperature", "min_p"], "temperature": 0.4, "min_p": 0.2},
    {"samplers": ["temperature", "top_k"], "temperature": 0, "top_k": 3},
    {"samplers": ["xtc", "top_k"], "xtc_probability": 1.0, "xtc_threshold": 0.1, "top_k": 2},
    {"samplers": ["top_k", "penalties"], "top_k": 4, **PENALTIES},
    {"samplers": ["top_k", "dry", "top_p"], "top_k": 5, "top_p": 0.7, **DRY},
    {"samplers": ["min_p", "top_k", "typ_p"], "min_p": 0.02, "top_k": 6, "typical_p": 0.6},
    {"samplers": []},
    {"mirostat": 1},
    {"mirostat": 1, "mirostat_tau": 1.0},
    {"mirostat": 1, "mirostat_tau": 0.5, "temperature": 1.5},
    {"mirostat": 2, "mirostat_tau": 1.5},
    {"mirostat": 2, "mirostat_tau": 0.8},
    {"mirostat": 2, "mirostat_tau": 0.1},
    {"mirostat": 2, "mirostat_tau": 1.0, "temperature": 0.6, "dynatemp_range": 0.3, "top_k": 2, **PENALTIES},
    {"mirostat": 2, "mirostat_tau": 1.0, "logit_bias": [[5, -2.0]], "xtc_probability": 1.0},
    {"mirostat": 1, "mirostat_tau": 1.0, "temperature": 0},
]
CHAINS: list[dict[str, Any]] = [
    {"mirostat": 1, "mirostat_tau": 1.0, "mirostat_eta": 0.5},
    {"mirostat": 2, "mirostat_tau": 1.2, "mirostat_eta": 0.4},
    {"mirostat": 2, "mirostat_tau": 0.7, "mirostat_eta": 0.9, "temperature": 1.4},
    {**PENALTIES, "temperature": 1.2},
    {**DRY, "dry_allowed_length": 1, "temperature": 1.2},
]
COINS: list[dict[str, Any]] = [
    {"xtc_probability": 0.5, "xtc_threshold": 0.1},
    {"xtc_probability": 0.2, "xtc_threshold": 0.15, "top_k": 5, "temperature": 1.4},
]
COIN_SEEDS = 200
DIFFERENCES: dict[str, dict[str, Any]] = {
    "an impossible token makes the entropy NaN": {"typical_p": 0.5, "logit_bias": [[5, False]]},
    "k overflows the integer it is cast to": {"mirostat": 1, "temperature": 20},
    "an impossible token makes the Zipf exponent infinite": {"mirostat": 1, "logit_bias": [[5, False]]},
}
"""Where llama.cpp's float32 arithmetic leaves the law that it describes, and ours does not follow."""


class Recorder:
    """Asks one server, keeps what matters of its answers."""

    def __init__(self, http: httpx2.Client) -> None:
        self.http = http

    def ask(self, prompt: list[int], body: dict[str, Any], n: int = 1, *, post: bool = True) -> list[dict[str, Any]]:
        """For each token: its id and the listed values by id."""
        request = {**OFF, **body, "prompt": prompt, "n_predict": n, "n_probs": 8, "post_sampling_probs": post}
        answer = self.http.post("/completion", json=request)
        if answer.status_code != 200:
            raise SystemExit(f"{body}: {answer.text}")
        name, value = ("top_probs", "prob") if post else ("top_logprobs", "logprob")
        return [
            {"id": t["id"], "listed": {str(a["id"]): a[value] for a in t[name]}}
            for t in answer.json()["completion_probabilities"]
        ]

    def logits(self, prompt: list[int]) -> list[float]:
        """The model's logits after a prompt, to about 1e-6."""
        listed = self.ask(prompt, {}, post=False)[0]["listed"]
        raw: list[float] = [listed[str(i)] for i in range(8)]
        penalised = self.ask(prompt, {"repeat_penalty": 2.0, "repeat_last_n": 64})[0]["listed"]
        outside = next(i for i in range(8) if i not in prompt)
        ratios = {i: math.log(penalised[str(i)] / penalised[str(outside)]) for i in set(prompt)}

        def misfit(shift: float) -> float:
            halved = {i: (raw[i] + shift) * (0.5 if raw[i] + shift > 0 else 2) - raw[outside] - shift for i in ratios}
            return max(abs(halved[i] - ratios[i]) for i in ratios)

        shifts = [raw[i] - 2 * raw[outside] - 2 * r for i, r in ratios.items()]
        shifts += [r - 2 * raw[i] + raw[outside] for i, r in ratios.items()]
        shift = min(shifts, key=misfit)
        return [x + shift for x in raw]


def record(url: str) -> dict[str, list[dict[str, Any]]]:
    """All that the tests compare, asked of one server of an 8-letter model."""
    with httpx2.Client(base_url=url, timeout=30) as http:
        return _record(Recorder(http))


def _record(recorder: Recorder) -> dict[str, list[dict[str, Any]]]:
    chains = []
    for body in CHAINS:
        tokens = recorder.ask(PROMPTS["story"], body, 12)
        ids = [t["id"] for t in tokens]
        rows = [recorder.logits([*PROMPTS["story"], *ids[:i]]) for i in range(len(ids))]
        chains.append({"body": body, "prompt": PROMPTS["story"], "tokens": tokens, "logits": rows})
    coins = []
    for body in COINS:
        laws = [recorder.ask(PROMPTS["story"], {**body, "seed": s})[0]["listed"] for s in range(COIN_SEEDS)]
        coins.append({"body": body, "prompt": PROMPTS["story"], "answers": laws})
    return {
        "prompts": [{"name": n, "tokens": p, "logits": recorder.logits(p)} for n, p in PROMPTS.items()],
        "cases": [{"body": b, "answers": {n: recorder.ask(p, b)[0] for n, p in PROMPTS.items()}} for b in CASES],
        "chains": chains,
        "coins": coins,
        "differences": [
            {"why": why, "body": body, "answer": recorder.ask(PROMPTS["flat"], body)[0]}
            for why, body in DIFFERENCES.items()
        ],
    }


def main() -> None:
    """Writes answers.json beside this file."""
    with LlamaWheel(Path(sys.argv[1]), options=EXACT_NUMBERS) as server:
        lines = record(server.url)
    text = ",\n".join(
        f'"{name}": [\n' + ",\n".join(json.dumps(x) for x in entries) + "\n]" for name, entries in lines.items()
    )
    Path(__file__).with_name("answers.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
