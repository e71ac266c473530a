"""POST /completion: llama-server's keys and types, the same answer streamed or not, and every number true."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.server.loopback import DRAFT, NEUTRAL, PROMPT, Client, lacks, parsed, recorded, serving

from draftproof.countable.catalogue import named
from draftproof.countable.story import ids

MODES = ("plain", "draft-simple")


def alike(client: Client, name: str) -> None:
    """Every object of the recorded answer finds its keys and types in ours."""
    theirs = recorded(f"logprobs/{name}")
    request = {**theirs["request"], "cache_prompt": False}
    stream = request.pop("stream")
    ours = client.events(theirs["path"], **request) if stream else [client.ask(theirs["path"], **request)]
    ours = [o for o in ours if o != "[DONE]"]
    for theirs_one, ours_one in ((parsed(theirs["body"])[i], ours[i]) for i in (0, -1)):
        # where llama-server gives no alternatives, ours has them
        assert [m for m in lacks(theirs_one, ours_one) if "prob" not in m] == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", ["stream0_post0", "stream0_post1", "stream1_post0", "stream1_post1"])
def test_keys_and_types_are_those_of_llama_server(plain: Client, drafting: Client, mode: str, form: str) -> None:
    alike(plain if mode == "plain" else drafting, f"{mode}/completion_t1_{form}")


def test_every_token_has_the_targets_own_logprobs_while_speculating(drafting: Client) -> None:
    pair = named("story")
    answer = drafting.ask(prompt=PROMPT, n_predict=64, seed=3, n_probs=8, return_tokens=True, **NEUTRAL)
    assert answer["timings"]["draft_n_accepted"] > 5
    context = ids(PROMPT)
    assert len(answer["completion_probabilities"]) == 64
    for entry in answer["completion_probabilities"]:
        law = pair.target(context)
        assert entry["logprob"] == pytest.approx(law[entry["id"]], abs=1e-6)
        assert {a["id"]: a["logprob"] for a in entry["top_logprobs"]} == pytest.approx(dict(enumerate(law)), abs=1e-6)
        context = (*context, entry["id"])
    assert list(context[len(PROMPT) :]) == answer["tokens"]


def test_post_sampling_probabilities_are_what_was_drawn_from(drafting: Client) -> None:
    answer = drafting.ask(
        prompt=PROMPT, n_predict=24, seed=3, n_probs=8, post_sampling_probs=True, **{**NEUTRAL, "top_k": 3}
    )
    for entry in answer["completion_probabilities"]:
        assert len(entry["top_probs"]) == 3
        assert sum(a["prob"] for a in entry["top_probs"]) == pytest.approx(1)
        assert entry["prob"] in [a["prob"] for a in entry["top_probs"]]


@pytest.mark.parametrize("extra", [{}, {"stop": ["gf"]}, {"n_probs": 2, "return_origins": True}])
def test_a_stream_tells_the_same_as_a_whole_answer(drafting: Client, extra: dict[str, Any]) -> None:
    request = {"prompt": PROMPT, "n_predict": 40, "seed": 11, **NEUTRAL, **extra}
    whole = drafting.ask(return_tokens=True, **request)
    *parts, last = drafting.events(**request)
    assert "".join(p["content"] for p in parts) == whole["content"]
    assert [t for p in parts for t in p["tokens"]] == whole["tokens"]
    assert [p["tokens_predicted"] for p in parts] == list(range(1, len(parts) + 1))
    for name in ("stop_type", "stopping_word", "tokens_predicted", "tokens_evaluated", "speculation", "truncated"):
        assert last[name] == whole[name]
    if "n_probs" in extra:
        assert [e for p in parts for e in p["completion_probabilities"]] == whole["completion_probabilities"]
        assert [o for p in parts for o in p["origins"]] == whole["origins"]


def test_text_tokens_logprobs_and_counts_agree_at_a_stop_string(drafting: Client) -> None:
    request = {"prompt": PROMPT, "n_predict": 60, "seed": 5, "n_probs": 1, "return_tokens": True, **NEUTRAL}
    free = drafting.ask(**request)
    stop = free["content"][7:9]
    answer = drafting.ask(stop=[stop], **request)
    cut = free["content"].index(stop)
    assert answer["content"] == free["content"][:cut]
    assert (answer["stop_type"], answer["stopping_word"]) == ("word", stop)
    made = cut + len(stop)
    assert answer["tokens"] == free["tokens"][:made]
    assert answer["tokens_predicted"] == len(answer["completion_probabilities"]) == made
    assert answer["timings"]["predicted_n"] == made
    assert answer["tokens_cached"] == len(PROMPT) + made - 1


def test_several_prompts_and_choices_are_numbered_and_seeded_one_by_one(drafting: Client) -> None:
    request = {"n_predict": 12, "seed": 40, **NEUTRAL}
    answers = drafting.ask(prompt=[PROMPT, [1, "cd"]], n_cmpl=3, **request)
    assert [a["index"] for a in answers] == list(range(6))
    for i, prompt in enumerate([PROMPT, "bcd"]):
        for j in range(3):
            alone = drafting.ask(prompt=prompt, **{**request, "seed": 40 + j})
            assert answers[3 * i + j]["content"] == alone["content"]
            assert answers[3 * i + j]["generation_settings"]["seed"] == 40 + j


def test_a_list_of_one_prompt_is_answered_as_that_prompt(plain: Client) -> None:
    alone = plain.ask(prompt=PROMPT, n_predict=4, temperature=0)
    for one in ([PROMPT], [[1, 2, 3, 1, 2]], [{"prompt_string": PROMPT}]):
        assert plain.ask(prompt=one, n_predict=4, temperature=0)["content"] == alone["content"]
    both = plain.ask(prompt=["abc", {"prompt_string": PROMPT}], n_predict=4, temperature=0)
    assert [a["prompt"] for a in both] == ["abc", PROMPT]
    assert both[1]["content"] == alone["content"]
    assert "lists or objects" in plain.refused(prompt=[1, {"prompt_string": PROMPT}])


def test_a_random_seed_is_told_and_repeats_the_answer(plain: Client) -> None:
    answer = plain.ask(prompt=PROMPT, n_predict=30, seed=-1, **NEUTRAL)
    seed = answer["generation_settings"]["seed"]
    assert seed >= 0
    assert plain.ask(prompt=PROMPT, n_predict=30, seed=seed, **NEUTRAL)["content"] == answer["content"]
    assert plain.ask(prompt=PROMPT, n_predict=30, seed=0xFFFFFFFF, **NEUTRAL)["content"] != answer["content"]


@pytest.mark.parametrize("seed", [5, -2, 2**32 - 2, 2**64 - 1, -(2**63)])
def test_the_seed_of_every_choice_repeats_it(drafting: Client, seed: int) -> None:
    answers = drafting.ask(prompt=PROMPT, n_predict=24, n=4, seed=seed, **NEUTRAL)
    told = [answer["generation_settings"]["seed"] for answer in answers]
    assert told[0] == seed
    assert len(set(told)) == 4
    for answer, own in zip(answers, told, strict=True):
        again = drafting.ask(prompt=PROMPT, n_predict=24, seed=own, **NEUTRAL)
        assert again["generation_settings"]["seed"] == own
        assert again["content"] == answer["content"]


def test_no_token_is_made_for_n_predict_0(plain: Client) -> None:
    answer = plain.ask(prompt=PROMPT, n_predict=0, n_probs=1)
    assert (answer["content"], answer["tokens_predicted"], answer["stop_type"]) == ("", 0, "limit")
    assert answer["completion_probabilities"] == []
    assert [e["stop"] for e in plain.events(prompt=PROMPT, n_predict=0)] == [True]


def test_without_a_token_to_make_the_prompt_is_read_for_the_next_request(plain: Client) -> None:
    """llama-server's way to warm its cache."""
    request: dict[str, Any] = {"prompt": "hgfedcbahgfedcba" * 2, "id_slot": 0, "temperature": 0, "n_probs": 1}

    def counted(n_predict: int) -> tuple[int, int]:
        counts = plain.ask(n_predict=n_predict, **request)["timings"]
        return counts["prompt_n"], counts["cache_n"]

    cold = plain.ask(n_predict=3, cache_prompt=False, **request)
    plain.ask(prompt="a", n_predict=1, id_slot=0)
    assert [counted(0), counted(0), counted(3)] == [(32, 0), (0, 32), (0, 32)]
    assert plain.ask(n_predict=3, **request)["completion_probabilities"] == cold["completion_probabilities"]
    metrics = dict(line.split() for line in plain.get("/metrics").text.splitlines() if not line.startswith("#"))
    before = float(metrics["llamacpp:prompt_tokens_cached_total"])
    counted(0)
    metrics = dict(line.split() for line in plain.get("/metrics").text.splitlines() if not line.startswith("#"))
    assert float(metrics["llamacpp:prompt_tokens_cached_total"]) == before + 32


def test_an_answer_without_a_limit_ends_with_the_context(plain: Client) -> None:
    answer = plain.ask(prompt=PROMPT, n_predict=-1, seed=1)
    assert (answer["stop_type"], answer["truncated"]) == ("limit", True)
    assert answer["tokens_predicted"] == 512 - len(PROMPT) + 1


def test_bias_bans_and_forces_by_id_and_by_text(plain: Client) -> None:
    request = {"prompt": PROMPT, "n_predict": 20, "seed": 2, **NEUTRAL}
    assert "f" not in plain.ask(logit_bias=[[5, False]], **request)["content"]
    assert "f" not in plain.ask(logit_bias={"f": False}, **request)["content"]
    assert plain.ask(logit_bias={"0": 100}, **request)["content"] == 20 * "a"
    assert set(plain.ask(logit_bias=[["ab", 100]], **request)["content"]) <= set("ab")


def test_samplers_by_letters_are_those_by_name(plain: Client) -> None:
    request = {"prompt": PROMPT, "n_predict": 40, "seed": 2, **NEUTRAL, "top_k": 2}
    named_ones = plain.ask(samplers=["top_k", "temperature"], **request)
    assert plain.ask(samplers="kt", **request)["content"] == named_ones["content"]
    assert named_ones["generation_settings"]["samplers"] == ["top_k", "temperature"]


def test_only_the_fields_that_were_asked_for(plain: Client) -> None:
    paths = ["content", "generation_settings/n_predict", "nothing/there"]
    answer = plain.ask(prompt=PROMPT, n_predict=4, response_fields=paths)
    assert set(answer) == {"content", "generation_settings/n_predict"}
    assert answer["generation_settings/n_predict"] == 4


def test_progress_and_timings_come_along_when_asked_for(plain: Client) -> None:
    events = plain.events(prompt=PROMPT, n_predict=3, return_progress=True, timings_per_token=True, cache_prompt=False)
    progress = [e["prompt_progress"] for e in events if "prompt_progress" in e]
    assert progress[0] == {"total": 5, "cache": 0, "processed": 0, "time_ms": progress[0]["time_ms"]}
    assert progress[-1] == {"total": 5, "cache": 0, "processed": 5, "time_ms": progress[-1]["time_ms"]}
    assert len(progress) == 2
    assert [e["timings"]["predicted_n"] for e in events if e.get("content")]


def test_settings_are_told_as_llama_server_takes_them(plain: Client) -> None:
    told = plain.ask(prompt=PROMPT, n_predict=1, n_probs=20, dry_base=0.5, logit_bias=[[1, 2], [2, False]])
    assert len(told["completion_probabilities"][0]["top_logprobs"]) == 8
    settings = told["generation_settings"]
    assert (settings["n_probs"], settings["dry_base"]) == (20, 1.75)
    assert str(settings["logit_bias"]) == "[{'token': 1, 'bias': 2.0}, {'token': 2, 'bias': None}]"


def test_an_empty_schema_is_not_swallowed(plain: Client) -> None:
    """The tables have no grammars, so whoever asks for any object must hear of it."""
    assert "Grammars are not supported" in plain.refused(prompt=PROMPT, json_schema={})
    assert plain.ask(prompt=PROMPT, n_predict=1, json_schema=False)["tokens_predicted"] == 1


def test_a_stream_has_the_content_type_that_llama_server_gives_it(plain: Client) -> None:
    answer = plain.post("/completion", json={"prompt": PROMPT, "n_predict": 1, "stream": True})
    assert answer.headers["content-type"] == "text/event-stream"


def test_what_is_held_of_a_prompt_is_not_read_again(plain: Client) -> None:
    prompt = "abcdefghabcdefgh"
    first = plain.ask(prompt=prompt, n_predict=4, id_slot=1, seed=1, **NEUTRAL)
    again = plain.ask(prompt=prompt, n_predict=4, id_slot=1, seed=1, **NEUTRAL)
    fresh = plain.ask(prompt=prompt, n_predict=4, id_slot=1, seed=1, cache_prompt=False, **NEUTRAL)
    assert first["content"] == again["content"] == fresh["content"]
    assert (again["timings"]["cache_n"], again["timings"]["prompt_n"]) == (16, 0)
    assert (fresh["timings"]["cache_n"], fresh["timings"]["prompt_n"]) == (0, 16)
    assert again["id_slot"] == 1


def test_json_has_no_infinity(plain: Client) -> None:
    answer = plain.ask("/v1/completions", prompt=PROMPT, max_tokens=2, logprobs=8, echo=True, logit_bias=[[5, -3e38]])
    assert all(x is None or math.isfinite(x) for x in answer["choices"][0]["logprobs"]["token_logprobs"])


def test_the_token_that_ends_an_answer_counts_in_every_form() -> None:
    with serving(DRAFT, eog=[6]) as (client, _):
        request = {"prompt": PROMPT, "n_predict": 60, "seed": 3, "n_probs": 2, **NEUTRAL}
        answer = client.ask(return_tokens=True, **request)
        assert answer["stop_type"] == "eos"
        assert answer["tokens"][-1] == 6
        assert 6 not in answer["tokens"][:-1]
        assert len(answer["completion_probabilities"]) == answer["tokens_predicted"] == len(answer["tokens"])
        *parts, last = client.events(**request)
        assert [t for p in parts for t in p["tokens"]] == answer["tokens"]
        assert "".join(p["content"] for p in parts) == answer["content"]
        assert last["stop_type"] == "eos"
        body = {"prompt": PROMPT, "max_tokens": 60, "seed": 3, "logprobs": 1, **NEUTRAL}
        choice = client.ask("/v1/completions", **body)["choices"][0]
        assert choice["finish_reason"] == "stop"
        assert len(choice["logprobs"]["text_offset"]) == len(choice["logprobs"]["tokens"]) == len(answer["tokens"])
        assert client.events("/v1/completions", **body)[-1] == "[DONE]"
        on = client.ask(ignore_eos=True, **request)
        assert (on["stop_type"], on["tokens_predicted"]) == ("limit", 60)
        assert "g" not in on["content"]


def test_a_long_prompt_is_read_once_for_all_choices() -> None:
    with serving(DRAFT, slots=4) as (client, _):
        request = {"prompt": PROMPT * 20, "n_predict": 8, "seed": 5, **NEUTRAL}
        answers = client.ask(n_cmpl=4, **request)
        assert [a["timings"]["cache_n"] for a in answers] == [0, 100, 100, 100]
        alone = [client.ask(**{**request, "seed": 5 + i})["content"] for i in range(4)]
        assert [a["content"] for a in answers] == alone
