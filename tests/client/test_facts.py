from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.client import weather
from tests.client.weather import Connection, Request, Spoil, Weather, answer_fairly

from draftproof.client.evidence import MemorySink
from draftproof.client.facts import connect
from draftproof.client.patience import Budget, Limits
from draftproof.client.probe import LiveProbe
from draftproof.core.errors import BudgetSpent, TargetError, Unreachable
from draftproof.core.facts import Facts

FAST = Limits(silence_s=0.5, backoff_s=0.01)
KEY = "sk-0123456789-secret"


@contextmanager
def connected(spoil: Spoil = weather.fair, slots: int = 4, **options: Any) -> Iterator[tuple[LiveProbe, Weather]]:
    with Weather(spoil, slots=slots) as server, connect(server.url, limits=FAST, **options) as probe:
        yield probe, server


def facts_of(spoil: Spoil = weather.fair, slots: int = 4) -> Facts:
    with connected(spoil, slots) as (probe, _):
        return probe.facts


def changed(path: str, change: dict[str, Any]) -> Spoil:
    """A server whose request body is changed before it is answered fairly."""

    def spoil(request: Request, connection: Connection) -> bool:
        if request.path != path:
            return False
        body = json.dumps(request.json | change).encode()
        answer_fairly(Request(request.method, request.path, request.headers, body), connection)
        return True

    return spoil


def only(*paths: str) -> Spoil:
    """Answers 404 everywhere else."""

    def spoil(request: Request, connection: Connection) -> bool:
        if request.path not in paths:
            connection.answer(404, '{"error": "nothing here"}')
        return request.path not in paths

    return spoil


def test_a_fair_server_is_known_in_a_few_requests() -> None:
    with connected() as (probe, server):
        facts = probe.facts
        assert (facts.dialect, facts.dialect_evidence) == ("llama_server", "/props has default_generation_settings")
        assert facts.routes == ("/completion", "/v1/completions", "/v1/chat/completions")
        assert (facts.vocabulary, facts.context, facts.slots, facts.max_alternatives) == (8, 512, 4, 8)
        assert facts.token_prompts
        assert facts.token_ids
        assert facts.seeds
        assert facts.batch_seeds == 4
        # Its texts come from another generator, and it takes no grammar.
        assert facts.coupling == ""
        assert not facts.grammar
        assert dict(facts.self_reports) == {"/props speculative.types": "none", "/slots speculative": False}
        assert len(server.requests) == probe.requests < 30


def test_the_evidence_of_the_survey_is_kept() -> None:
    sink = MemorySink()
    with connected(sink=sink) as (_, server):
        assert [e.path for e in sink.exchanges] == [r.path for r in server.requests]
        assert [e.number for e in sink.exchanges] == list(range(1, len(sink.exchanges) + 1))


def test_trials_use_no_seed_that_a_check_may_get() -> None:
    with connected() as (probe, server):
        used = {r.json["seed"] for r in server.requests if r.generates}
        assert min(used) > 2**31
        assert probe.seeds(10).stop < 2**31


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(Unreachable, match="Is the server running"):
        connect(url)


@pytest.mark.parametrize("spoil", [weather.unauthorized, weather.unauthorized_generation])
def test_a_missing_key_is_told_with_the_option_that_takes_it(spoil: Spoil) -> None:
    with pytest.raises(TargetError, match="Invalid API Key") as caught:
        facts_of(spoil)
    assert "--api-key-env" in caught.value.remedy
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("spoil", [weather.not_found, weather.no_llm])
def test_a_server_of_something_else_is_told_by_what_it_answered(spoil: Spoil) -> None:
    with pytest.raises(TargetError, match="not like an LLM server") as caught:
        facts_of(spoil)
    assert "/v1/models" in caught.value.remedy


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (weather.too_many, "429"),
        (weather.html_500, "Internal & Server Error"),
        (weather.empty_body, "empty body"),
        (weather.nan_in_json, "NaN"),
        (weather.dropped, "in the middle"),
        (weather.announced_body, "the limit is"),
    ],
)
def test_a_server_that_generates_nothing_is_told_by_its_words(spoil: Spoil, words: str) -> None:
    began = time.monotonic()
    with pytest.raises(TargetError, match="generates nothing") as caught:
        facts_of(spoil)
    assert words in str(caught.value)
    assert caught.value.remedy
    assert time.monotonic() - began < 5


def test_silence_of_the_first_trial_is_waited_for_once() -> None:
    began = time.monotonic()
    with pytest.raises(TargetError, match=r"sent nothing for 0\.5 s") as caught:
        facts_of(weather.silence)
    assert "--timeout" in caught.value.remedy
    assert time.monotonic() - began < 2


def test_silence_at_first_contact_is_not_waited_for_nine_times() -> None:
    def mute(_request: Request, _connection: Connection) -> bool:
        time.sleep(2)
        return True

    began = time.monotonic()
    with pytest.raises(TargetError, match="sent nothing"):
        facts_of(mute)
    assert time.monotonic() - began < 2


def test_a_server_that_still_loads_is_waited_for_a_little_and_then_told() -> None:
    def loading(_request: Request, connection: Connection) -> bool:
        connection.answer(503, '{"error": {"message": "Loading model"}}')
        return True

    with pytest.raises(TargetError, match=r"is not ready .*Loading model") as caught, Weather(loading) as server:
        connect(server.url, limits=Limits(attempts=3, backoff_s=0.01))
    assert "loaded" in caught.value.remedy
    assert len(server.requests) == 3


def test_endpoints_that_fail_are_merely_unknown() -> None:
    def broken(request: Request, connection: Connection) -> bool:
        if request.path in ("/slots", "/metrics", "/health"):
            connection.answer(500, "no")
        elif request.path == "/version":
            connection.drop()
        else:
            return False
        return True

    facts = facts_of(broken)
    assert facts.slots == 4
    assert dict(facts.self_reports) == {"/props speculative.types": "none"}


def test_a_key_in_an_echo_is_not_in_the_error() -> None:
    sink = MemorySink()
    with pytest.raises(TargetError) as caught, connected(weather.key_echo, api_key=KEY, sink=sink):
        pass
    assert "[api key]" in str(caught.value)
    assert "secret" not in str(caught.value) + repr(sink.exchanges)


def test_a_limit_on_alternatives_is_found() -> None:
    assert facts_of(weather.few_alternatives(5)).max_alternatives == 5
    assert facts_of(weather.few_alternatives(2)).max_alternatives == 1


def test_refused_logprobs_are_noted_route_by_route() -> None:
    facts = facts_of(weather.few_alternatives(0))
    assert (facts.routes, facts.max_alternatives) == ((), 0)
    assert "/completion gives no logprobs." in facts.notes


def test_logprobs_without_alternatives_are_still_claimed_by_their_route() -> None:
    def bare(request: Request, connection: Connection) -> bool:
        if request.path != "/completion" or not request.json["n_probs"]:
            return False
        answer = weather.native_answer(request.json)
        answer["completion_probabilities"] = [
            e | {"logprob": 0.0, "top_logprobs": []} for e in answer["completion_probabilities"]
        ]
        connection.answer(200, json.dumps(answer))
        return True

    facts = facts_of(bare)
    assert facts.routes[0] == "/completion"
    assert facts.max_alternatives == 0


def test_fewer_alternatives_than_asked_are_counted_not_believed() -> None:
    facts = facts_of(changed("/completion", {"n_probs": 3}))
    assert facts.max_alternatives == 3


def test_a_server_that_ignores_seeds_is_found_out() -> None:
    counter = iter(range(10**6))

    def moody(request: Request, connection: Connection) -> bool:
        return request.path == "/completion" and changed("/completion", {"seed": next(counter)})(request, connection)

    facts = facts_of(moody)
    assert not facts.seeds
    assert facts.batch_seeds == 1
    assert "The same seed gave two different texts." in facts.notes


def test_batches_that_do_not_give_the_texts_of_their_seeds_are_not_used() -> None:
    def skewed(request: Request, connection: Connection) -> bool:
        if request.json.get("n_cmpl", 1) == 1:
            return False
        return changed("/completion", {"seed": request.json["seed"] + 1})(request, connection)

    facts = facts_of(skewed)
    assert facts.seeds
    assert facts.batch_seeds == 1
    assert any("batches are not used" in note for note in facts.notes)


def test_one_slot_takes_no_batches() -> None:
    with connected(slots=1) as (probe, server):
        assert probe.facts.batch_seeds == 1
        assert not any("n_cmpl" in r.json for r in server.requests if r.generates)


def test_without_a_tokenizer_prompts_are_text() -> None:
    def no_tokenizer(request: Request, connection: Connection) -> bool:
        if request.path == "/tokenize":
            connection.answer(501, '{"error": "not supported"}')
        return request.path == "/tokenize"

    facts = facts_of(no_tokenizer)
    assert not facts.token_prompts
    assert facts.max_alternatives == 8


def test_any_openai_server_is_asked_in_the_general_dialect() -> None:
    facts = facts_of(only("/v1/models", "/v1/completions", "/v1/chat/completions"))
    # It still says owned_by llamacpp, and its native route is gone.
    assert facts.routes == ("/v1/completions", "/v1/chat/completions")
    assert facts.dialect == "llama_server"


def strict_openai(request: Request, connection: Connection) -> bool:
    """OpenAI's chat route, 20 alternatives at most, no field beyond its API."""
    if request.path == "/v1/models":
        connection.answer(200, '{"data": [{"id": "big-model", "owned_by": "someone"}]}')
    elif request.path != "/v1/chat/completions":
        connection.answer(404, '{"error": {"message": "unknown path"}}')
    elif unknown := {"top_k", "min_p", "repetition_penalty"} & set(request.json):
        connection.answer(400, json.dumps({"error": {"message": f"unknown fields {sorted(unknown)}"}}))
    elif request.json.get("top_logprobs", 0) > 20:
        connection.answer(400, '{"error": {"message": "top_logprobs must be at most 20"}}')
    else:
        return False
    return True


def test_a_strict_server_is_asked_only_in_openais_words() -> None:
    with connected(strict_openai) as (probe, server):
        facts = probe.facts
        assert (facts.dialect, facts.model, facts.routes) == ("openai", "big-model", ("/v1/chat/completions",))
        assert facts.max_alternatives == 8  # of 20 asked, it has no more letters
        assert not facts.token_prompts
        assert any("refuses sampler fields" in note for note in facts.notes)
        probe.ask(weather_ask())
        assert set(server.requests[-1].json) == {
            "model", "messages", "max_tokens", "temperature", "top_p", "seed", "presence_penalty", "frequency_penalty",
        }  # fmt: skip


def weather_ask() -> Any:
    from draftproof.core.ask import Ask

    return Ask("a", 2, seed=4)


def test_a_budget_counts_what_the_facts_cost() -> None:
    with pytest.raises(BudgetSpent), connected(budget=Budget(requests=12)):
        pass
