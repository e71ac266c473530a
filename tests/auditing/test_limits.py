"""Servers that cannot be asked much: what each lack costs is said, and none of them makes a fault."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.client.weather import Connection, Request, Spoil, Weather, busy, few_alternatives, native_answer
from tests.fakes import FACTS, SOUND, URL, FakeTarget

from draftproof.auditing import AuditConfig, Report, all_checks, audit
from draftproof.auditing.limits import limits
from draftproof.auditing.outcome import SOUND as EXIT_SOUND
from draftproof.auditing.outcome import UNCERTAIN
from draftproof.auditing.rejudge import rejudge
from draftproof.client.http import Http
from draftproof.client.patience import Limits
from draftproof.client.watch import Observed
from draftproof.core.errors import BudgetSpent
from draftproof.core.probe import Effort
from draftproof.core.verdict import Verdict

CHECKS = ("logprobs/placeholder", "stopping/budget", "self_report/speculation_reported")


def audited(spoil: Spoil, tmp_path: Path) -> Report:
    with Weather(spoil) as server:
        return audit(AuditConfig(server.url, checks=CHECKS, seed=1, out=tmp_path / "evidence.jsonl.gz"))


def told(report: Report) -> list[str]:
    return [limit.what for limit in report.limits]


def streams_only(request: Request, connection: Connection) -> bool:
    refuse = request.generates and not request.json.get("stream")
    if refuse:
        connection.answer(400, '{"error": {"message": "only stream=true is served here"}}')
    return refuse


def no_token_ids(request: Request, connection: Connection) -> bool:
    if request.path == "/tokenize":
        connection.answer(404, '{"error": {"message": "File Not Found"}}')
    return request.path == "/tokenize"


def no_seeds(request: Request, connection: Connection) -> bool:
    if request.path != "/completion" or request.json.get("stream") or request.json.get("n_cmpl", 1) > 1:
        return False
    connection.answer(200, json.dumps(native_answer(request.json | {"seed": random.Random().randrange(1 << 30)})))
    return True


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (busy(7), "the server limits the rate of requests: 7 waits, 2 s in all"),
        (few_alternatives(5), "at most 5 alternatives per token"),
        (streams_only, "answers come as streams only"),
        (no_token_ids, "prompts cannot be given as token ids"),
        (no_seeds, "a seed does not give its text again"),
    ],
    ids=["rate", "alternatives", "streams", "ids", "seeds"],
)
def test_what_is_missing_is_said_and_is_no_fault(spoil: Spoil, what: str, tmp_path: Path) -> None:
    report = audited(spoil, tmp_path)
    assert any(limit.startswith(what) for limit in told(report)), told(report)
    assert all(limit.effect for limit in report.limits)
    assert Verdict.FAIL not in {o.judgement.verdict for o in report.outcomes}
    assert rejudge(tmp_path / "evidence.jsonl.gz", all_checks()).report.limits == report.limits


def test_a_server_that_can_be_asked_everything_has_no_limits() -> None:
    assert limits(FACTS, Observed(), Effort.QUICK) == ()


def test_what_cannot_be_replayed_costs_samples_as_the_effort_wants() -> None:
    facts = replace(FACTS, coupling="", hidden_tokens=True)
    hidden, counts = limits(facts, Observed(), Effort.STANDARD)
    assert "cannot be re-scored" in hidden.effect
    assert "about 3,600 for a total variation of 0.05" in counts.effect


def test_a_load_balancer_over_two_builds_is_named_and_nothing_passes(tmp_path: Path) -> None:
    turn = itertools.count()

    def two_builds(request: Request, connection: Connection) -> bool:
        if request.path == "/props":
            settings = {"n_ctx": 512, "params": {"speculative.types": "none"}}
            props = {"default_generation_settings": settings, "total_slots": 4, "build_info": f"b{next(turn) % 2}"}
            connection.answer(200, json.dumps(props))
        return request.path == "/props"

    report = audited(two_builds, tmp_path)
    assert "this is more than one server" in told(report)[0]
    assert "build by /props=b0; build by /props=b1" in told(report)[0]
    assert report.verdict is not Verdict.PASS
    assert report.exit_code == UNCERTAIN


def test_two_laws_by_turns_are_two_servers(tmp_path: Path) -> None:
    turn = random.Random(3)

    def two_models(request: Request, connection: Connection) -> bool:
        if request.path != "/completion" or request.json.get("stream") or request.json.get("n_cmpl", 1) > 1:
            return False
        answer = native_answer(request.json)
        shift = 0.3 * turn.randrange(2)
        for entry in answer.get("completion_probabilities", ()):
            for listed in (entry, *entry["top_logprobs"]):
                listed["logprob"] -= shift
        connection.answer(200, json.dumps(answer))
        return True

    with Weather(two_models) as server:
        checks = ("sampling/greedy_parity",)
        report = audit(AuditConfig(server.url, checks=checks, seed=1, out=tmp_path / "evidence.jsonl.gz"))
    assert "one of two, 0.3 nat apart" in told(report)[0]


def test_a_mixed_report_is_not_sound_though_all_checks_pass() -> None:
    config = AuditConfig(URL)
    assert audit(config, checks=[SOUND], open_target=FakeTarget().open).exit_code == EXIT_SOUND
    seen = Observed(identities=("model=a", "model=b"))
    assert audit(config, checks=[SOUND], open_target=FakeTarget(seen=seen).open).exit_code == UNCERTAIN


def test_waiting_for_a_server_has_an_end() -> None:
    with (
        Weather(busy(9, retry_after="1")) as server,
        Http(server.url, limits=Limits(waiting_s=0.5)) as http,
        pytest.raises(BudgetSpent, match="limits the rate of requests"),
    ):
        http.post("/completion", b'{"seed": 1}')
    assert len(server.requests) == 1
