"""What the server says of itself has llama-server's form and is true."""

from __future__ import annotations

import re
import threading
import time

import pytest
from tests.server.loopback import DRAFT, NEUTRAL, NONE, PROMPT, Client, lacks, recorded, serving


@pytest.mark.parametrize("mode", ["plain", "draft-simple"])
@pytest.mark.parametrize("moment", ["fresh", "after"])
def test_keys_and_types_are_those_of_llama_server(mode: str, moment: str) -> None:
    theirs = recorded(f"meta/{mode}")[moment]
    with serving(NONE if mode == "plain" else DRAFT) as (client, _):
        if moment == "after":
            for slot in (0, 1):
                client.ask(prompt=PROMPT, n_predict=16, id_slot=slot)
        for path in ("/props", "/slots", "/v1/models", "/health", "/lora-adapters"):
            assert lacks(theirs[path]["body"], client.get(path).json(), path) == []
        names = set(re.findall(r"^(llamacpp:\w+) ", theirs["/metrics"]["body"], re.MULTILINE))
        assert names <= set(re.findall(r"^(llamacpp:\w+) ", client.get("/metrics").text, re.MULTILINE))


def test_every_place_says_whether_it_speculates(plain: Client, drafting: Client) -> None:
    for client, types, on in ((plain, "none", False), (drafting, "draft-simple", True)):
        props = client.get("/props").json()
        assert props["default_generation_settings"]["params"]["speculative.types"] == types
        assert props["speculation"] == types
        assert [slot["speculative"] for slot in client.get("/slots").json()] == [on, on]


def metric(client: Client, name: str) -> float:
    found = re.search(rf"^llamacpp:{name} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found
    return float(found[1])


def test_totals_are_the_sums_of_what_answers_say() -> None:
    with serving(DRAFT) as (client, _):
        answers = [client.ask(prompt=PROMPT, n_predict=20, seed=i, **NEUTRAL) for i in range(4)]
        assert metric(client, "tokens_predicted_total") == 80
        assert metric(client, "prompt_tokens_total") == sum(a["timings"]["prompt_n"] for a in answers)
        assert metric(client, "prompt_tokens_cached_total") == sum(a["timings"]["cache_n"] for a in answers)
        assert metric(client, "spec_decode_num_draft_tokens_total") == sum(a["timings"]["draft_n"] for a in answers)
        accepted = sum(a["timings"]["draft_n_accepted"] for a in answers)
        assert metric(client, "spec_decode_num_accepted_tokens_total") == accepted
        assert metric(client, "spec_decode_num_drafts_total") == sum(a["speculation"]["drafts"] for a in answers)
        assert metric(client, "requests_processing") == metric(client, "requests_deferred") == 0


def test_a_running_slot_shows_what_runs_in_it() -> None:
    with serving(DRAFT, slots=1, context=4096) as (client, _):
        asking = threading.Thread(
            target=client.ask, kwargs={"prompt": PROMPT, "n_predict": 2000, "speculative": False, "seed": 9}
        )
        asking.start()
        deadline = time.monotonic() + 10
        while not (slot := client.get("/slots").json()[0])["is_processing"] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert slot["is_processing"]
        assert slot["speculative"] is False
        assert slot["params"]["seed"] == 9
        assert slot["next_token"][0]["has_next_token"]
        full = client.get("/slots", params={"fail_on_no_slot": "1"})
        asking.join()
        assert full.status_code == 503
        assert client.get("/slots", params={"fail_on_no_slot": "1"}).status_code == 200


def test_the_description_of_the_api_has_every_body(plain: Client) -> None:
    document = plain.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    assert {"NativeCompletion", "OpenAICompletion", "ChatCompletion"} <= set(schemas)
    assert "speculative.n_max" in schemas["NativeCompletion"]["properties"]
    assert "/v1/chat/completions" in document["paths"]


def test_text_and_token_ids(plain: Client) -> None:
    assert plain.ask("/tokenize", content="bcd") == {"tokens": [1, 2, 3], "ignored": []}
    assert plain.ask("/tokenize", content=["b", 2]) == {"tokens": [1, 2], "ignored": []}
    assert plain.ask("/tokenize") == {"tokens": [], "ignored": []}
    assert plain.ask("/tokenize", content="b", with_pieces=True) == {"tokens": [{"id": 1, "piece": "b"}], "ignored": []}
    assert plain.ask("/detokenize", tokens=[1, 2]) == {"content": "bc", "prompt": "bc", "ignored": []}
    assert plain.ask("/detokenize") == {"content": "", "prompt": "", "ignored": []}
    assert "99" in plain.refused("/detokenize", tokens=[99])


def test_clients_of_vllm_tokenize_through_the_server(plain: Client) -> None:
    assert plain.ask("/tokenize", prompt="bcd", add_special_tokens=False) == {
        "tokens": [1, 2, 3],
        "count": 3,
        "max_model_len": 512,
        "ignored": [],
    }
    info = plain.get("/tokenizer_info").json()
    assert (info["bos_token"], info["eos_token"]) == (None, None)
    assert "messages" in info["chat_template"]
