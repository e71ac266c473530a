"""The oracle against a stock llama-server: the same numbers from two programs that share no code."""

from __future__ import annotations

import json
import math
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from draftproof.core.distribution import Law, shape
from draftproof.core.sampling import Sampling
from draftproof.countable import gguf
from draftproof.countable.files import open_pair, write_pair
from draftproof.countable.incremental import Context, LanguageModel
from draftproof.countable.oracle import CountablePair
from draftproof.countable.transformer import Transformer
from draftproof.countable.weights import Architecture, random_weights
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.real

NEUTRAL = {
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repeat_penalty": 1.0,
    "repeat_last_n": 64,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("pair"))[0].parent


@pytest.fixture(scope="module")
def pair(directory: Path) -> CountablePair:
    return open_pair(directory)


@pytest.fixture(scope="module")
def exact_server(directory: Path) -> Iterator[str]:
    with LlamaWheel(directory / "target.gguf", options=EXACT_NUMBERS) as server:
        yield server.url


def complete(url: str, context: Context, **fields: Any) -> Any:
    body = {"prompt": list(context), "n_probs": 8, "return_tokens": True, **NEUTRAL, **fields}
    request = urllib.request.Request(
        f"{url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def contexts(n: int, longest: int, seed: int, vocabulary: int = 8) -> list[Context]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest, size=n)
    return [tuple(rng.integers(0, vocabulary, size=length).tolist()) for length in lengths]


def reported(url: str, context: Context, vocabulary: int = 8) -> Law:
    """float64[vocabulary]: the log-probabilities that the server gives for the first token.

    It keeps an entry to itself while the token is a piece of a character that is not whole yet: then the next seed is asked.
    No prompt is taken from its cache: memories that cannot be rolled back come out of it wrong (docs/findings).
    """
    for seed in range(100):
        answer = complete(url, context, n_predict=1, n_probs=vocabulary, cache_prompt=False, seed=seed)
        if answer.get("completion_probabilities"):
            break
    entry = answer["completion_probabilities"][0]
    row = np.full(vocabulary, np.nan)
    for alternative in entry["top_logprobs"]:
        row[alternative["id"]] = alternative["logprob"]
    return row


def deviation(url: str, model: LanguageModel, asked: list[Context]) -> Law:
    rows = np.stack([reported(url, context, model.vocabulary) for context in asked])
    difference: Law = np.abs(rows - model.logprobs(asked))
    return difference


def test_probabilities_agree_with_exact_settings(exact_server: str, pair: CountablePair) -> None:
    asked = contexts(200, 60, seed=1)
    rows = np.stack([reported(exact_server, context) for context in asked])
    assert np.abs(np.exp(rows) - np.exp(pair.target_many(asked))).max() < 1e-5
    assert np.abs(rows - pair.target_many(asked)).max() < 5e-5


def test_the_draft_agrees_too(directory: Path, pair: CountablePair) -> None:
    with LlamaWheel(directory / "draft.gguf", options=EXACT_NUMBERS) as server:
        assert deviation(server.url, pair.draft_model, contexts(100, 40, seed=2)).max() < 5e-5


def test_default_settings_deviate_by_the_rounding_of_the_cache(directory: Path, pair: CountablePair) -> None:
    with LlamaWheel(directory / "target.gguf") as server:
        difference = deviation(server.url, pair.target_model, contexts(200, 60, seed=3))
    assert 1e-4 < difference.max() < 0.05
    assert np.sqrt((difference**2).mean()) < 0.005


def test_grouped_queries_and_other_sizes_agree(tmp_path: Path) -> None:
    architecture = Architecture(
        vocabulary=6, width=24, blocks=3, heads=4, kv_heads=2, hidden=40, context=512, rope_base=500.0
    )
    gguf.write(tmp_path / "m.gguf", "odd", "uvwxyz", architecture, random_weights(architecture, 5))
    opened = gguf.read(tmp_path / "m.gguf")
    with LlamaWheel(tmp_path / "m.gguf", options=EXACT_NUMBERS) as server:
        asked = contexts(60, 100, seed=4, vocabulary=6)
        assert deviation(server.url, opened.model, asked).max() < 5e-5


def test_one_letter_is_one_token(exact_server: str, pair: CountablePair) -> None:
    answer = complete(exact_server, (1, 2, 3, 1, 2), n_predict=8)
    as_text = complete(exact_server, (), prompt="bcdbc", n_predict=1)
    assert answer["content"] == "".join(pair.alphabet[token] for token in answer["tokens"])
    assert answer["tokens_evaluated"] == as_text["tokens_evaluated"] == 5
    assert len(answer["tokens"]) == 8


SAMPLINGS = {
    "temperature .7": Sampling(temperature=0.7),
    "temperature 1.7": Sampling(temperature=1.7),
    "temperature 0": Sampling(temperature=0.0),
    "top-k": Sampling(top_k=3),
    "top-p": Sampling(top_p=0.8),
    "top-p 0 keeps one": Sampling(top_p=0.0),
    "min-p": Sampling(min_p=0.1),
    "repeat penalty": Sampling(repeat_penalty=1.5),
    "repeat reward": Sampling(repeat_penalty=0.7),
    "repeat penalty, last 2": Sampling(repeat_penalty=1.5, repeat_last_n=2),
    "penalties off": Sampling(repeat_penalty=1.5, presence_penalty=1.0, repeat_last_n=0),
    "frequency penalty": Sampling(frequency_penalty=0.4),
    "frequency reward": Sampling(frequency_penalty=-0.4),
    "presence penalty": Sampling(presence_penalty=0.6),
    "bias": Sampling(logit_bias=((0, -1.0), (3, 2.0))),
    "ban": Sampling(logit_bias=((5, -math.inf),)),
    "usual": Sampling(temperature=0.8, top_k=5, top_p=0.9, min_p=0.05),
    "usual, hot": Sampling(temperature=2.0, top_p=0.7, min_p=0.2),
    "usual and penalty": Sampling(temperature=0.8, top_k=5, top_p=0.9, min_p=0.05, repeat_penalty=1.1),
    "greedy with penalties": Sampling(temperature=0.0, repeat_penalty=2.0, frequency_penalty=1.0),
    "all": Sampling(1.3, 6, 0.95, 0.02, 1.2, 64, 0.3, 0.2, ((1, 1.5),)),
}


def as_fields(sampling: Sampling) -> dict[str, Any]:
    fields = {name: getattr(sampling, name) for name in NEUTRAL}
    bias = [[token, False if added == -math.inf else added] for token, added in sampling.logit_bias]
    return {**fields, "logit_bias": bias} if bias else fields


@pytest.mark.parametrize("name", SAMPLINGS)
def test_sampler_laws_are_those_of_the_server(exact_server: str, pair: CountablePair, name: str) -> None:
    """Each generated token's post-sampling law, so that penalties see prompt and generated tokens."""
    sampling = SAMPLINGS[name]
    for seed, prompt in enumerate(contexts(12, 90, seed=5)):
        answer = complete(exact_server, prompt, n_predict=4, post_sampling_probs=True, seed=seed, **as_fields(sampling))
        context = prompt
        for entry in answer["completion_probabilities"]:
            row = np.zeros(8)
            for alternative in entry["top_probs"]:
                row[alternative["id"]] = alternative["prob"]
            expected = shape(pair.target_logits([context])[0], context, sampling)
            assert row == pytest.approx(expected, abs=1e-5)
            context = (*context, entry["id"])


def test_ties_at_a_truncation_edge_keep_either_token(tmp_path: Path) -> None:
    """llama.cpp sorts partially: which of two equal tokens stays is not specified. Away from the edge nothing differs."""
    architecture = Architecture()
    tensors = dict(random_weights(architecture, 3))
    head = tensors["output.weight"].copy()
    head[1::2] = head[::2]
    tensors["output.weight"] = head
    gguf.write(tmp_path / "ties.gguf", "ties", "abcdefgh", architecture, tensors)
    model = Transformer(architecture, tensors)
    with LlamaWheel(tmp_path / "ties.gguf", options=EXACT_NUMBERS) as server:
        for context in contexts(20, 12, seed=6):
            for sampling in (Sampling(top_k=3), Sampling(top_k=4), Sampling(top_p=0.3)):
                fields = as_fields(sampling)
                entry = complete(server.url, context, n_predict=1, post_sampling_probs=True, **fields)
                found = sorted(a["prob"] for a in entry["completion_probabilities"][0]["top_probs"] if a["prob"] > 0)
                law = shape(model.logits([context])[0], context, sampling)
                assert found == pytest.approx(sorted(law[law > 0]), abs=1e-5)


def test_the_pair_speculates(directory: Path) -> None:
    with LlamaWheel(directory / "target.gguf", draft=directory / "draft.gguf", types=["draft-simple"]) as server:
        timings = [complete(server.url, (1, 2, 3, 1, 2), n_predict=16, seed=seed)["timings"] for seed in range(10)]
    drafted, accepted = (sum(t[name] for t in timings) for name in ("draft_n", "draft_n_accepted"))
    assert 0 < accepted < drafted
