"""Speculation per request: what was asked for, what was done and why; a seed gives its answer whoever else is served."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.server.loopback import DRAFT, NEUTRAL, NGRAM, PROMPT, Client, serving

from draftproof.countable.catalogue import named
from draftproof.countable.law import joint_law
from draftproof.countable.story import ids
from draftproof.stats.goodness import goodness_of_fit

REQUEST: dict[str, Any] = {"prompt": PROMPT, "n_predict": 48, "seed": 6, **NEUTRAL}


@pytest.mark.parametrize(
    "off",
    [
        {"speculative": False},
        {"speculative.n_max": 0},
        {"speculative": {"n_max": 0}},
        {"speculative.type": "none"},
        {"speculative.types": ["none"]},
        {"speculative": {"type": "none"}},
    ],
    ids=str,
)
def test_a_request_can_switch_speculation_off(drafting: Client, plain: Client, off: dict[str, Any]) -> None:
    answer = drafting.ask(**REQUEST, **off)
    assert answer["content"] == plain.ask(**REQUEST)["content"]
    assert "draft_n" not in answer["timings"]
    assert answer["speculation"]["effective"] == {"types": ["none"], "rule": "none", "n_max": 0, "strict": False}
    assert answer["generation_settings"]["speculative.types"] == "none"


def test_a_request_can_choose_drafter_length_and_rule(plain: Client) -> None:
    answer = plain.ask(
        **REQUEST, **{"speculative.type": "draft-simple", "speculative.rule": "match"}, return_origins=True
    )
    told = answer["speculation"]
    assert told["effective"] == {"types": ["draft-simple"], "rule": "match", "n_max": 3, "strict": False}
    assert answer["content"] == plain.ask(**REQUEST)["content"]
    assert told["drafted"] > told["accepted"] > 0
    assert answer["origins"].count("accepted") == told["accepted"]
    longer = plain.ask(**REQUEST, speculative={"type": "draft-simple", "n_max": 5})
    assert longer["speculation"]["effective"]["n_max"] == 5
    assert len(longer["speculation"]["drafted_by_position"]) == 5


@pytest.mark.parametrize(
    ("asked", "ignored"),
    [
        ({"speculative": True}, ["speculative"]),
        ({"speculative.n_max": 3, "speculative.rule": "match"}, ["speculative.n_max", "speculative.rule"]),
        ({"speculative": {"type": "ngram-simple", "p_min": 0.5, "n_max": 2}}, ["speculative.p_min"]),
        ({"speculative.type": "draft-simple", "speculative.p_min": 0.5, "speculative.n_min": 1}, []),
        ({"speculative": False}, []),
        ({"speculative.n_max": 0}, []),
    ],
    ids=str,
)
def test_what_no_drafter_reads_is_listed_as_ignored(plain: Client, asked: dict[str, Any], ignored: list[str]) -> None:
    assert plain.ask(prompt=PROMPT, n_predict=2, **asked)["ignored"] == ignored


def test_counts_by_position_add_up(drafting: Client) -> None:
    answer = drafting.ask(**REQUEST, return_origins=True)
    told, timings = answer["speculation"], answer["timings"]
    assert sum(told["accepted_by_position"]) == told["accepted"] == timings["draft_n_accepted"]
    assert sum(told["drafted_by_position"]) == told["drafted"] == timings["draft_n"]
    assert told["drafted_by_position"][0] == told["drafts"]
    assert answer["origins"][0] == "plain"
    assert len(answer["origins"]) == 48
    assert all(a <= d for a, d in zip(told["accepted_by_position"], told["drafted_by_position"], strict=True))


def test_what_cannot_be_done_is_not_done_and_said() -> None:
    with serving(DRAFT, draft=False) as (client, _):
        assert client.get("/props").json()["speculation"] == "none"
        assert client.get("/slots").json()[0]["speculative"] is False
        told = client.ask(prompt=PROMPT, n_predict=8)["speculation"]
        assert told["requested"]["types"] == ["draft-simple"]
        assert told["effective"]["types"] == ["none"]
        assert told["reason"] == "draft-simple: no draft model is loaded"


def test_a_rule_that_would_change_the_law_is_not_used(drafting: Client) -> None:
    told = drafting.ask(prompt=PROMPT, n_predict=8, temperature=1, **{"speculative.rule": "greedy"})["speculation"]
    assert told["effective"]["types"] == ["none"]
    assert told["reason"] == "the greedy rule is exact at temperature 0 only"


def test_lookups_leave_a_seeded_answer_as_it_is(looking_up: Client, plain: Client) -> None:
    request = {**REQUEST, "prompt": "bcdbcbcdbcbcdbc", "n_predict": 100, "temperature": 0.3}
    answer = looking_up.ask(**request)
    assert answer["timings"]["draft_n_accepted"] > 5
    assert answer["content"] == plain.ask(**request)["content"]


@pytest.mark.parametrize("speculation", [DRAFT, NGRAM], ids=["draft", "ngram"])
def test_a_seed_gives_the_same_tokens_alone_and_in_company(speculation: Any) -> None:
    prompts = [PROMPT, "abc", "hgfedcba" * 3, "f"]
    asks: list[dict[str, Any]] = [
        {**REQUEST, "prompt": prompts[i % 4], "seed": i % 10, "n_predict": 40} for i in range(40)
    ]
    with serving(speculation, slots=4) as (client, _):
        with ThreadPoolExecutor(8) as crowd:
            together = list(crowd.map(lambda ask: client.ask(**ask)["content"], asks))
        alone = [client.ask(**ask, cache_prompt=False)["content"] for ask in asks]
    assert together == alone


def test_the_law_of_what_is_emitted_is_the_targets(drafting: Client) -> None:
    """Joint law of three tokens, 1500 seeds; a sound server fails with probability 1e-6."""
    law = joint_law(named("story").target_many, ids(PROMPT), 3)
    counts = np.zeros(law.shape, dtype=np.int64)
    for first in range(0, 1500, 100):
        answers = drafting.ask(prompt=PROMPT, n_predict=4, seed=first, n_cmpl=100, return_tokens=True, **NEUTRAL)
        for answer in answers:
            counts[tuple(answer["tokens"][:3])] += 1
        assert sum(a["speculation"]["accepted"] for a in answers) > 20
    result = goodness_of_fit(counts.ravel().tolist(), law.ravel().tolist())
    assert result.p_value > 1e-6


def test_greedy_answers_are_those_without_speculation(drafting: Client, plain: Client) -> None:
    request: dict[str, Any] = {"prompt": PROMPT, "n_predict": 100, "temperature": 0}
    answer = drafting.ask(**request)
    assert answer["speculation"]["effective"]["rule"] == "greedy"
    assert answer["timings"]["draft_n"] > 0
    assert answer["content"] == plain.ask(**request)["content"]


def test_requested_is_what_was_asked_for_and_strictness_that_the_server_adds_is_effective(drafting: Client) -> None:
    request: dict[str, Any] = {"prompt": PROMPT, "n_predict": 8, "temperature": 0}
    told = drafting.ask(**request)["speculation"]
    assert (told["requested"]["strict"], told["effective"]["strict"], told["reason"]) == (False, True, "")
    told = drafting.ask(**(request | {"speculative.strict": True}))["speculation"]
    assert (told["requested"]["strict"], told["effective"]["strict"]) == (True, True)
    told = drafting.ask(**(request | {"speculative.strict": False}))["speculation"]
    assert (told["requested"]["strict"], told["effective"]["strict"]) == (False, False)


@pytest.mark.parametrize("adaptive", [True, False])
def test_an_answer_without_drafts_says_that_there_was_nothing_to_look_up(looking_up: Client, adaptive: bool) -> None:
    request: dict[str, Any] = {"prompt": "a", "n_predict": 3, "temperature": 0, "logit_bias": [[1, -100]]}
    told = looking_up.ask(**(request | {"speculative.type": "ngram-simple", "speculative.adaptive": adaptive}))
    assert told["speculation"]["effective"]["types"] == ["ngram-simple"]
    assert (told["speculation"]["drafted"], told["speculation"]["reason"]) == (0, "nothing to look up")


def test_an_answer_that_is_too_short_for_drafts_says_so(drafting: Client) -> None:
    told = drafting.ask(prompt=PROMPT, n_predict=1)["speculation"]
    assert (told["drafted"], told["reason"]) == (0, "too short to be drafted for")


@pytest.mark.parametrize("off", [{}, {"speculative": False}, {"speculative.type": "none"}], ids=str)
@pytest.mark.parametrize(
    ("name", "value"), [("p_min", 7), ("p_min", -0.5), ("n_min", -1), ("n_max", -1), ("rule", "nonsense")]
)
def test_a_value_out_of_range_is_refused_even_if_nobody_reads_it(
    plain: Client, name: str, value: Any, off: dict[str, Any]
) -> None:
    assert name in plain.refused(prompt=PROMPT, n_predict=2, **{f"speculative.{name}": value}, **off)
    if not off:
        assert name in plain.refused(prompt=PROMPT, n_predict=2, speculative={name: value})


def test_what_is_known_is_told_to_who_asks_for_something_else(plain: Client) -> None:
    said = plain.refused(prompt=PROMPT, speculative={"rule": "nonsense"})
    assert "auto, rejection, match, greedy" in said
    for wrong in ("yes", 5, ["draft-simple"]):
        assert (
            plain.refused(prompt=PROMPT, speculative=wrong) == "Field 'speculative' must be true, false or an object."
        )
    assert "'speculative.n_max': " in plain.refused(prompt=PROMPT, speculative={"n_max": "x"})
