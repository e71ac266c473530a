"""The `openai` client, as it is published, on a server that speculates and on one that does not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from tests.clients.served import DRAFTING, PAIR, TARGET, serve

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.real

PROMPT = "bcdbc"
USER = [{"role": "user", "content": PROMPT}]
KEY = "a key of this test"
GREEDY = {"temperature": 0, "max_tokens": 32}
DRAWN: dict[str, Any] = {"temperature": 1, "max_tokens": 32, "seed": 7}
NEUTRAL = {"top_k": 0, "top_p": 1, "min_p": 0}
TOLERANCE = 1e-5


@dataclass
class Clients:
    """Of two servers with the same model."""

    plain: Any
    drafting: Any


def client(url: str, key: str = KEY) -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=30)


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with ExitStack() as stack:
        urls = [stack.enter_context(serve(*flags, "--api-key", KEY)) for flags in (TARGET, DRAFTING)]
        yield Clients(*(stack.enter_context(client(url)) for url in urls))


def text_logprobs(answer: Any) -> list[float]:
    return list(answer.choices[0].logprobs.token_logprobs)


def chat_logprobs(answer: Any) -> list[float]:
    return [entry.logprob for entry in answer.choices[0].logprobs.content]


def test_greedy_text_and_logprobs_are_the_same_with_and_without_speculation(clients: Clients) -> None:
    asked = {"model": "any", "prompt": PROMPT, "logprobs": 3, **GREEDY}
    plain, drafting = (c.completions.create(**asked) for c in (clients.plain, clients.drafting))
    assert drafting.speculation["drafted"] > drafting.speculation["accepted"] > 0
    assert drafting.choices[0].text == plain.choices[0].text
    assert text_logprobs(drafting) == pytest.approx(text_logprobs(plain), abs=TOLERANCE)
    assert len(text_logprobs(drafting)) == GREEDY["max_tokens"]
    assert all(len(top) == 3 for top in drafting.choices[0].logprobs.top_logprobs)
    assert drafting.usage == plain.usage
    assert drafting.usage.completion_tokens == GREEDY["max_tokens"]


def test_a_greedy_chat_is_the_same_with_and_without_speculation(clients: Clients) -> None:
    asked = {"model": "any", "messages": USER, "logprobs": True, "top_logprobs": 3, **GREEDY}
    plain, drafting = (c.chat.completions.create(**asked) for c in (clients.plain, clients.drafting))
    assert drafting.speculation["accepted"] > 0
    assert drafting.choices[0].message == plain.choices[0].message
    assert chat_logprobs(drafting) == pytest.approx(chat_logprobs(plain), abs=TOLERANCE)
    assert all(len(entry.top_logprobs) == 3 for entry in drafting.choices[0].logprobs.content)


def test_every_drawn_token_has_the_logprob_that_scoring_gives_it(clients: Clients) -> None:
    made = clients.drafting.completions.create(model="any", prompt=PROMPT, logprobs=0, extra_body=NEUTRAL, **DRAWN)
    assert made.speculation["accepted"] > 0
    scored = clients.plain.completions.create(
        model="any", prompt=PROMPT + made.choices[0].text, logprobs=0, max_tokens=0, echo=True
    )
    assert text_logprobs(made) == pytest.approx(text_logprobs(scored)[len(PROMPT) :], abs=TOLERANCE)
    assert all(math.isfinite(logprob) and logprob < 0 for logprob in text_logprobs(made))


@pytest.mark.parametrize("which", ["plain", "drafting"])
def test_a_streamed_chat_tells_what_a_whole_one_tells(clients: Clients, which: str) -> None:
    create = getattr(clients, which).chat.completions.create
    asked = {"model": "any", "messages": USER, "logprobs": True, "top_logprobs": 2, **DRAWN}
    whole = create(**asked)
    chunks = list(create(**asked, stream=True, stream_options={"include_usage": True}))
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == whole.choices[0].message.content
    entries = [entry for choice in choices if choice.logprobs for entry in choice.logprobs.content]
    assert entries == whole.choices[0].logprobs.content
    assert choices[-1].finish_reason == whole.choices[0].finish_reason == "length"
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


@pytest.mark.parametrize("which", ["plain", "drafting"])
def test_a_streamed_completion_tells_what_a_whole_one_tells(clients: Clients, which: str) -> None:
    create = getattr(clients, which).completions.create
    asked = {"model": "any", "prompt": PROMPT, "logprobs": 2, **DRAWN}
    whole, chunks = create(**asked), list(create(**asked, stream=True))
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.text for choice in choices) == whole.choices[0].text
    told = [logprob for choice in choices if choice.logprobs for logprob in choice.logprobs.token_logprobs]
    assert told == text_logprobs(whole)


def test_choices_have_seeds_of_their_own(clients: Clients) -> None:
    exact = {"speculative.rule": "match"}
    several = clients.drafting.completions.create(model="any", prompt=PROMPT, n=3, extra_body=exact, **DRAWN)
    assert [choice.index for choice in several.choices] == [0, 1, 2]
    for i, choice in enumerate(several.choices):
        alone = clients.plain.completions.create(model="any", prompt=PROMPT, **{**DRAWN, "seed": DRAWN["seed"] + i})
        assert choice.text == alone.choices[0].text
    assert len({choice.text for choice in several.choices}) == 3


@pytest.mark.parametrize("which", ["plain", "drafting"])
def test_a_stop_string_ends_the_text_before_it(clients: Clients, which: str) -> None:
    create = getattr(clients, which).completions.create
    free = create(model="any", prompt=PROMPT, **GREEDY).choices[0].text
    stop = free[9:12]
    stopped = create(model="any", prompt=PROMPT, stop=[stop, "zz"], logprobs=1, **GREEDY)
    assert stopped.choices[0].text == free[: free.index(stop)]
    assert stopped.choices[0].finish_reason == "stop"
    assert len(text_logprobs(stopped)) == stopped.usage.completion_tokens == free.index(stop) + len(stop)


def test_a_request_switches_speculation_off(clients: Clients) -> None:
    answer = clients.drafting.completions.create(
        model="any", prompt=PROMPT, extra_body={"speculative": False}, **GREEDY
    )
    assert answer.speculation["effective"]["types"] == ["none"]
    assert answer.speculation["drafted"] == 0


def test_errors_become_the_clients_own(clients: Clients) -> None:
    url = str(clients.plain.base_url).removesuffix("/v1/")
    with client(url, "wrong") as stranger, pytest.raises(openai.AuthenticationError, match="Invalid API Key"):
        stranger.models.list()
    create = clients.drafting.completions.create
    with pytest.raises(openai.BadRequestError, match="exceeds the available context size") as refused:
        create(model="any", prompt="abcdefgh" * 100)
    assert refused.value.body["type"] == "exceed_context_size_error"
    with pytest.raises(openai.BadRequestError, match="temperature"):
        create(model="any", prompt=PROMPT, temperature="hot")
    with pytest.raises(openai.NotFoundError):
        clients.plain.embeddings.create(model="any", input="a")


def test_the_model_is_listed(clients: Clients) -> None:
    assert [model.id for model in clients.plain.models.list()] == [str(PAIR / "target.gguf")]
    assert clients.plain.models.retrieve(str(PAIR / "target.gguf")) == clients.plain.models.list().data[0]
    with pytest.raises(openai.NotFoundError, match="There is no model 'gpt'"):
        clients.plain.models.retrieve("gpt")
