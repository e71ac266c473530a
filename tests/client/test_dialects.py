"""Each dialect on recorded or documented bodies (tests/data/<server>/answers.json says which): recognised, asked, read."""

from __future__ import annotations

import json
import math
import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.client.recorded import exchange
from tests.client.test_damaged import damage

from draftproof.client.dialect import Dialect, Survey
from draftproof.client.dialects import DIALECTS
from draftproof.client.dialects.sglang import SGLang
from draftproof.client.facts import recognise
from draftproof.client.openai_wire import CHAT, COMPLETIONS
from draftproof.core.ask import Ask, Completion
from draftproof.core.errors import InstrumentError, TargetError
from draftproof.core.sampling import GREEDY, Sampling
from draftproof.core.tokens import Alternative

DATA = Path(__file__).parents[1] / "data"


@dataclass(frozen=True)
class Kind:
    """`route` is that of the file's answers. `counts` are (drafted, accepted) of its answer under speculation."""

    name: str
    folder: str
    route: str
    counts: tuple[int | None, int | None] = (None, None)

    @property
    def told(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((DATA / self.folder / "answers.json").read_text())
        return loaded

    @property
    def survey(self) -> Survey:
        return Survey({path: exchange(body, path) for path, body in self.told["survey"].items()})

    @property
    def dialect(self) -> Dialect:
        (found,) = (d for d in DIALECTS if d.name == self.name)
        return found.adapted(self.survey)

    def parsed(self, which: str, **asked: Any) -> Completion:
        ask = Ask("x", 2, **{"alternatives": 2, "route": self.route, **asked})
        path = "/generate_stream" if self.name == "tgi" and ask.stream else self.route
        (answer,) = self.dialect.parse(ask, exchange(self.told[which], path))
        return answer

    def body(self, ask: Ask, route: str = "") -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.dialect.call(ask, route or self.route).body)
        return parsed


KINDS = {
    kind.name: kind
    for kind in (
        Kind("vllm", "vllm-0.32.0", COMPLETIONS, (8, 0)),
        Kind("sglang", "sglang-0.5.23", "/generate", (3, 1)),
        Kind("tgi", "tgi-3.3", "/generate"),
        Kind("tabby", "tabby-api-2025", COMPLETIONS),
        Kind("lm_studio", "lm-studio-0.3.10", "/api/v0/completions", (3, 1)),
        Kind("ollama", "ollama-0.12.11", "/api/generate"),
        Kind("llama_cpp_python", "llama-cpp-python-0.3.36", COMPLETIONS),
        Kind("openai", "openai-2025", CHAT),
    )
}
every = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


def test_every_dialect_has_its_bodies() -> None:
    assert {d.name for d in DIALECTS} == {*KINDS, "llama_server"}
    assert all(kind.told["note"] for kind in KINDS.values())


@every
def test_a_server_is_recognised_as_its_own_kind_and_by_no_closer_one(kind: Kind) -> None:
    found, evidence = recognise("http://x", kind.survey)
    assert (found.name, bool(evidence)) == (kind.name, True)


SAID: dict[str, tuple[str | None, str | None, int | None, int | None]] = {
    "vllm": ("0.32.0", "tiny", 1024, None),
    "sglang": ("0.5.23", "m/llama", 4096, 32),
    "tgi": ("3.3.6", "m/llama", 4096, 128),
    "tabby": (None, "llama", 4096, 8),
    "lm_studio": (None, "qwen2.5-7b qwen2 4bit", 4096, None),
    "ollama": ("0.12.11", "llama3.2:latest 3.2B Q4_K_M", 4096, None),
    "llama_cpp_python": (None, "countable", None, None),
    "openai": (None, "gpt", None, None),
}
REPORTS: dict[str, dict[str, object]] = {
    "sglang": {
        "/server_info speculative_algorithm": "EAGLE",
        "/server_info speculative_num_steps": 3,
        "/server_info speculative_num_draft_tokens": 4,
        '/metrics sglang:spec_accept_length{model_name="m/llama"}': 2.4,
    },
    "tgi": {"/metrics tgi_request_skipped_tokens_sum": 14.0},
    "tabby": {"/v1/model speculative.drafter": "llama-small"},
}


@every
def test_it_is_described_by_what_it_says(kind: Kind) -> None:
    said = kind.dialect.describe(kind.survey)
    assert (said.build, said.model, said.context, said.slots) == SAID[kind.name]
    reports = dict(said.self_reports)
    if kind.name == "vllm":
        assert reports.pop('/metrics vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="tiny"}') == 4
        assert not [name for name in reports if "_created" in name]
    else:
        assert reports == REPORTS.get(kind.name, {})


def test_no_drafter_is_said_as_none() -> None:
    kind = KINDS["sglang"]
    off = Survey({**kind.survey.answers, "/server_info": exchange({"speculative_algorithm": None}, "/server_info")})
    assert dict(kind.dialect.describe(off).self_reports)["/server_info speculative_algorithm"] == "none"
    alone = {"id": "m", "owned_by": "tabbyAPI", "parameters": {"draft": None}}
    plain = Survey({"/v1/model": exchange(alone, "/v1/model")})
    assert KINDS["tabby"].dialect.describe(plain).self_reports == (("/v1/model speculative.drafter", "none"),)


PARIS = (" Paris", Alternative(None, " Paris", -0.73), Alternative(None, " (", -2.73))
WITH_IDS = {"sglang", "tgi"}
RECORDED = {"vllm", "llama_cpp_python"}


@every
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_with_logprobs_whole_and_streamed(kind: Kind, stream: bool) -> None:
    answer = kind.parsed("stream" if stream else "plain", stream=stream)
    assert answer.ok
    if kind.name in RECORDED:
        assert answer.tokens
        assert all(t.logprob is not None and t.alternatives for t in answer.tokens)
        assert answer.text == "".join(t.text for t in answer.tokens)
        return
    first, second = answer.tokens
    assert (answer.text, answer.finish, answer.completion_tokens) == (" Paris.", "length", 2)
    assert (first.text, first.logprob, second.text, second.logprob) == (" Paris", -0.73, ".", -0.97)
    listed = [(a.text, a.logprob) for a in first.alternatives or ()]
    assert listed == [(" Paris", -0.73), (" (", -2.73)]
    ids = [a.id for a in first.alternatives or ()]
    assert ids == ([12095, 2130] if kind.name in WITH_IDS else [None, None])
    assert answer.token_ids == ((12095, 13) if kind.name in WITH_IDS else None)
    assert answer.event_tokens == ((1, 1) if stream else ())


@every
def test_without_logprobs_there_are_no_tokens(kind: Kind) -> None:
    told = json.dumps(kind.told["plain"])
    bare = json.loads(told.replace('"output_top_logprobs"', '"x"').replace('"output_token_logprobs"', '"y"'))
    for choice in bare.get("choices", [bare]):
        choice["logprobs"] = None
    ask = Ask("x", 2, route=kind.route)
    (answer,) = kind.dialect.parse(ask, exchange(bare, kind.route))
    assert answer.tokens == ()
    assert answer.text


@pytest.mark.parametrize("kind", [k for k in KINDS.values() if k.counts[0] is not None], ids=lambda k: k.name)
def test_drafts_are_counted_where_the_answer_counts_them(kind: Kind) -> None:
    assert kind.dialect.reports_drafts or kind.name == "vllm"
    drafted = kind.parsed("drafted")
    assert (drafted.drafted, drafted.accepted) == kind.counts
    streamed = kind.parsed("stream", stream=True)
    assert streamed.drafted is not None
    assert kind.name == "vllm" or kind.parsed("plain").drafted is None


def test_a_list_that_speculation_left_out_is_absent_not_empty() -> None:
    tokens = KINDS["sglang"].parsed("drafted").tokens
    assert tokens[0].alternatives
    assert tokens[1].alternatives is None
    assert KINDS["tgi"].parsed("drafted").tokens[1].alternatives == ()


@every
def test_a_refusal_is_told_in_the_servers_words(kind: Kind) -> None:
    refused = kind.told["refused"]
    ask = Ask("x", 2, alternatives=2, route=kind.route)
    (answer,) = kind.dialect.parse(ask, exchange(refused["body"], kind.route, status=refused["status"]))
    assert answer.error is not None
    assert answer.error.startswith(f"HTTP {refused['status']}: ")
    assert len(answer.error) > 20


@every
def test_a_body_of_another_dialect_is_refused_by_the_field_that_is_not_there(kind: Kind) -> None:
    ask = Ask("x", 2, alternatives=2, route=kind.route)
    for other in KINDS.values():
        if _shape(other) != _shape(kind):
            with pytest.raises(TargetError, match=r"field '[a-z_.]+' should be"):
                kind.dialect.parse(ask, exchange(other.told["plain"], kind.route))


def _shape(kind: Kind) -> str:
    return kind.name if kind.name in {"sglang", "tgi", "ollama"} else "openai"


@every
def test_a_stream_that_breaks_off_is_no_answer(kind: Kind) -> None:
    whole = kind.told["stream"]
    ask = Ask("x", 2, alternatives=2, route=kind.route, stream=True)
    path = "/generate_stream" if kind.name == "tgi" else kind.route
    with pytest.raises(TargetError, match="ended before the answer did"):
        kind.dialect.parse(ask, exchange(whole[: whole.rindex("{") - 8][: len(whole) // 3], path))


@every
@pytest.mark.parametrize("which", ["plain", "stream"])
def test_one_damaged_value_gives_an_answer_or_an_error_of_the_server(kind: Kind, which: str) -> None:
    chance = random.Random(kind.name + which)
    ask = Ask("x", 2, alternatives=2, route=kind.route, stream=which == "stream")
    path = "/generate_stream" if kind.name == "tgi" and ask.stream else kind.route
    for _ in range(150):
        if ask.stream:
            lines = kind.told[which].split("\n")
            places = [i for i, line in enumerate(lines) if "{" in line]
            i = chance.choice(places)
            head = "data: " if lines[i].startswith("data: ") else ""
            lines[i] = head + json.dumps(damage(json.loads(lines[i].removeprefix("data: ")), chance))
            text = "\n".join(lines)
        else:
            text = json.dumps(damage(kind.told[which], chance))
        with suppress(TargetError):
            (answer,) = kind.dialect.parse(ask, exchange(text, path))
            json.dumps(answer.claims, allow_nan=False)
            assert all(t.logprob is None or isinstance(t.logprob, float) for t in answer.tokens)


@every
def test_every_route_is_asked_for_a_seed_a_stop_and_a_budget(kind: Kind) -> None:
    for route in kind.dialect.routes:
        sent = json.dumps(kind.body(Ask("hi", 7, alternatives=3, seed=5, stop=("end",)), route))
        assert "hi" in sent
        assert '"end"' in sent
        assert ": 7" in sent
        assert ": 5" in sent


def test_prompts_logprobs_of_vllm() -> None:
    answer = KINDS["vllm"].parsed("prompt", echo=True)
    assert [t.text for t in answer.prompt] == ["", ",", " "]
    assert [t.logprob for t in answer.prompt] == [None, -5.227300643920898, -2.7977447509765625]
    assert [(a.id, a.text) for a in answer.prompt[1].alternatives or ()] == [(None, "/"), (None, ",")]
    assert [t.text for t in answer.tokens] == ["X"]
    (named,) = KINDS["vllm"].dialect.parse(
        Ask("a, ", 1, 1, echo=True), exchange(KINDS["vllm"].told["prompt"], COMPLETIONS)
    )
    assert "".join(t.text for t in named.prompt) == "a, "
    sent = KINDS["vllm"].body(Ask("a, ", 1, 1, echo=True))
    assert (sent["prompt_logprobs"], sent["return_token_ids"], "echo" in sent) == (1, True, False)


@pytest.mark.parametrize("name", ["sglang", "tgi"])
def test_prompts_logprobs_of_native_routes(name: str) -> None:
    answer = KINDS[name].parsed("prompt", echo=True)
    assert [(t.id, t.text, t.logprob) for t in answer.prompt] == [
        (6722, "capital", None),
        (315, " of", -0.58),
        (9625, " France", -3.53),
    ]
    assert [t.text for t in answer.tokens] == [" Paris"]
    sent = KINDS[name].body(Ask("x", 1, 2, echo=True))
    assert sent["logprob_start_len"] == 0 if name == "sglang" else sent["parameters"]["decoder_input_details"]


def test_vllm_lists_the_chosen_token_first_and_it_is_put_in_its_place() -> None:
    tokens = KINDS["vllm"].parsed("drafted").tokens
    for token in tokens:
        values = [a.logprob for a in token.alternatives or () if a.logprob is not None]
        assert values == sorted(values, reverse=True)
    assert any((t.alternatives or ())[-1].text == t.text for t in tokens)


def test_ids_of_vllm_are_told_where_no_entries_are_told_by_text() -> None:
    kind = KINDS["vllm"]
    assert kind.parsed("plain").token_ids is None
    told = kind.told["plain"]
    told["choices"][0]["logprobs"] = None
    (answer,) = kind.dialect.parse(Ask("x", 12, route=kind.route), exchange(told, kind.route))
    assert answer.token_ids is not None
    assert len(answer.token_ids) == answer.completion_tokens


def test_events_of_sglang_may_hold_only_what_is_new() -> None:
    kind = KINDS["sglang"]
    ask = Ask("x", 2, alternatives=2, route=kind.route, stream=True)
    for dialect in (kind.dialect, SGLang(deltas=True)):
        (answer,) = dialect.parse(ask, exchange(kind.told["deltas"], kind.route))
        assert (answer.text, answer.token_ids, answer.event_tokens) == (" Paris.", (12095, 13), (1, 1))
        assert (answer.drafted, answer.accepted) == (3, 1)


def test_batches_of_sglang_have_a_seed_each() -> None:
    kind = KINDS["sglang"]
    sent = kind.body(Ask((1, 2), 4, seed=7, count=3, sampling=Sampling(top_k=5, logit_bias=((3, -math.inf),))))
    assert sent["input_ids"] == [[1, 2]] * 3
    assert [p["sampling_seed"] for p in sent["sampling_params"]] == [7, 8, 9]
    assert (sent["sampling_params"][0]["top_k"], sent["sampling_params"][0]["logit_bias"]) == (5, {"3": -100.0})
    also = kind.body(Ask("a", 4, seed=7, also=("b",)))
    assert (also["text"], [p["sampling_seed"] for p in also["sampling_params"]]) == (["a", "b"], [7, 7])
    told = [kind.told["plain"], kind.told["drafted"]]
    answers = kind.dialect.parse(Ask("a", 2, 2, also=("b",), route=kind.route), exchange(told, kind.route))
    assert [a.ask.prompt for a in answers] == ["a", "b"]


def test_tgi_is_not_sent_what_it_refuses() -> None:
    kind = KINDS["tgi"]
    greedy = kind.body(Ask("x", 1, sampling=GREEDY))["parameters"]
    assert not greedy["do_sample"]
    assert not {"temperature", "top_p", "top_k"} & greedy.keys()
    warm = kind.body(Ask("x", 1, sampling=Sampling(temperature=2.0, top_k=3, top_p=0.5)))["parameters"]
    assert (warm["temperature"], warm["top_k"], warm["top_p"], warm["do_sample"]) == (2.0, 3, 0.5, True)
    assert kind.dialect.call(Ask("x", 1, stream=True), kind.route).path == "/generate_stream"


def test_ollama_is_asked_raw_with_every_option() -> None:
    sent = KINDS["ollama"].body(Ask("x", 3, 4, seed=1, stop=("a",), extra=(("stop", "b"),)))
    assert (sent["raw"], sent["model"], sent["logprobs"], sent["top_logprobs"]) == (True, "llama3.2:latest", True, 4)
    assert sent["options"]["stop"] == ["a", "b"]
    assert {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0}.items() <= sent["options"].items()


def test_a_last_line_without_its_break_is_a_line() -> None:
    kind = KINDS["ollama"]
    text = kind.told["stream"].rstrip("\n")
    ask = Ask("x", 2, alternatives=2, route=kind.route, stream=True)
    assert kind.dialect.parse(ask, exchange(text, kind.route))[0].text == " Paris."


def test_names_of_samplers() -> None:
    neutral = Ask("x", 1)
    assert KINDS["llama_cpp_python"].body(neutral).items() >= {"top_k": 0, "repeat_penalty": 1.0, "min_p": 0.0}.items()
    assert KINDS["tabby"].body(neutral).items() >= {"top_k": 0, "repetition_penalty": 1.0}.items()
    assert KINDS["vllm"].body(neutral).items() >= {"top_k": -1, "repetition_penalty": 1.0}.items()
    assert KINDS["tabby"].body(Ask("x", 1, sampling=Sampling(repeat_penalty=1.2)))["penalty_range"] == 64


@pytest.mark.parametrize("name", ["tgi", "ollama"])
def test_token_ids_and_several_prompts_have_no_place_there(name: str) -> None:
    for ask in (Ask((1, 2), 1), Ask("a", 1, also=("b",))):
        with pytest.raises(InstrumentError, match="takes one text"):
            KINDS[name].dialect.call(ask, KINDS[name].route)


def test_hidden_reasoning_leaves_the_number_of_tokens_untold() -> None:
    answer = KINDS["openai"].parsed("hidden", alternatives=0)
    assert (answer.text, answer.completion_tokens, answer.prompt_tokens) == (" Paris.", None, 5)
    assert KINDS["openai"].parsed("plain").completion_tokens == 2


def test_hosted_reasoning_models_want_another_name_for_the_budget() -> None:
    dialect: Dialect | None = KINDS["openai"].dialect
    sent = []
    while dialect is not None:
        sent.append(json.loads(dialect.call(Ask("x", 3), CHAT).body))
        dialect = dialect.plainer()
    assert [("top_k" in s, "max_tokens" in s, s.get("max_completion_tokens")) for s in sent] == [
        (True, True, None),
        (False, True, None),
        (False, False, 3),
    ]
