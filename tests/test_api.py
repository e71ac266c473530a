"""Audits from Python: what the options mean, and how an audit in an event loop ends."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.client.weather import Connection, Request, Weather
from tests.fakes import URL

import draftproof.auditing
from draftproof import api
from draftproof.api import AuditOptions, audit, audit_async
from draftproof.auditing import AuditConfig, Budget, Event, Expectation
from draftproof.auditing.events import CheckFinished, FactsGathered
from draftproof.client.evidence import read_records
from draftproof.core.errors import Unreachable, UsageError
from draftproof.core.probe import Effort
from draftproof.core.verdict import Verdict
from draftproof.testing import assert_sound

CHECK = "stopping/budget"


def configured(monkeypatch: pytest.MonkeyPatch, **options: Any) -> AuditConfig:
    """What `audit` makes of its options."""
    made: list[AuditConfig] = []
    monkeypatch.setattr(api, "run", lambda config, **_: made.append(config))
    audit(URL, **options)
    return made[0]


def test_both_forms_take_the_same_options() -> None:
    taken = [n for n, p in inspect.signature(audit).parameters.items() if p.kind is p.KEYWORD_ONLY]
    assert taken == list(AuditOptions.__annotations__)


def test_options_not_given_are_those_of_an_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configured(monkeypatch) == api._config(URL) == AuditConfig(URL)


def test_options_may_be_plain_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = configured(
        monkeypatch,
        effort="deep",
        checks="logprobs, sampling/*",
        budget="requests=5",
        expect_speculation="yes",
        law=str(tmp_path),
        out="evidence.jsonl",
    )
    assert (made.effort, made.checks) == (Effort.DEEP, ("logprobs", "sampling/*"))
    assert (made.budget, made.expect_speculation) == (Budget(requests=5), Expectation.YES)
    assert (made.law, made.out) == (tmp_path, Path("evidence.jsonl"))
    assert configured(monkeypatch, checks=["logprobs", "seeds"]).checks == ("logprobs", "seeds")


def test_options_that_cannot_be_are_named() -> None:
    with pytest.raises(UsageError, match="effort must be one of quick, standard, deep, not 'thorough'"):
        audit(URL, effort="thorough")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="expect_speculation must be one of yes, no, unknown"):
        audit(URL, expect_speculation="maybe")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="No check is called 'logprobs/placeholders'"):
        audit(URL, checks="logprobs/placeholders")
    with pytest.raises(UsageError, match=r"budget: 'lots' is not understood\. Write it as budget="):
        audit(URL, budget="lots")


def test_nobody_listening_leaves_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unreachable):
        audit(URL)
    with pytest.raises(Unreachable):
        asyncio.run(audit_async(URL))
    (tmp_path / "before.jsonl").write_text("evidence\n")
    with pytest.raises(Unreachable):
        asyncio.run(audit_async(URL, out="before.jsonl"))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("before.jsonl", "evidence\n")]


def test_nobody_listening_is_told_before_the_checks_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draftproof.auditing, "all_checks", lambda: pytest.fail("loaded"))
    with pytest.raises(Unreachable):
        audit(URL)


def test_evidence_of_an_earlier_audit_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "evidence.jsonl.gz"
    with Weather() as server:
        for _ in range(2):
            report = audit(server.url, checks=[CHECK], seed=1, out=out)
    moved = tmp_path / "evidence.1.jsonl.gz"
    assert report.notes == (f"What was in {out} before is in {moved} now.",)
    assert all(len(list(read_records(file))) > 3 for file in (out, moved))


def test_report_answers_for_each_check(tmp_path: Path) -> None:
    events: list[Event] = []
    with Weather() as server:
        report = audit(server.url, checks=[CHECK], seed=1, out=tmp_path / "evidence.jsonl.gz", listen=events.append)
    assert report[CHECK].verdict is Verdict.PASS
    assert [e.outcome for e in events if isinstance(e, CheckFinished)] == [report[CHECK]]
    assert report.failures == ()
    with pytest.raises(KeyError, match="this audit has stopping/budget"):
        report["logprobs/placeholder"]


def test_accepted_findings_do_not_count(tmp_path: Path) -> None:
    accepted = tmp_path / "baseline.toml"
    with Weather() as server:
        found = audit(server.url, checks="logprobs/well_formed", seed=1, out=tmp_path / "1.jsonl.gz")
        entries = (
            f'[[accepted]]\ncheck = "{o.check}"\ncode = "{c}"\n' for o in found.failures for c in o.judgement.codes
        )
        accepted.write_text("".join(entries), encoding="utf-8")
        report = audit(
            server.url, checks="logprobs/well_formed", seed=1, out=tmp_path / "2.jsonl.gz", baseline=accepted
        )
    assert found.exit_code == 1
    assert (report.verdict, report.exit_code) == (Verdict.FAIL, 0)
    assert_sound(report)
    with pytest.raises(AssertionError):
        assert_sound(found)


def test_event_loop_goes_on_during_an_audit(tmp_path: Path) -> None:
    async def main() -> tuple[Verdict, int]:
        with Weather() as server:
            running = asyncio.create_task(
                audit_async(server.url, checks=CHECK, seed=1, out=tmp_path / "evidence.jsonl.gz")
            )
            turns = 0
            while not running.done():
                await asyncio.sleep(0.001)
                turns += 1
            return (await running)[CHECK].verdict, turns

    verdict, turns = asyncio.run(main())
    assert verdict is Verdict.PASS
    assert turns > 3


def test_error_of_an_audit_reaches_its_task(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        asyncio.run(audit_async(URL, checks=CHECK, out=tmp_path / "evidence.jsonl.gz"))


class Stuck:
    """Keeps the first answer of a check back for good, or has its client come again in a minute."""

    def __init__(self, *, busy: bool) -> None:
        self.busy = busy
        self.checking = threading.Event()
        self.caught = threading.Event()
        self.free = threading.Event()

    def __call__(self, request: Request, connection: Connection) -> bool:
        if not (request.generates and self.checking.is_set()) or self.free.is_set():
            return False
        self.caught.set()
        if self.busy:
            connection.answer(429, "{}", Retry_After="50")
            return True
        self.free.wait(60)
        return False

    def listen(self, event: Event) -> None:
        if isinstance(event, FactsGathered):
            self.checking.set()


@pytest.mark.parametrize("busy", [False, True])
def test_task_that_is_cancelled_ends_its_audit_at_once(busy: bool, tmp_path: Path) -> None:
    out, stuck = tmp_path / "evidence.jsonl.gz", Stuck(busy=busy)

    async def main(server: Weather) -> tuple[float, int]:
        running = asyncio.create_task(audit_async(server.url, checks="logprobs", out=out, listen=stuck.listen))
        await asyncio.to_thread(stuck.caught.wait, 60)
        await asyncio.sleep(0.1)
        began, asked = time.monotonic(), len(server.requests)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return time.monotonic() - began, len(server.requests) - asked

    with Weather(stuck) as server:
        seconds, asked = asyncio.run(main(server))
        stuck.free.set()
        assert seconds < 10
        assert asked <= 4  # as many as were on their way
        kinds = [record["kind"] for record in read_records(out)]
        assert kinds[0] == "header"
        assert kinds[-1] == "final"
        again = audit(server.url, checks=CHECK, seed=1, out=tmp_path / "again.jsonl.gz")  # nothing holds the server
    assert again[CHECK].verdict is Verdict.PASS


PAGE = Path(__file__).parents[1] / "docs/how-to/from-python.md"


def test_the_how_to_names_every_option() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in AuditOptions.__annotations__ if f"| `{name}` |" not in page] == []


def test_what_the_how_to_shows_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain, in_a_loop = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    shown: dict[str, Any] = {}
    with Weather() as server:
        exec(plain.replace("http://127.0.0.1:8080", server.url), shown)
    assert shown["report"].exit_code == 1  # one law after every context, which no model has
    exec(in_a_loop, shown)
    with pytest.raises(Unreachable):
        asyncio.run(shown["nightly"]([URL]))
