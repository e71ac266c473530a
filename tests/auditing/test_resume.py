"""Audits that go on from the evidence of an earlier one, on a small server that counts what it is asked."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.client.weather import Connection, Request, Spoil, Weather, native_answer

from draftproof.auditing import AuditConfig, Budget, Report, all_checks, audit
from draftproof.auditing.rejudge import rejudge
from draftproof.core.errors import DraftproofError, UsageError
from draftproof.core.probe import Effort
from draftproof.core.verdict import Verdict

CHECKS = ("logprobs/well_formed", "sampling/greedy_parity", "stopping/budget")


def audited(server: Weather, out: Path, **changes: Any) -> Report:
    return audit(AuditConfig(server.url, **{"checks": CHECKS, "seed": None, "out": out, **changes}))


def verdicts(report: Report) -> dict[str, Verdict]:
    return {o.check: o.judgement.verdict for o in report.outcomes}


def bodies(server: Weather) -> Counter[bytes]:
    return Counter(r.body for r in server.requests if r.generates)


def test_an_audit_that_ran_out_of_budget_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with Weather() as server:
        whole = audited(server, tmp_path / "whole.jsonl.gz", seed=5)
        everything = bodies(server)
        server.requests.clear()
        first = audited(server, tmp_path / "first.jsonl.gz", seed=5, budget=Budget(requests=50))
        assert first.stopped
        half = bodies(server)
        server.requests.clear()
        second = audited(server, tmp_path / "second.jsonl.gz", resume=tmp_path / "first.jsonl.gz")
        rest = bodies(server)
    assert verdicts(second) == verdicts(whole)
    assert 0 < second.requests < whole.requests - 15
    # Beside what shows that it is the same server, only what was not asked before.
    facts = sum((half & rest).values())
    assert facts <= 25
    assert sum(((half | rest) & everything).values()) >= sum(everything.values()) - 2
    assert rejudge(tmp_path / "second.jsonl.gz", all_checks()).differences == ()


def drawing_anew() -> Spoil:
    """Requests without a seed get different answers."""
    fresh = itertools.count(10**6)

    def spoil(request: Request, connection: Connection) -> bool:
        unseeded = request.path == "/completion" and request.json["seed"] == -1 and "n_cmpl" not in request.json
        if unseeded:
            connection.answer(200, json.dumps(native_answer(request.json | {"seed": next(fresh)})))
        return unseeded

    return spoil


def test_more_effort_pools_the_samples_of_both_and_spends_half_of_alpha(tmp_path: Path) -> None:
    with Weather(drawing_anew()) as server:
        first = audited(server, tmp_path / "1.gz", seed=5, checks=("randomness/seeds",))
        second = audited(server, tmp_path / "2.gz", checks=(), resume=tmp_path / "1.gz", effort=Effort.STANDARD)
        third = audited(server, tmp_path / "3.gz", checks=(), resume=tmp_path / "2.gz", effort=Effort.STANDARD)
    seen = [r.outcomes[0].judgement.measured["different answers to different seeds"] for r in (first, second, third)]
    assert seen == ["24 of 24", "64 of 64", "64 of 64"]
    batches = {body: n for body, n in bodies(server).items() if b'"n_predict":16' in body and b'"n_cmpl"' in body}
    assert set(batches.values()) == {1}
    assert [o.check for o in second.outcomes] == ["randomness/seeds"]
    assert second.config.seed == 5
    assert second.outcomes[0].terms.alpha == first.outcomes[0].terms.alpha / 2
    if second.outcomes[0].judgement.verdict is Verdict.PASS:
        assert third.outcomes[0].requests == 0


def spoiled_props(**changes: Any) -> Spoil:
    def spoil(request: Request, connection: Connection) -> bool:
        if request.path != "/props":
            return False
        settings = {"n_ctx": 512, "params": {"speculative.types": "none"}} | changes
        connection.answer(200, json.dumps({"default_generation_settings": settings, "total_slots": 4}))
        return True

    return spoil


def another_law(request: Request, connection: Connection) -> bool:
    if request.path != "/completion" or request.json.get("stream"):
        return False
    answers = [native_answer(request.json, i) for i in range(request.json.get("n_cmpl", 1))]
    for answer in answers:
        for entry in answer.get("completion_probabilities", ()):
            for n, listed in enumerate(entry["top_logprobs"]):
                listed["logprob"] = -0.5 - 0.9 * n
    connection.answer(200, json.dumps(answers if len(answers) > 1 else answers[0]))
    return True


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (spoiled_props(n_ctx=1024), "context was 512, is 1024"),
        (spoiled_props(params={"speculative.types": "draft"}), "said 'none', says 'draft'"),
        (another_law, "has other laws than in .*first.jsonl.gz: the same one-token request differs by"),
    ],
)
def test_another_server_is_refused_with_what_differs(other: Spoil, words: str, tmp_path: Path) -> None:
    with Weather() as server:
        audited(server, tmp_path / "first.jsonl.gz", seed=5)
    with Weather(other) as server, pytest.raises(UsageError, match=words):
        audited(server, tmp_path / "second.jsonl.gz", resume=tmp_path / "first.jsonl.gz")
    assert not (tmp_path / "second.jsonl.gz").exists()


def test_the_same_server_at_another_address_is_the_same(tmp_path: Path) -> None:
    with Weather() as server:
        audited(server, tmp_path / "first.jsonl.gz", seed=5)
    with Weather() as server:
        report = audited(server, tmp_path / "second.jsonl.gz", resume=tmp_path / "first.jsonl.gz")
    assert report.facts.url == server.url


def test_what_cannot_go_together_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "first.jsonl.gz"
    with Weather() as server:
        audited(server, path, seed=5)
        with pytest.raises(UsageError, match="is the one to resume from"):
            audited(server, path, resume=path)
        with pytest.raises(UsageError, match="had the seed 5"):
            audited(server, tmp_path / "x.gz", resume=path, seed=6)
    nothing = tmp_path / "nothing.jsonl"
    nothing.write_text("")
    with pytest.raises(DraftproofError, match="no evidence file"):
        audited(server, tmp_path / "x.gz", resume=nothing)
