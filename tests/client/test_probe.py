from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.client import weather
from tests.client.weather import LETTERS, Connection, Request, Spoil, Weather, letters

from draftproof.client.dialects import llama_server, openai
from draftproof.client.http import Http
from draftproof.client.patience import Budget, Limits
from draftproof.client.probe import LiveProbe
from draftproof.core.ask import Ask
from draftproof.core.errors import BudgetSpent, InstrumentError, TargetError, Unreachable
from draftproof.core.facts import Facts
from draftproof.core.probe import Probe

FACTS = Facts(
    "",
    "llama_server",
    "test",
    vocabulary=8,
    slots=4,
    routes=("/completion", "/v1/completions", "/v1/chat/completions"),
    token_prompts=True,
    token_ids=True,
    max_alternatives=8,
    batch_seeds=4,
)


@contextmanager
def probing(
    spoil: Spoil = weather.fair, *, limits: Limits | None = None, budget: Budget | None = None, **facts: Any
) -> Iterator[tuple[LiveProbe, Weather]]:
    with Weather(spoil) as server, Http(server.url, limits=limits, budget=budget) as http:
        yield LiveProbe(http, llama_server.DIALECT, replace(FACTS, **facts), seed=11), server


def text(seed: int, n: int) -> str:
    return "".join(LETTERS[t] for t in letters(seed, n))


def test_a_live_probe_is_a_probe() -> None:
    with probing() as (live, _):
        probe: Probe = live
        assert probe.ask(Ask("a", 3, seed=1)).text == text(1, 3)


def test_what_several_checks_read_is_asked_once() -> None:
    with probing() as (probe, server):
        one, other = Ask((1, 2), 5, seed=3), Ask((1, 2), 5, seed=4)
        first = probe.once([one, other])
        assert probe.once([other, Ask((1, 2), 5, seed=3)]) == first[::-1]
        assert len(server.requests) == 2


def test_bulk_is_asked_in_batches_and_comes_back_seed_by_seed() -> None:
    with probing() as (probe, server):
        answers = list(probe.ask_many([Ask((1, 2), 5, seed=100, count=10)]))
        assert [a.text for a in answers] == [text(s, 5) for s in range(100, 110)]
        assert [a.ask.seed for a in answers] == list(range(100, 110))
        assert sorted(r.json.get("n_cmpl", 1) for r in server.requests) == [2, 4, 4]
        assert probe.requests == 3


def test_without_batches_every_seed_is_a_request_and_the_answers_are_the_same() -> None:
    with probing(batch_seeds=1) as (probe, server):
        answers = list(probe.ask_many([Ask((1, 2), 5, seed=100, count=10), Ask("b", 2, seed=7)]))
        assert [a.text for a in answers] == [*(text(s, 5) for s in range(100, 110)), text(7, 2)]
        assert len(server.requests) == 11


def test_streams_and_unseeded_asks_are_not_batched() -> None:
    with probing() as (probe, server):
        assert len(list(probe.ask_many([Ask("a", 2, seed=5, count=3, stream=True)]))) == 3
        assert len(list(probe.ask_many([Ask("a", 2, count=2, extra=(("seed", 1),))]))) == 2
        assert len(server.requests) == 5


def test_many_asks_are_in_flight_up_to_the_slots() -> None:
    lock = threading.Lock()
    now = most = 0

    def slow(request: Request, _connection: Connection) -> bool:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.02)
        with lock:
            now -= 1
        return False

    with probing(slow) as (probe, _):
        list(probe.ask_many(Ask("a", 1, seed=s) for s in range(24)))
    assert most == 4


def test_a_question_goes_to_the_best_route_that_can_carry_it() -> None:
    with probing(routes=("/v1/chat/completions", "/v1/completions")) as (probe, server):
        assert probe.ask(Ask("a", 1, seed=1)).route == "/v1/chat/completions"
        assert probe.ask(Ask((1,), 1, seed=1)).route == "/v1/completions"
        assert probe.ask(Ask("a", 1, seed=1, route="/completion")).route == "/completion"
        assert [r.path for r in server.requests] == ["/v1/chat/completions", "/v1/completions", "/completion"]


def test_token_ids_without_a_route_for_them_are_our_own_fault() -> None:
    with Weather() as server, Http(server.url) as http:
        probe = LiveProbe(http, openai.DIALECT, replace(FACTS, dialect="openai", routes=("/v1/completions",)))
        with pytest.raises(InstrumentError, match="takes token ids"):
            probe.ask(Ask((1,), 1))


def test_the_prompts_logprobs_are_asked_for_where_they_may_be_given() -> None:
    with probing() as (probe, server):
        assert probe.ask(Ask((1,), 1, seed=1, echo=True)).route == "/v1/completions"
        assert [r.path for r in server.requests] == ["/v1/completions"]
    with probing(routes=("/completion",)) as (probe, _), pytest.raises(InstrumentError, match="logprobs of the prompt"):
        probe.ask(Ask((1,), 1, echo=True))


def test_one_answer_is_asked_for_at_a_time() -> None:
    with probing() as (probe, _), pytest.raises(InstrumentError, match="ask_many"):
        probe.ask(Ask("a", 1, count=2))


def test_a_refusal_is_an_answer_with_the_servers_words() -> None:
    with probing(weather.html_500) as (probe, _):
        answer = probe.ask(Ask("a", 1))
        assert (answer.ok, answer.status, answer.error) == (False, 500, "HTTP 500: 500 Internal & Server Error")
        refused = list(probe.ask_many([Ask("a", 1, seed=1, count=5)]))
        assert [a.ok for a in refused] == [False] * 5


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (weather.empty_body, "empty body"),
        (weather.truncated_json, "not valid JSON"),
        (weather.nan_in_json, "NaN is not JSON"),
        (weather.silence, "sent nothing"),
        (weather.dropped, "in the middle"),
        (weather.announced_body, "the limit is"),
    ],
)
def test_an_answer_that_cannot_be_used_raises_and_names_its_exchange(spoil: Spoil, words: str) -> None:
    with probing(spoil, limits=Limits(silence_s=0.3)) as (probe, _):
        with pytest.raises(TargetError, match=words) as caught:
            probe.ask(Ask("a", 1, seed=1))
        assert caught.value.exchange == 1
        assert caught.value.remedy


def test_a_stream_that_breaks_off_raises() -> None:
    with (
        probing(weather.truncated_sse) as (probe, _),
        pytest.raises(TargetError, match="the stream ended before the answer did"),
    ):
        probe.ask(Ask("a", 4, seed=1, stream=True))


def test_an_end_at_once_is_an_empty_answer() -> None:
    with probing(weather.eos_at_once) as (probe, _):
        answer = probe.ask(Ask("a", 4, seed=1))
    assert (answer.text, answer.token_ids, answer.finish, answer.ok) == ("", (), "stop", True)


def test_a_crash_amid_many_asks_keeps_what_came_before() -> None:
    count = 0

    def crash(request: Request, connection: Connection) -> bool:
        nonlocal count
        count += 1
        if count > 10:
            connection.drop()
        return count > 10

    seen = []
    with probing(crash, limits=Limits(attempts=2, backoff_s=0.01), slots=1, batch_seeds=1) as (probe, _):
        answers = probe.ask_many(Ask("a", 1, seed=s) for s in range(1000))
        seen += [next(answers) for _ in range(10)]
        with pytest.raises(Unreachable):
            next(answers)
    assert len(seen) == 10


def test_a_restart_amid_many_asks_is_survived() -> None:
    with probing(limits=Limits(backoff_s=0.1)) as (probe, server):
        timers = [threading.Timer(0.05, server.stop), threading.Timer(0.3, server.start)]
        answers = []
        for timer in timers:
            timer.start()
        for s in range(400):
            answers.append(probe.ask(Ask("a", 1, seed=s)))
            time.sleep(0.001)
        assert [a.text for a in answers] == [text(s, 1) for s in range(400)]


def test_seeds_are_consecutive_repeatable_and_never_given_twice() -> None:
    with probing() as (probe, _):
        first, second = probe.seeds(100), probe.seeds(50)
        assert second.start == first.stop
        assert len(second) == 50
        other = LiveProbe(probe.http, probe.dialect, probe.facts, seed=12)
        same = LiveProbe(probe.http, probe.dialect, probe.facts, seed=11)
        assert same.seeds(100) == first
        assert other.seeds(100) != first
        assert 0 < first.start < first.stop < 2**31
        with pytest.raises(InstrumentError, match="unused seeds"):
            probe.seeds(2**31)


def test_seeds_of_many_threads_do_not_overlap() -> None:
    with probing() as (probe, _):
        blocks: list[range] = []
        threads = [threading.Thread(target=lambda: blocks.extend(probe.seeds(7) for _ in range(200))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({s for block in blocks for s in block}) == 8 * 200 * 7


def test_a_spent_budget_ends_many_asks_at_its_place() -> None:
    with probing(budget=Budget(requests=12), batch_seeds=1) as (probe, server):
        answers = probe.ask_many(Ask("a", 1, seed=s) for s in range(100))
        assert len(list(itertools.islice(answers, 12))) == 12
        with pytest.raises(BudgetSpent):
            next(answers)
        assert len(server.requests) == 12


def test_the_oracle_asks_once_and_many_at_a_time() -> None:
    with probing() as (probe, server):
        rows = probe.oracle_many([(i,) for i in range(8)])
        assert all(row.complete and len(row.ids) == 8 for row in rows)
        assert probe.oracle((3,)) == rows[3]
        assert len(server.requests) == 8
        assert probe.noise([(1, 2)]) == 0.0


def test_text_is_tokenized_and_pages_are_got() -> None:
    with probing() as (probe, _):
        assert probe.tokenize("abc") == (0, 1, 2)
        assert probe.get("/health") == '{"status": "ok"}'
        assert probe.get("/nothing") is None


def test_ctrl_c_leaves_many_slow_asks_at_once() -> None:
    def slow(request: Request, _connection: Connection) -> bool:
        time.sleep(1.0)
        return False

    def interrupted() -> Iterator[Ask]:
        yield from (Ask("a", 1, seed=s) for s in range(4))
        raise KeyboardInterrupt

    began = time.monotonic()
    with probing(slow) as (probe, _), pytest.raises(KeyboardInterrupt):
        list(probe.ask_many(interrupted()))
    assert time.monotonic() - began < 0.9
