from __future__ import annotations

import json
import math

import pytest
from tests.client.recorded import exchange, recorded, survey

from draftproof.client.dialects.llama_server import DIALECT, NATIVE
from draftproof.client.openai_wire import CHAT, COMPLETIONS
from draftproof.core.ask import Ask
from draftproof.core.errors import InstrumentError, TargetError
from draftproof.core.sampling import GREEDY, Sampling
from draftproof.core.tokens import TokenRecord

ROUTES = ("completion_t1_stream{}_post0", "v1completions_t1_stream{}", "chat_t1_stream{}")
TEXT = "hhfcfdeffdch"


def body(ask: Ask, route: str = NATIVE) -> dict[str, object]:
    call = DIALECT.call(ask, route)
    assert call.path == route
    parsed: dict[str, object] = json.loads(call.body)
    return parsed


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("stream", [0, 1])
def test_a_plain_server_gives_twelve_measured_tokens(route: str, stream: int) -> None:
    ask, answer = recorded(f"plain/{route.format(stream)}")
    (completion,) = DIALECT.parse(ask, answer)
    assert completion.text == TEXT
    assert completion.ok
    assert completion.finish == "length"
    # A streamed chat counts only when it is asked to.
    counted = (None, None) if (route, stream) == (ROUTES[2], 1) else (5, 12)
    assert (completion.prompt_tokens, completion.completion_tokens) == counted
    assert completion.drafted is completion.accepted is None
    assert [t.text for t in completion.tokens] == list(TEXT)
    assert completion.tokens[0].logprob == -0.856894850730896
    assert completion.tokens[0].bytes == (104,)
    assert all(t.alternatives is not None and len(t.alternatives) == 3 for t in completion.tokens)
    assert [t.id for t in completion.tokens] == ["abcdefgh".index(c) for c in TEXT]


@pytest.mark.parametrize("route", ROUTES)
def test_placeholders_of_a_speculating_server_stay_as_they_came(route: str) -> None:
    ask, answer = recorded(f"draft-simple/{route.format(0)}")
    (completion,) = DIALECT.parse(ask, answer)
    assert completion.text == TEXT
    assert completion.drafted == 21
    assert completion.accepted == 2
    assert [t.logprob == 0.0 and t.alternatives == () for t in completion.tokens] == [False, *[True] * 10, False]


@pytest.mark.parametrize("route", ROUTES)
def test_a_logprob_that_is_missing_from_a_stream_is_a_token_without_one(route: str) -> None:
    ask, answer = recorded(f"draft-simple/{route.format(1)}")
    (completion,) = DIALECT.parse(ask, answer)
    assert [t.text for t in completion.tokens] == list(TEXT)
    assert [t.logprob is None and t.alternatives is None for t in completion.tokens] == [False, *[True] * 10, False]
    assert completion.event_tokens == (1, *[0] * 10, 1)
    assert len(completion.arrivals) == 12
    assert completion.drafted == 21


def test_native_streams_give_the_ids_of_drafted_tokens() -> None:
    ask, answer = recorded("draft-simple/completion_t1_stream1_post0")
    (completion,) = DIALECT.parse(ask, answer)
    assert completion.token_ids == tuple("abcdefgh".index(c) for c in TEXT)
    assert completion.tokens[1] == TokenRecord(7, "h", None, None, None)


@pytest.mark.parametrize("stream", [0, 1])
def test_probabilities_after_the_samplers_become_logarithms(stream: int) -> None:
    ask, answer = recorded(f"plain/completion_t1_stream{stream}_post1")
    (completion,) = DIALECT.parse(ask, answer)
    first = completion.tokens[0]
    assert first.logprob == math.log(0.5279638767242432)
    assert first.alternatives is not None
    assert math.fsum(math.exp(a.logprob or 0) for a in first.alternatives) == pytest.approx(1, abs=1e-6)


def test_placeholders_after_the_samplers_are_a_certain_token_without_alternatives() -> None:
    ask, answer = recorded("draft-simple/completion_t1_stream0_post1")
    (completion,) = DIALECT.parse(ask, answer)
    assert completion.tokens[1].logprob == 0.0
    assert completion.tokens[1].alternatives == ()


def test_a_probability_of_zero_is_a_logarithm_of_minus_infinity() -> None:
    answer = {"content": "a", "completion_probabilities": [{"id": 0, "token": "a", "prob": 0.0, "top_probs": []}]}
    (completion,) = DIALECT.parse(Ask("x", 1, alternatives=1), exchange(answer))
    assert completion.tokens[0].logprob == -math.inf


def test_a_negative_probability_is_refused() -> None:
    answer = {"content": "a", "completion_probabilities": [{"id": 0, "token": "a", "prob": -0.1, "top_probs": []}]}
    with pytest.raises(TargetError, match="'prob' should be a probability"):
        DIALECT.parse(Ask("x", 1, alternatives=1), exchange(answer))


def test_claims_are_flat_and_keep_their_types() -> None:
    ask, answer = recorded("draft-simple/completion_t1_stream0_post0")
    (completion,) = DIALECT.parse(ask, answer)
    claims = dict(completion.claims)
    assert claims["speculative.types"] == "none,draft-simple"
    assert claims["temperature"] == 1.0
    assert isinstance(claims["temperature"], float)
    assert claims["ignore_eos"] is False
    assert claims["stop_type"] == "limit"
    assert json.loads(str(claims["samplers"]))[0] == "penalties"


def test_equal_values_of_different_types_are_not_mixed_up() -> None:
    for value in (1, 1.0, True):
        answer = {"content": "", "generation_settings": {"x": value}}
        claims = dict(DIALECT.parse(Ask("x", 1), exchange(answer))[0].claims)
        assert type(claims["x"]) is type(value)


def test_every_neutral_value_is_sent_and_only_asked_samplers_act() -> None:
    sent = body(Ask((1, 2), 5, seed=3))
    assert sent["prompt"] == [1, 2]
    assert sent["samplers"] == ["temperature"]
    assert (sent["temperature"], sent["top_k"], sent["top_p"], sent["min_p"], sent["repeat_penalty"]) == (
        1.0,
        0,
        1.0,
        0.0,
        1.0,
    )
    assert (sent["typical_p"], sent["xtc_probability"], sent["dry_multiplier"], sent["mirostat"]) == (1, 0, 0, 0)
    assert sent["return_tokens"] is sent["cache_prompt"] is True
    assert (sent["n_predict"], sent["seed"], sent["stream"]) == (5, 3, False)
    assert "n_cmpl" not in sent
    assert "grammar" not in sent


def test_asked_samplers_act_in_the_order_of_llama_cpp() -> None:
    sampling = Sampling(
        temperature=0.7, top_k=40, top_p=0.9, min_p=0.1, repeat_penalty=1.1, logit_bias=((3, -math.inf), (4, 2.5))
    )
    sent = body(Ask("a", 1, sampling=sampling))
    assert sent["samplers"] == ["penalties", "top_k", "top_p", "min_p", "temperature"]
    assert sent["logit_bias"] == [[3, False], [4, 2.5]]
    assert sent["seed"] == -1
    assert body(Ask("a", 1, sampling=GREEDY))["temperature"] == 0.0


def test_batches_grammars_and_extras_have_their_names() -> None:
    ask = Ask(
        "a", 1, count=4, grammar="root ::= [a-h]", post_sampling=True, extra=(("cache_prompt", False), ("stop", "x"))
    )
    sent = body(ask)
    assert (sent["n_cmpl"], sent["grammar"], sent["post_sampling_probs"]) == (4, "root ::= [a-h]", True)
    assert sent["cache_prompt"] is False
    assert sent["stop"] == ["x"]
    assert body(ask, COMPLETIONS)["n"] == 4


def test_openai_routes_carry_the_same_settings_under_their_own_names() -> None:
    ask = Ask("hello", 7, alternatives=3)
    completions, chat = body(ask, COMPLETIONS), body(ask, CHAT)
    assert (completions["prompt"], completions["max_tokens"], completions["logprobs"]) == ("hello", 7, 3)
    assert chat["messages"] == [{"role": "user", "content": "hello"}]
    assert (chat["logprobs"], chat["top_logprobs"]) == (True, 3)
    assert body(Ask("x", 1, stream=True), CHAT)["stream_options"] == {"include_usage": True}
    assert completions["samplers"] == chat["samplers"] == ["temperature"]
    assert body(Ask((1, 2), 1), COMPLETIONS)["prompt"] == [1, 2]
    with pytest.raises(InstrumentError, match="takes text"):
        DIALECT.call(Ask((1, 2), 1), CHAT)


def test_a_batch_is_parsed_in_the_order_of_its_seeds() -> None:
    answers = [
        {
            "index": i,
            "content": str(i),
            "tokens": [i],
            "tokens_predicted": 1,
            "generation_settings": {"seed": 50 + i, "x": 1},
        }
        for i in (1, 0)
    ]
    found = DIALECT.parse(Ask("a", 1, seed=50, count=2), exchange(answers))
    assert [(c.text, c.ask.seed, c.ask.count) for c in found] == [("0", 50, 1), ("1", 51, 1)]
    assert found[1].claims == (("seed", 51),)


def test_a_batch_with_a_missing_answer_is_refused() -> None:
    with pytest.raises(TargetError, match="asked for 2 answers"):
        DIALECT.parse(Ask("a", 1, count=2), exchange({"index": 0, "content": "a"}))


def test_a_refused_batch_gives_as_many_errors_as_were_asked() -> None:
    found = DIALECT.parse(Ask("a", 1, count=3), exchange({"error": {"message": "no"}}, status=400))
    assert [(c.ok, c.error, c.status) for c in found] == [(False, "HTTP 400: no", 400)] * 3


def test_an_answer_without_ids_is_told_from_one_without_tokens() -> None:
    old = {"content": "ab", "tokens": [], "tokens_predicted": 2}
    nothing = {"content": "", "tokens": [], "tokens_predicted": 0, "stop_type": "eos"}
    assert DIALECT.parse(Ask("a", 2), exchange(old))[0].token_ids is None
    ended = DIALECT.parse(Ask("a", 2), exchange(nothing))[0]
    assert ended.token_ids == ()
    assert ended.finish == "stop"


@pytest.mark.parametrize(
    "answer",
    [
        {"content": 3},
        {"content": "a", "tokens": ["x"]},
        {"content": "a", "completion_probabilities": {}},
        {"content": "a", "completion_probabilities": [{"token": "a", "logprob": "low"}]},
        {"content": "a", "completion_probabilities": [{"logprob": -1.0}]},
        {"content": "a", "tokens_predicted": 1.5},
        {"content": "a", "timings": []},
        [{"content": "a"}, 3],
        "text",
        3,
    ],
)
def test_fields_of_the_wrong_kind_are_named(answer: object) -> None:
    text = json.dumps(answer)
    with pytest.raises(TargetError) as caught:
        DIALECT.parse(Ask("a", 1, alternatives=1), exchange(text))
    assert caught.value.exchange == 7


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("route", ROUTES)
def test_a_stream_cut_short_is_an_error_never_a_shorter_answer(route: str, cut: float) -> None:
    ask, answer = recorded(f"plain/{route.format(1)}")
    with pytest.raises(TargetError, match="the stream ended before the answer did"):
        DIALECT.parse(ask, exchange(answer.answer[: int(len(answer.answer) * cut)], answer.path))


def test_a_stream_of_whole_events_without_an_end_is_an_error() -> None:
    ask, answer = recorded("plain/completion_t1_stream1_post0")
    events = answer.answer.split("\n\n")
    with pytest.raises(TargetError, match="no event says stop"):
        DIALECT.parse(ask, exchange("\n\n".join(events[:5]) + "\n\n"))


@pytest.mark.parametrize(
    "event", ['data: {"error": {"message": "out of memory"}}', 'error: {"message": "out of memory"}']
)
def test_an_error_in_a_stream_is_a_completion_with_an_error(event: str) -> None:
    (completion,) = DIALECT.parse(Ask("a", 1, stream=True), exchange(event + "\n\n"))
    assert completion.error == "error in the stream: out of memory"


def test_a_speculating_server_is_described_by_all_that_it_says() -> None:
    said = DIALECT.describe(survey("draft-simple"))
    assert (said.vocabulary, said.context, said.slots, said.build) == (8, 512, 1, "b0-unknown")
    reports = dict(said.self_reports)
    assert reports["/props speculative.types"] == "none"
    assert reports["/slots speculative"] is True
    assert reports["/metrics llamacpp:spec_decode_num_drafts_total"] == 0.0
    assert "b0-unknown" in said.notes[0]


@pytest.mark.parametrize(
    ("mode", "speculative"), [("plain", False), ("md-without-spec-type", False), ("ngram-mod", True)]
)
def test_slots_are_taken_at_their_word(mode: str, speculative: bool) -> None:
    assert dict(DIALECT.describe(survey(mode)).self_reports)["/slots speculative"] is speculative


def test_slots_that_differ_are_reported_one_by_one() -> None:
    fresh = survey("plain")
    slots = exchange([{"id": 0, "speculative": True}, {"id": 1, "speculative": False}], "/slots")
    mixed = type(fresh)({**fresh.answers, "/slots": slots})
    reports = dict(DIALECT.describe(mixed).self_reports)
    assert reports["/slots[0] speculative"] is True
    assert reports["/slots[1] speculative"] is False


def test_the_dialect_is_recognised_by_evidence() -> None:
    assert DIALECT.recognise(survey("plain")) == "/props has default_generation_settings"
    empty = type(survey("plain"))({})
    assert DIALECT.recognise(empty) == ""
    assert DIALECT.describe(empty).slots is None
