"""The client against a real llama-server with a countable pair."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from draftproof.client.coupling import predict, predict_sorted
from draftproof.client.evidence import MemorySink
from draftproof.client.facts import connect
from draftproof.client.probe import LiveProbe
from draftproof.core.ask import Ask
from draftproof.core.distribution import Law
from draftproof.core.mt19937 import MT19937, draws_of
from draftproof.core.sampling import Sampling
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel

pytestmark = pytest.mark.real
pytest.importorskip("xllamacpp")

PAIR = Path(__file__).parent.parent / "data" / "countable-independent"
LAW = json.loads((PAIR / "law.json").read_text())
PROMPT = tuple("abcdefgh".index(c) for c in LAW["prompt"])
FIRST = np.array(LAW["target"]["first"])
SECOND = np.array([LAW["target"]["second_given_first"][c] for c in "abcdefgh"])
MODES = {"plain": {}, "draft-simple": {}, "probabilistic": {"speculative.draft.probabilistic": True}}


@contextmanager
def serving(mode: str = "plain", seed: int = 1) -> Iterator[LiveProbe]:
    drafting = mode != "plain"
    wheel = LlamaWheel(
        PAIR / "target.gguf",
        draft=PAIR / "draft.gguf" if drafting else None,
        types=["draft-simple"] if drafting else (),
        options={**EXACT_NUMBERS, **MODES[mode]},
    )
    with wheel as server, connect(server.url, seed=seed) as probe:
        yield probe


@pytest.mark.parametrize("mode", MODES)
def test_all_that_llama_server_can_do_is_found_out(mode: str) -> None:
    with serving(mode) as probe:
        facts = probe.facts
        assert facts.dialect == "llama_server"
        assert facts.routes == ("/completion", "/v1/completions", "/v1/chat/completions")
        assert (facts.vocabulary, facts.slots, facts.max_alternatives, facts.batch_seeds) == (8, 8, 8, 8)
        assert facts.token_prompts
        assert facts.token_ids
        assert facts.seeds
        assert facts.grammar
        assert facts.coupling == MT19937
        assert dict(facts.self_reports)["/slots speculative"] is (mode != "plain")
        assert dict(facts.self_reports)["/props speculative.types"] == "none"
        assert probe.requests < 45


@pytest.mark.parametrize("mode", MODES)
def test_the_oracle_tells_the_exact_law_whether_or_not_the_server_speculates(mode: str) -> None:
    with serving(mode) as probe:
        rows = probe.oracle_many([PROMPT, *((*PROMPT, token) for token in range(8))])
        for row, law in zip(rows, [FIRST, *SECOND], strict=True):
            assert row.complete
            assert np.exp(row.logprobs) == pytest.approx(law[list(row.ids)], abs=1e-5)
        assert probe.noise([PROMPT, (*PROMPT, 3, 4, 5, 6)]) < 1e-5


def coupled(probe: LiveProbe, sampling: Sampling, n: int) -> tuple[float, float]:
    """Shares of the first and of the second tokens of n answers that their seeds select from the exact law."""
    seeds = probe.seeds(n)
    answers = list(probe.ask_many([Ask(PROMPT, 6, seed=seeds.start, sampling=sampling, count=n)]))
    ids = np.array([a.token_ids for a in answers])
    u = draws_of(seeds, 2)
    by = predict_sorted if sampling.top_k else predict
    laws: list[Law] = [FIRST, SECOND[ids[:, 0]]]
    share = []
    for i, law in enumerate(laws):
        found = by(law, u[:, i])
        decided = found.edges > 1e-5
        share.append(float((found.tokens == ids[:, i])[decided].mean()))
    return share[0], share[1]


@pytest.mark.parametrize("mode", ["plain", "draft-simple"])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_k=8)])
def test_every_token_is_the_one_that_its_seed_selects(mode: str, sampling: Sampling) -> None:
    with serving(mode) as probe:
        assert coupled(probe, sampling, 400) == (1.0, 1.0)


def test_rejection_sampling_uses_its_random_numbers_otherwise_after_the_first_token() -> None:
    with serving("probabilistic") as probe:
        first, second = coupled(probe, Sampling(), 400)
    assert first == 1.0
    assert second < 0.6


@pytest.mark.parametrize("route", ["/completion", "/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [False, True])
def test_every_route_says_the_same_streamed_or_not(route: str, stream: bool) -> None:
    with serving("draft-simple") as probe:
        plain = probe.ask(Ask("bcdbc", 12, alternatives=3, seed=5))
        answer = probe.ask(Ask("bcdbc", 12, alternatives=3, seed=5, route=route, stream=stream))
        assert answer.error is None
        assert (answer.text, answer.finish, answer.completion_tokens) == (plain.text, "length", 12)
        assert [t.text for t in answer.tokens] == list(plain.text)
        assert (answer.drafted or 0) > 0
        absent = [t.alternatives is None if stream else t.alternatives == () for t in answer.tokens]
        assert absent[0] is False
        assert sum(absent) >= 8
        assert bool(answer.arrivals) is stream


def test_streams_one_after_the_other_each_take_one_attempt() -> None:
    sink = MemorySink()
    with LlamaWheel(PAIR / "target.gguf") as server, connect(server.url, sink=sink) as probe:
        for seed in probe.seeds(5):
            probe.ask(Ask("bcdbc", 3, seed=seed, stream=True))
            probe.ask(Ask("bcdbc", 3, seed=seed))
    assert {len(e.attempts) for e in sink.exchanges} == {1}


def test_a_server_that_is_killed_and_started_again_is_waited_for() -> None:
    with LlamaWheel(PAIR / "target.gguf") as first, connect(first.url) as probe:
        port = int(first.url.rpartition(":")[2])
        seeds = probe.seeds(600)
        expected = [a.text for a in probe.ask_many([Ask(PROMPT, 4, seed=seeds.start, count=600)])]
        first.stop()
        second = LlamaWheel(PAIR / "target.gguf", options={"port": port})
        threading.Timer(0.3, second.start).start()
        again = [a.text for a in probe.ask_many(Ask(PROMPT, 4, seed=s) for s in seeds)]
        second.stop()
    assert again == expected
