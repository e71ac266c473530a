"""Our server in vLLM's words, beside bodies that vLLM gave, and as its own clients read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from draftproof.client.facts import connect
from draftproof.liars import liar
from draftproof.liars.hosting import hosted
from draftproof.liars.vllm_words import asked_of_us
from draftproof.server.errors import Refusal

GIVEN = json.loads((Path(__file__).parents[1] / "data/vllm-0.32.0/answers.json").read_text())
COMPLETIONS = "/v1/completions"
ASKED = {"prompt": "The cat", "max_tokens": 12, "logprobs": 3, "seed": 1, "return_token_ids": True}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with hosted(liar("honest-vllm")) as url:
        yield url


def sent(url: str, path: str, body: dict[str, Any] | None = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url + path, data, {"Content-Type": "application/json"}), timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def asked(url: str, **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(sent(url, COMPLETIONS, ASKED | fields))
    return body


def shape(value: Any) -> Any:
    """Keys and types; a list stands for its first member, null for anything."""
    if isinstance(value, dict):
        return {name: shape(v) for name, v in value.items() if v is not None}
    return [shape(value[0])] if isinstance(value, list) and value else type(value)


def test_an_answer_has_the_keys_that_vllm_gives(url: str) -> None:
    told, given = shape(asked(url)), shape(GIVEN["plain"])
    for body in (told, given):
        body["choices"][0]["logprobs"].pop("top_logprobs")  # its keys are tokens
    assert told == given


def test_the_audit_takes_it_for_vllm(url: str) -> None:
    with connect(url) as probe:
        facts = probe.facts
    assert (facts.dialect, facts.build, facts.max_alternatives, facts.seeds) == ("vllm", "0.32.0", 20, True)
    assert facts.batch_seeds > 1
    assert not facts.token_prompts


def test_the_chosen_token_comes_first_and_is_one_more_where_it_is_not_among_the_likeliest(url: str) -> None:
    logprobs = asked(url, max_tokens=40)["choices"][0]["logprobs"]
    lists = logprobs["top_logprobs"]
    assert [next(iter(top)) for top in lists] == logprobs["tokens"]
    assert {len(top) for top in lists} == {3, 4}
    assert [top[token] for token, top in zip(logprobs["tokens"], lists, strict=True)] == logprobs["token_logprobs"]


def test_tokens_can_be_told_by_their_ids(url: str) -> None:
    choice = asked(url, return_tokens_as_token_ids=True, logprobs=0)["choices"][0]
    assert choice["logprobs"]["tokens"] == [f"token_id:{i}" for i in choice["token_ids"]]
    assert [list(top) for top in choice["logprobs"]["top_logprobs"]] == [[t] for t in choice["logprobs"]["tokens"]]


def test_the_prompts_logprobs_stand_beside_the_answers(url: str) -> None:
    plain, choice = (asked(url, **more)["choices"][0] for more in ({}, {"prompt_logprobs": 2}))
    assert (choice["text"], choice["logprobs"]) == (plain["text"], plain["logprobs"])
    first, *scored = choice["prompt_logprobs"]
    assert first is None
    assert [next(iter(entry)) for entry in scored] == [str(i) for i in choice["prompt_token_ids"][1:]]
    assert "".join(next(iter(entry.values()))["decoded_token"] for entry in scored) == "he cat"
    (listed,) = (e["rank"] for e in scored[0].values() if e["rank"] == 1)
    assert listed == 1
    assert asked(url, prompt_logprobs=2, logprobs=None)["choices"][0]["logprobs"] is None


def test_every_prompt_and_choice_has_its_own_ids(url: str) -> None:
    choices = asked(url, prompt=["ab", [1, 2]], n=2, max_tokens=2)["choices"]
    own = [choice["prompt_token_ids"] for choice in choices]
    assert own[:2] == [own[0]] * 2
    assert own[2:] == [[1, 2]] * 2
    assert own[0] != [1, 2]


def test_a_stream_has_all_tokens_of_a_block_in_one_event_and_says_the_same(url: str) -> None:
    text = sent(url, COMPLETIONS, ASKED | {"stream": True, "stream_options": {"include_usage": True}})
    assert text.endswith("data: [DONE]\n\n")
    events = [json.loads(event) for event in re.findall(r"data: (\{.*\})", text)]
    *parts, last = events
    whole = asked(url)
    choices = [event["choices"][0] for event in parts]
    assert [i for c in choices for i in c["token_ids"]] == whole["choices"][0]["token_ids"]
    assert "".join(c["text"] for c in choices) == whole["choices"][0]["text"]
    told = [c["logprobs"]["top_logprobs"] for c in choices]
    assert [top for lists in told for top in lists] == whole["choices"][0]["logprobs"]["top_logprobs"]
    assert max(map(len, told)) > 1
    assert (last["choices"], last["usage"], last["metrics"]) == ([], whole["usage"], whole["metrics"])


def test_counts_of_drafts_are_those_of_the_totals(url: str) -> None:
    def totals() -> dict[str, float]:
        lines = [line for line in sent(url, "/metrics").splitlines() if line.startswith("vllm:")]
        return {line.partition("{")[0]: float(line.rsplit(" ", 1)[1]) for line in lines}

    before, body, after = totals(), asked(url, max_tokens=30), totals()
    counted = body["metrics"]["speculative_decoding"]
    histogram = counted["acceptance_histogram"]
    assert after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"] == 30
    for ours, theirs in (
        (counted["num_spec_steps"], "num_drafts"),
        (counted["num_draft_tokens"], "num_draft_tokens"),
        (counted["num_accepted_draft_tokens"], "num_accepted_tokens"),
    ):
        name = f"vllm:spec_decode_{theirs}_total"
        assert after[name] - before[name] == ours > 0
    assert sum(histogram) == counted["num_spec_steps"]
    assert sum(n * steps for n, steps in enumerate(histogram)) == counted["num_accepted_draft_tokens"]
    assert len(histogram) == counted["num_spec_tokens"] + 1


def test_a_chat_lists_as_many_as_it_was_asked_for(url: str) -> None:
    asked = {"messages": [{"role": "user", "content": "The cat"}], "max_tokens": 9, "logprobs": True, "top_logprobs": 2}
    choice = json.loads(sent(url, "/v1/chat/completions", asked))["choices"][0]
    content = choice["logprobs"]["content"]
    assert {len(entry["top_logprobs"]) for entry in content} == {2}
    assert all(entry["top_logprobs"][0]["token"] == entry["token"] for entry in content)
    assert "".join(entry["token"] for entry in content) == choice["message"]["content"]


def test_its_other_routes_are_there_and_ours_are_not(url: str) -> None:
    assert json.loads(sent(url, "/version")) == GIVEN["survey"]["/version"]
    assert sent(url, "/health") == ""
    told = json.loads(sent(url, "/tokenize", {"prompt": "The cat"}))
    assert told["count"] == len(told["tokens"]) == 7
    for path in ("/props", "/slots"):
        with pytest.raises(HTTPError, match="404"):
            sent(url, path)


def test_what_vllm_refuses_is_refused_and_what_it_does_not_know_is_left_out(url: str) -> None:
    with pytest.raises(HTTPError, match="400"):
        asked(url, logprobs=21)
    with pytest.raises(Refusal, match="stream"):
        asked_of_us(COMPLETIONS, ASKED | {"prompt_logprobs": 1, "stream": True})
    ours = partial(asked_of_us, COMPLETIONS)
    assert "speculative.n_max" not in ours(ASKED | {"speculative.n_max": 0})
    assert (
        ours(ASKED | {"top_k": -1, "repetition_penalty": 1.5}).items() >= {"top_k": -1, "repeat_penalty": 1.5}.items()
    )
    assert ours(ASKED)["temperature"] == 1.0
