"""A watch tells of changes, remembers what was, and keeps evidence of what got worse."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.fakes import FACTS, URL

from draftproof.auditing import AuditConfig, Outcome, Report
from draftproof.auditing.plan import Plan
from draftproof.auditing.target import kept_in
from draftproof.core.errors import Busy, EvidenceLost, InstrumentError, TargetError, Unreachable, UsageError
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict
from draftproof.watch.rounds import GATHERED, REACHABLE, RunAudit, Watch, paced, rest_after
from draftproof.watch.state import State

CHECK = "logprobs/placeholder"
PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def reporting(verdicts: Sequence[Verdict | Exception], log_e: float | None = None) -> RunAudit:
    """Audits that end like this, one after the other."""
    left: Iterator[Verdict | Exception] = iter(verdicts)

    def run(config: AuditConfig) -> Report:
        verdict = next(left)
        if isinstance(verdict, Exception):
            raise verdict
        assert config.out is not None
        config.out.write_text("evidence")
        outcomes = [Outcome(CHECK, Judgement(verdict, "what was seen"), Terms())]
        if log_e is not None:
            measured = {"log e-value": log_e}
            outcomes.append(Outcome("sampling/distribution", Judgement(PASS, "", measured=measured), Terms()))
        return Report(config, "0", "", 1, FACTS, Plan(()), tuple(outcomes), verdict, 0, requests=10)

    return run


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Callable[..., Watch]]:
    opened: list[State] = []

    def make(verdicts: Sequence[Verdict | Exception] = (), log_e: float | None = None) -> Watch:
        for state in opened:
            state.close()
        opened.append(State(tmp_path / "state.sqlite", URL, 1e-4))
        return Watch(AuditConfig(URL, alpha=1e-4), opened[-1], folder=tmp_path, run=reporting(verdicts, log_e))

    yield make
    for state in opened:
        state.close()


def test_a_change_for_the_worse_names_the_last_good_moment_and_keeps_the_evidence(
    watching: Callable[..., Watch], tmp_path: Path
) -> None:
    watch = watching([PASS, PASS, FAIL, FAIL])
    first, second, third, fourth = (watch.round() for _ in range(4))
    assert not first.changes
    assert not second.changes
    (change,) = third.changes
    assert (change.name, change.before, change.after, change.alert) == (CHECK, PASS, FAIL, True)
    assert change.last_good == second.made.started_at
    assert change.at == third.made.started_at
    assert Path(change.evidence).read_text() == "evidence"
    assert not fourth.changes
    assert [p.name for p in tmp_path.glob("*.jsonl.gz")] == [Path(change.evidence).name]


def test_watches_in_one_folder_leave_the_evidence_of_each_other_alone(tmp_path: Path) -> None:
    kept = []
    for name in ("a", "b"):
        with State(tmp_path / name, URL, 1e-4) as state:
            watch = Watch(AuditConfig(URL), state, folder=tmp_path, run=reporting([FAIL, PASS, Unreachable("Gone.")]))
            kept.append([[c.evidence for c in watch.round().changes] for _ in range(3)])
    files = {Path(evidence) for ((evidence,), _, _) in kept}
    assert files == set(tmp_path.glob("*.jsonl.gz"))
    assert len(files) == 2
    assert [later for _, *later in kept] == [[[""], [""]]] * 2


def test_what_a_killed_round_left_is_moved_aside_and_is_no_evidence_of_another_round(
    watching: Callable[..., Watch], tmp_path: Path
) -> None:
    watch = watching([FAIL])
    assert watch.unfinished is None
    kept = Path(watch.round().changes[0].evidence)
    for text in ("cut off", "cut off again"):
        left = tmp_path / kept.name.replace("000001", "000002")
        left.write_text(text)
        watch = watching([Unreachable("Gone.")])
        assert watch.unfinished is not None
        assert watch.unfinished.read_text() == text
        assert sorted(tmp_path.glob("*.jsonl.gz")) == [kept, watch.unfinished]
    assert [c.evidence for c in watch.round().changes] == [""]
    moved = watch.unfinished
    assert watching().unfinished is None
    assert sorted(tmp_path.glob("*.jsonl.gz")) == [kept, moved]


def test_what_is_undecided_changes_nothing(watching: Callable[..., Watch]) -> None:
    watch = watching([FAIL, OPEN, FAIL, PASS])
    ended = [watch.round() for _ in range(4)]
    assert [len(e.changes) for e in ended] == [1, 0, 0, 1]
    assert not ended[-1].changes[0].alert


def test_a_restart_goes_on_where_it_stopped(watching: Callable[..., Watch]) -> None:
    before = [watching([PASS, PASS], log_e=0.5).round() for _ in range(1)]
    watch = watching([FAIL], log_e=0.5)
    ended = watch.round()
    assert ended.made.number == before[-1].made.number + 1
    assert ended.changes[0].last_good == before[-1].made.started_at
    assert ended.log_wealth > before[-1].log_wealth
    assert ended.made.alpha < before[-1].made.alpha


def test_a_server_that_is_gone_is_a_change_and_the_watch_goes_on(watching: Callable[..., Watch]) -> None:
    watch = watching([PASS, Unreachable("Nobody answers.", "Start it."), PASS])
    ended = [watch.round() for _ in range(3)]
    assert [[(c.name, c.after) for c in e.changes] for e in ended] == [[], [(REACHABLE, FAIL)], [(REACHABLE, PASS)]]
    assert ended[1].trouble == "Nobody answers. Start it."


def test_trouble_of_our_own_accuses_nobody(watching: Callable[..., Watch]) -> None:
    watch = watching([PASS, Busy("Another audit is at work.", "")])
    watch.round()
    ended = watch.round()
    assert not ended.changes
    assert ended.trouble


@pytest.mark.parametrize("error", [UsageError("No check is called so."), InstrumentError("It broke.")])
def test_what_no_waiting_cures_ends_the_watch(watching: Callable[..., Watch], error: Exception) -> None:
    watch = watching([PASS, error])
    watch.round()
    with pytest.raises(type(error)):
        watch.round()
    assert watch.state.rounds == 1


def test_trouble_names_no_file_that_is_taken_away(watching: Callable[..., Watch]) -> None:
    def run(config: AuditConfig) -> Report:
        assert config.out is not None
        config.out.write_text("evidence")
        raise TargetError("No JSON.", f"Look at it. {kept_in(config.out)}")

    watch = watching()
    watch = Watch(watch.config, watch.state, folder=watch.folder, run=run)
    first, second = watch.round(), watch.round()
    assert [Path(c.evidence).exists() for c in first.changes] == [True]
    assert first.trouble == second.trouble == "No JSON. Look at it."
    assert len(list(watch.folder.glob("*.jsonl.gz"))) == 1


def test_rounds_without_an_audit_spend_no_alpha(watching: Callable[..., Watch]) -> None:
    sound = watching([PASS, PASS], log_e=0.5)
    asked: list[float] = []
    run = reporting([Unreachable("Gone."), PASS, EvidenceLost("Full."), Busy("Busy."), PASS], log_e=0.5)

    def noting(config: AuditConfig) -> Report:
        asked.append(config.alpha)
        return run(config)

    with State(Path(sound.folder / "other"), URL, 1e-4) as state:
        watch = Watch(sound.config, state, folder=sound.folder, run=noting)
        ended = [watch.round() for _ in range(5)]
    other = [sound.round() for _ in range(2)]
    first, second = (e.made.alpha for e in other)
    assert asked == [first, first, second, second, second]
    assert [e.made.alpha for e in ended] == [0, first, 0, 0, second]
    assert ended[-1].log_wealth == other[-1].log_wealth


def test_evidence_gathers_over_rounds_none_of_which_decides(watching: Callable[..., Watch]) -> None:
    watch = watching([PASS] * 30, log_e=1.0)
    alarm = next(e for e in (watch.round() for _ in range(30)) if e.changes)
    assert [c.name for c in alarm.changes] == [GATHERED]
    assert alarm.log_wealth >= -math.log(1e-4 / 2)
    assert 10 < alarm.made.number < 25


def test_two_watches_of_one_state_are_refused(watching: Callable[..., Watch], tmp_path: Path) -> None:
    watching([PASS])
    with pytest.raises(UsageError, match="in use"):
        State(tmp_path / "state.sqlite", URL, 1e-4)


def test_a_state_of_another_server_or_no_state_is_refused(tmp_path: Path) -> None:
    State(tmp_path / "a", URL, 1e-4).close()
    with pytest.raises(UsageError, match="belongs to"):
        State(tmp_path / "a", URL + "9", 1e-4)
    (tmp_path / "b").write_text("no database, but long enough to be looked at as one" * 20)
    with pytest.raises(UsageError, match="no state"):
        State(tmp_path / "b", URL, 1e-4)


def test_rounds_keep_to_the_budget_of_requests(watching: Callable[..., Watch]) -> None:
    """10 requests a round at 100 in a second: a round each 0.1 s."""
    stop, began = threading.Event(), time.monotonic()
    for ended in paced(watching([PASS] * 9), 360_000, stop):
        if ended.made.number == 4:
            stop.set()
    assert time.monotonic() - began >= 0.3


class Resting(threading.Event):
    """Notes how long a rest would have been."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.rests.append(timeout)
        return self.is_set()


def test_rounds_without_an_audit_come_seldom_and_a_return_ends_that(watching: Callable[..., Watch]) -> None:
    """Whatever the budget of requests allows."""
    gone, stop = Unreachable("Gone."), Resting()
    for ended in paced(watching([gone] * 6 + [PASS, gone]), 1e9, stop):
        if ended.made.number == 8:
            stop.set()
    assert stop.rests == [30, 60, 120, 240, 300, 300, 0, 30]
    assert rest_after(10**6) == 300


def test_metrics_tell_what_stands(watching: Callable[..., Watch]) -> None:
    metrics = pytest.importorskip("draftproof.watch.metrics").Metrics()
    watch = watching([PASS, FAIL], log_e=0.1)
    for _ in range(2):
        metrics.add(watch.round())
    value = metrics.registry.get_sample_value
    assert value("draftproof_sound", {"check": CHECK}) == 0
    assert value("draftproof_sound", {"check": REACHABLE}) == 1
    assert value("draftproof_rounds_total") == 2
    assert value("draftproof_requests_total") == 20
    assert value("draftproof_changes_total", {"check": CHECK, "to": "fail"}) == 1
