from __future__ import annotations

import json
import math
from typing import Any

import pytest
from tests.client.recorded import exchange

from draftproof.client.dialect import Survey
from draftproof.client.dialects import DIALECTS, llama_server, openai
from draftproof.client.dialects.openai import DIALECT
from draftproof.client.openai_wire import CHAT, COMPLETIONS
from draftproof.core.ask import Ask
from draftproof.core.errors import InstrumentError, TargetError
from draftproof.core.sampling import Sampling
from draftproof.core.tokens import Alternative

VLLM = Survey(
    {
        "/v1/models": exchange(
            {"data": [{"id": "org/model", "owned_by": "vllm", "max_model_len": 4096}]}, "/v1/models"
        ),
        "/version": exchange({"version": "0.11.0"}, "/version"),
        "/metrics": exchange('# HELP x\nvllm:spec_decode_num_drafts_total{engine="0"} 12.0\nother 1\n', "/metrics"),
    }
)
LEGACY: dict[str, Any] = {
    "tokens": ["he", "llo"],
    "token_logprobs": [-0.5, -1.25],
    "top_logprobs": [{"he": -0.5, "she": -1.0}, {"llo": -1.25}],
    "text_offset": [0, 2],
}


def answer(choice: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": "stop", **choice}], "model": "org/model", **more}


def body(ask: Ask, route: str = CHAT, *, plain: bool = False) -> dict[str, Any]:
    dialect = DIALECT.adapted(VLLM)
    if plain:
        plainer = dialect.plainer()
        assert plainer is not None
        dialect = plainer
    parsed: dict[str, Any] = json.loads(dialect.call(ask, route).body)
    return parsed


def test_llama_server_is_asked_for_before_all_and_the_general_dialect_after_all() -> None:
    assert (DIALECTS[0], DIALECTS[-1]) == (llama_server.DIALECT, openai.DIALECT)
    assert len({d.name for d in DIALECTS}) == len(DIALECTS)


def test_a_server_is_recognised_by_its_list_of_models() -> None:
    assert DIALECT.recognise(VLLM) == "/v1/models lists models"
    assert llama_server.DIALECT.recognise(VLLM) == ""
    assert DIALECT.recognise(Survey({"/v1/models": exchange("<html>", "/v1/models")})) == ""


def test_it_is_described_by_what_it_says() -> None:
    said = DIALECT.describe(VLLM)
    assert (said.build, said.model, said.context) == ("0.11.0", "org/model", 4096)
    assert said.self_reports == (('/metrics vllm:spec_decode_num_drafts_total{engine="0"}', 12.0),)


def test_completions_in_the_old_form() -> None:
    (c,) = DIALECT.parse(
        Ask("x", 2, alternatives=2), exchange(answer({"text": "hello", "logprobs": LEGACY}), COMPLETIONS)
    )
    assert [(t.text, t.logprob, t.id) for t in c.tokens] == [("he", -0.5, None), ("llo", -1.25, None)]
    assert c.tokens[0].alternatives == (Alternative(None, "he", -0.5), Alternative(None, "she", -1.0))
    assert (c.text, c.finish, c.token_ids) == ("hello", "stop", None)
    assert dict(c.claims) == {"model": "org/model"}


def test_old_lists_of_different_lengths_are_refused() -> None:
    changes: list[dict[str, Any]] = [
        {"token_logprobs": [-0.5]},
        {"top_logprobs": [{}]},
        {"token_logprobs": 3},
        {"tokens": None},
    ]
    for broken in changes:
        with pytest.raises(TargetError):
            DIALECT.parse(Ask("x", 2, alternatives=2), exchange(answer({"text": "hello", "logprobs": LEGACY | broken})))


def test_missing_columns_of_the_old_form_are_absence() -> None:
    old = {"tokens": ["a", "b"], "token_logprobs": [None, -1.0], "top_logprobs": None}
    (c,) = DIALECT.parse(Ask("x", 2, alternatives=2), exchange(answer({"text": "ab", "logprobs": old})))
    assert [(t.logprob, t.alternatives) for t in c.tokens] == [(None, None), (-1.0, None)]


def test_chats_in_the_content_form() -> None:
    content = [
        {"token": "hi", "logprob": -0.1, "bytes": [104, 105], "top_logprobs": [{"token": "hi", "logprob": -0.1}]}
    ]
    choice = {"message": {"role": "assistant", "content": "hi"}, "logprobs": {"content": content}}
    usage = {"usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    (c,) = DIALECT.parse(Ask("x", 1, alternatives=1), exchange(answer(choice, **usage), CHAT))
    assert c.tokens[0].bytes == (104, 105)
    assert c.tokens[0].alternatives == (Alternative(None, "hi", -0.1),)
    assert (c.prompt_tokens, c.completion_tokens, c.drafted) == (3, 1, None)


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}])
def test_no_logprobs_are_no_tokens(logprobs: object) -> None:
    choice = {"message": {"content": "hi"}, "logprobs": logprobs}
    (c,) = DIALECT.parse(Ask("x", 1, alternatives=1), exchange(answer(choice), CHAT))
    assert c.tokens == ()


def test_a_message_without_content_is_empty_text() -> None:
    (c,) = DIALECT.parse(Ask("x", 1), exchange(answer({"message": {"content": None}}), CHAT))
    assert c.text == ""


def chunk(text: str | None, logprobs: object = None, finish: str | None = None, form: str = "chat") -> str:
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": logprobs}
    choice |= {"delta": {"content": text}} if form == "chat" else {"text": text}
    return "data: " + json.dumps({"choices": [choice]}) + "\n\n"


def test_streams_of_both_forms() -> None:
    content = {"content": [{"token": "a", "logprob": -1.0, "top_logprobs": []}]}
    old = {"tokens": ["a"], "token_logprobs": [-1.0], "top_logprobs": [{}]}
    usage = 'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}\n\n'
    for form, logprobs in (("chat", content), ("text", old)):
        stream = (
            chunk("a", logprobs, form=form)
            + chunk("b", form=form)
            + chunk("", finish="length", form=form)
            + usage
            + "data: [DONE]\n\n"
        )
        (c,) = DIALECT.parse(Ask("x", 2, alternatives=1, stream=True), exchange(stream, CHAT))
        assert (c.text, c.finish, c.completion_tokens) == ("ab", "length", 2)
        assert [(t.text, t.logprob, t.alternatives) for t in c.tokens] == [("a", -1.0, ()), ("b", None, None)]
        assert c.event_tokens == (1, 0)


def test_a_stream_that_asked_for_no_logprobs_misses_none() -> None:
    stream = chunk("a") + chunk("", finish="stop") + "data: [DONE]\n\n"
    (c,) = DIALECT.parse(Ask("x", 2, stream=True), exchange(stream, CHAT))
    assert c.tokens == ()


def test_a_finish_reason_ends_a_stream_without_done_and_done_one_without_a_reason() -> None:
    assert DIALECT.parse(Ask("x", 1, stream=True), exchange(chunk("a", finish="stop"), CHAT))[0].text == "a"
    assert DIALECT.parse(Ask("x", 1, stream=True), exchange(chunk("a") + "data: [DONE]\n\n", CHAT))[0].finish is None
    with pytest.raises(TargetError, match=r"neither a finish reason nor \[DONE\]"):
        DIALECT.parse(Ask("x", 1, stream=True), exchange(chunk("a"), CHAT))


def test_an_error_with_status_200_is_an_error() -> None:
    (c,) = DIALECT.parse(Ask("x", 1), exchange({"error": {"message": "busy"}}, CHAT))
    assert c.error == "HTTP 200: busy"


@pytest.mark.parametrize(
    "broken", [{}, {"choices": None}, {"choices": []}, {"choices": [3]}, {"choices": [{"index": 4, "text": ""}]}, []]
)
def test_answers_without_their_choices_are_refused(broken: object) -> None:
    with pytest.raises(TargetError):
        DIALECT.parse(Ask("x", 1), exchange(json.dumps(broken), CHAT))


def test_neutral_values_are_sent_in_full_or_where_refused_only_by_openais_names() -> None:
    full, plain = body(Ask("x", 1, seed=3)), body(Ask("x", 1, seed=3), plain=True)
    assert (full["model"], full["top_k"], full["min_p"], full["repetition_penalty"]) == ("org/model", -1, 0.0, 1.0)
    assert not {"top_k", "min_p", "repetition_penalty"} & set(plain)
    assert (plain["temperature"], plain["top_p"], plain["seed"]) == (1.0, 1.0, 3)


def test_asked_values_are_sent_in_any_case() -> None:
    sampling = Sampling(top_k=5, min_p=0.1, logit_bias=((7, -math.inf),))
    sent = body(Ask("x", 1, sampling=sampling, alternatives=4), COMPLETIONS, plain=True)
    assert (sent["top_k"], sent["min_p"], sent["logit_bias"], sent["logprobs"]) == (5, 0.1, {"7": -100.0}, 4)
    assert "seed" not in sent


def test_streams_ask_for_usage_and_batches_for_n() -> None:
    sent = body(Ask("x", 1, stream=True, count=3, extra=(("stop", "y"),)))
    assert sent["stream_options"] == {"include_usage": True}
    assert (sent["n"], sent["stop"]) == (3, "y")


def test_token_ids_have_no_place() -> None:
    with pytest.raises(InstrumentError, match="takes text"):
        DIALECT.call(Ask((1, 2), 1), COMPLETIONS)


def test_stop_strings_and_the_prompts_logprobs_are_asked_for_by_openais_fields() -> None:
    ask = Ask("hi", 1, alternatives=1, stop=("a", "b"), echo=True)
    for dialect in DIALECTS:
        if COMPLETIONS in dialect.prompt_routes and dialect.name != "vllm":
            sent = json.loads(dialect.call(ask, COMPLETIONS).body)
            assert (sent["stop"], sent["echo"], sent["logprobs"]) == (["a", "b"], True, 1)
    assert not {"stop", "echo"} & body(Ask("hi", 1)).keys()


@pytest.mark.parametrize(("made", "usage"), [(0, True), (1, True), (1, False)])
def test_the_entries_of_an_echoed_prompt_are_told_from_those_of_the_answer(made: int, usage: bool) -> None:
    counts = {"usage": {"prompt_tokens": 2 - made, "completion_tokens": made}} if usage else {}
    choice = {"text": "hello", "logprobs": {**LEGACY, "content": []}}
    (found,) = DIALECT.parse(Ask("he", made, 1, echo=True), exchange(answer(choice, **counts), COMPLETIONS))
    assert [t.text for t in found.prompt] == ["he", "llo"][: 2 - made]
    assert [t.text for t in found.tokens] == ["he", "llo"][2 - made :]


def test_where_the_prompt_is_not_echoed_all_entries_are_the_answers() -> None:
    counts = {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    choice = {"text": "hello", "logprobs": LEGACY}
    (found,) = DIALECT.parse(Ask("well, ", 2, 1, echo=True), exchange(answer(choice, **counts), COMPLETIONS))
    assert (found.prompt, len(found.tokens)) == ((), 2)


def test_hidden_reasoning_tokens_are_told() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}}
    body = {"choices": [{"index": 0, "text": "ab", "finish_reason": "stop"}], "usage": usage}
    answer = DIALECT.parse(Ask("x", 16), exchange(body, COMPLETIONS))[0]
    assert answer.completion_tokens is None
    assert ("usage.reasoning_tokens", 7) in answer.claims


def test_a_tool_is_named_and_described_in_a_chat() -> None:
    asked = Ask("weather?", 9, 2, tool="look_up")
    for told in (body(asked), json.loads(llama_server.DIALECT.call(asked, CHAT).body)):
        (tool,) = told["tools"]
        assert tool["function"]["name"] == "look_up"
        assert told["tool_choice"] == {"type": "function", "function": {"name": "look_up"}}
        assert told["logprobs"]
    for told in (body(Ask("a", 9)), json.loads(llama_server.DIALECT.call(Ask("a", 9), CHAT).body)):
        assert not {"tools", "tool_choice"} & told.keys()


def test_calls_of_tools_are_told_whole_and_streamed() -> None:
    calls = [{"id": "1", "function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]
    (whole,) = DIALECT.parse(Ask("a", 9), exchange(answer({"message": {"content": None, "tool_calls": calls}}), CHAT))
    assert (whole.text, whole.calls) == ("", ("a", "b"))
    parts: list[dict[str, Any]] = [
        {"content": "x"},
        {"tool_calls": [{"index": 0, **calls[0]}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        {"tool_calls": [{"index": 1, **calls[1]}]},
        {"tool_calls": None},
    ]
    events = "".join(f"data: {json.dumps(answer({'delta': part}))}\n\n" for part in parts) + "data: [DONE]\n\n"
    (streamed,) = DIALECT.parse(Ask("a", 9, stream=True), exchange(events, CHAT))
    assert (streamed.text, streamed.calls) == ("x", ("a", "b"))
    (none,) = DIALECT.parse(Ask("a", 9), exchange(answer({"message": {"content": "x"}}), CHAT))
    assert none.calls == ()
    with pytest.raises(TargetError):
        DIALECT.parse(Ask("a", 9), exchange(answer({"message": {"tool_calls": [{"function": {"name": 3}}]}}), CHAT))
