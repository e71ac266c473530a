"""/v1/completions and /v1/chat/completions: both forms of logprobs, prompts scored, usage that adds up, OpenAI's own client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.loopback import NEUTRAL, PROMPT, Client
from tests.server.test_native import alike

from draftproof.countable.catalogue import named
from draftproof.countable.story import ids

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
USER = [{"role": "user", "content": PROMPT}]


@pytest.mark.parametrize("mode", ["plain", "draft-simple"])
@pytest.mark.parametrize("route", ["chat", "v1completions"])
@pytest.mark.parametrize("stream", ["stream0", "stream1"])
def test_keys_and_types_are_those_of_llama_server(
    plain: Client, drafting: Client, mode: str, route: str, stream: str
) -> None:
    alike(plain if mode == "plain" else drafting, f"{mode}/{route}_t1_{stream}")


def joined(events: list[Any]) -> str:
    choices = [c for e in events if e != "[DONE]" for c in e["choices"]]
    return "".join(c["text"] if "text" in c else c["delta"].get("content") or "" for c in choices)


@pytest.mark.parametrize("extra", [{}, {"stop": "gf"}, {"n": 2}])
def test_streams_tell_the_same_as_whole_answers(drafting: Client, extra: dict[str, Any]) -> None:
    for route, prompt in ((TEXT, {"prompt": PROMPT}), (CHAT, {"messages": USER})):
        request = {**prompt, "max_tokens": 40, "seed": 11, **NEUTRAL, **extra}
        whole = drafting.ask(route, **request)
        events = drafting.events(route, stream_options={"include_usage": True}, **request)
        assert events[-1] == "[DONE]"
        assert events[-2]["choices"] == []
        assert events[-2]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
        for choice in whole["choices"]:
            mine = [
                {**e, "choices": [c for c in e["choices"] if c["index"] == choice["index"]]}
                for e in events
                if e != "[DONE]"
            ]
            assert joined(mine) == (choice["text"] if route == TEXT else choice["message"]["content"])
            finished = [c["finish_reason"] for e in mine for c in e["choices"] if c["finish_reason"]]
            assert finished == [choice["finish_reason"]]


def test_native_and_openai_routes_make_the_same_tokens(drafting: Client) -> None:
    request = {"seed": 4, **NEUTRAL}
    native = drafting.ask(prompt=PROMPT, n_predict=30, **request)
    assert drafting.ask(TEXT, prompt=PROMPT, max_tokens=30, **request)["choices"][0]["text"] == native["content"]
    chat = drafting.ask(CHAT, messages=USER, max_completion_tokens=30, **request)
    assert chat["choices"][0]["message"]["content"] == native["content"]


def test_both_forms_of_logprobs_say_the_same(drafting: Client) -> None:
    answer = drafting.ask(TEXT, prompt=PROMPT, max_tokens=20, seed=3, logprobs=3, **NEUTRAL)
    choice = answer["choices"][0]
    content, legacy = choice["logprobs"]["content"], choice["logprobs"]
    assert legacy["tokens"] == [e["token"] for e in content] == list(choice["text"])
    assert legacy["token_logprobs"] == [e["logprob"] for e in content]
    assert legacy["top_logprobs"] == [{a["token"]: a["logprob"] for a in e["top_logprobs"]} for e in content]
    assert legacy["text_offset"] == list(range(20))


def test_a_prompt_is_scored_by_the_targets_law(drafting: Client) -> None:
    text = "bcdbcfgfe"
    answer = drafting.ask(TEXT, prompt=text, max_tokens=0, echo=True, logprobs=8)
    choice, pair = answer["choices"][0], named("story")
    assert (choice["text"], choice["finish_reason"]) == (text, "length")
    assert answer["usage"] == {
        "completion_tokens": 0,
        "prompt_tokens": 9,
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    scores = choice["logprobs"]
    assert scores["tokens"] == list(text)
    assert scores["token_logprobs"][0] is None
    assert scores["top_logprobs"][0] is None
    for i in range(1, len(text)):
        law = pair.target(ids(text[:i]))
        assert scores["token_logprobs"][i] == pytest.approx(law[ids(text[i])[0]], abs=1e-6)
        assert max(scores["top_logprobs"][i].values()) == pytest.approx(law.max(), abs=1e-6)


def test_a_prompt_and_its_answer_are_scored_together(drafting: Client) -> None:
    """The form that lm-evaluation-harness asks in: token ids, one token more, echo."""
    request = {"prompt": [list(ids("bcdbcfg")), list(ids("abc"))], "logprobs": 1, "echo": True, "temperature": 0}
    answer = drafting.ask(TEXT, max_tokens=1, seed=1234, **request)
    for choice, prompt in zip(answer["choices"], ["bcdbcfg", "abc"], strict=True):
        scores = choice["logprobs"]
        assert choice["text"][:-1] == prompt
        n = len(prompt) + 1
        assert [len(scores[k]) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")] == [n] * 4
        assert scores["text_offset"] == list(range(n))
    assert answer["usage"]["prompt_tokens"] == 10


def test_an_echo_without_logprobs_is_text_only(plain: Client) -> None:
    answer = plain.ask(TEXT, prompt=PROMPT, max_tokens=3, echo=True)
    assert answer["choices"][0]["text"].startswith(PROMPT)
    assert answer["choices"][0]["logprobs"] is None
    assert joined(plain.events(TEXT, prompt=PROMPT, max_tokens=3, echo=True, seed=1)).startswith(PROMPT)
    assert joined(plain.events(TEXT, prompt=PROMPT, max_tokens=0, echo=True, logprobs=1)) == PROMPT


@pytest.mark.parametrize(("logprobs", "alternatives"), [(0, 0), (True, 1), (5, 5), (99, 8)])
def test_as_many_alternatives_as_asked_for(plain: Client, logprobs: Any, alternatives: int) -> None:
    choice = plain.ask(TEXT, prompt=PROMPT, max_tokens=2, logprobs=logprobs)["choices"][0]
    assert [len(e["top_logprobs"]) for e in choice["logprobs"]["content"]] == [alternatives] * 2


@pytest.mark.parametrize("logprobs", [None, False])
def test_no_logprobs_unless_asked_for(plain: Client, logprobs: Any) -> None:
    assert plain.ask(TEXT, prompt=PROMPT, max_tokens=2, logprobs=logprobs)["choices"][0]["logprobs"] is None


def test_each_choice_of_a_stream_counts_its_prompt(drafting: Client) -> None:
    request = {"prompt": PROMPT, "max_tokens": 7, "n": 2, "stream_options": {"include_usage": True}}
    events = drafting.events("/v1/completions", **request)
    told = [e["usage"] for e in events[:-1] if "usage" in e]
    assert [(u["prompt_tokens"], u["completion_tokens"], u["total_tokens"]) for u in told] == [
        (5, 7, 12),
        (5, 7, 12),
        (5, 14, 19),
    ]


@pytest.mark.parametrize(
    ("route", "prompt"), [("/v1/completions", {"prompt": PROMPT}), ("/v1/chat/completions", {"messages": USER})]
)
def test_progress_of_the_prompt_is_told(plain: Client, route: str, prompt: dict[str, Any]) -> None:
    events = plain.events(route, max_tokens=2, return_progress=True, cache_prompt=False, **prompt)
    progress = [e["prompt_progress"]["processed"] for e in events[:-1] if "prompt_progress" in e]
    assert (progress[0], progress[-1]) == (0, 5)
    assert events[-2]["ignored"] == []


def test_usage_of_several_choices_adds_up(drafting: Client) -> None:
    answer = drafting.ask(CHAT, messages=USER, n=3, max_tokens=7, seed=1)
    assert answer["usage"]["completion_tokens"] == 21
    assert answer["usage"]["prompt_tokens"] == 5
    assert all("speculation" in c for c in answer["choices"])
    assert answer["timings"]["predicted_n"] == 21


def test_openais_own_client_reads_every_form(drafting: Client) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=drafting.base_url.join("/v1"), api_key="none", max_retries=0)
    assert client.models.list().data[0].id == "story"
    text = client.completions.create(model="story", prompt=PROMPT, max_tokens=6, logprobs=2, seed=1, echo=True)
    assert len(text.choices[0].logprobs.token_logprobs) == 11
    chat = client.chat.completions.create(
        model="story", messages=USER, max_tokens=6, logprobs=True, top_logprobs=2, seed=1
    )
    assert len(chat.choices[0].logprobs.content) == 6
    assert len(chat.choices[0].logprobs.content[3].top_logprobs) == 2
    stream = client.chat.completions.create(
        model="story", messages=USER, max_tokens=6, seed=1, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert said == chat.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == 6
    with pytest.raises(openai.BadRequestError, match="has no calls of tools"):
        client.chat.completions.create(
            model="story", messages=USER, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]
        )
    client.close()


def test_every_event_of_a_stream_is_strict_json(drafting: Client) -> None:
    for event in drafting.events(CHAT, messages=USER, max_tokens=10, logprobs=True, seed=2):
        assert event == "[DONE]" or json.dumps(event, allow_nan=False)
