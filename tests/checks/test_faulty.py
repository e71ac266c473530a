"""Each check on our server, sound and with a fault put between it and the auditor: it must be seen to fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType

import pytest
from tests.server.loopback import DRAFT, serving

from draftproof.checks.randomness import batch_mates, concurrency, history
from draftproof.checks.self_report import accounting, silent_bypass
from draftproof.client.facts import connect
from draftproof.client.probe import LiveProbe
from draftproof.core.ask import Ask, Completion
from draftproof.core.probe import Effort
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

Send = Callable[[Ask], Completion]
Fault = Callable[[Send, Ask, "State"], Completion]
OTHER_SEED = 77


class State:
    """What the faulty server remembers: requests in flight, and how many long ones it has served."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.flying: list[Ask] = []
        self.long = 0


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(DRAFT, slots=8, context=2048) as (_, server):
        yield server.url


def judged(url: str, check: ModuleType, fault: Fault | None = None) -> Judgement:
    with connect(url, seed=3, effort=Effort.QUICK) as probe:
        if fault:
            _put_between(probe, fault)
        judgement: Judgement = check.judge(check.collect(probe), Terms())
    return judgement


def _put_between(probe: LiveProbe, fault: Fault) -> None:
    state, send = State(), probe.ask

    def ask(wanted: Ask) -> Completion:
        with state.lock:
            state.flying.append(wanted)
        try:
            return fault(send, wanted, state)
        finally:
            with state.lock:
                state.flying.remove(wanted)

    probe.ask = ask  # type: ignore[method-assign,assignment]


def _mates(state: State, ask: Ask) -> list[Ask]:
    """The requests beside this one. Waits a moment, as requests that are sent at once do not come at once."""
    threading.Event().wait(0.05)
    with state.lock:
        return [other for other in state.flying if other is not ask]


def swapped(send: Send, ask: Ask, state: State) -> Completion:
    """In company a request gets the answer of another one."""
    mates = _mates(state, ask)
    answer = send(replace(mates[0], route=ask.route) if mates else ask)
    return replace(answer, ask=ask)


def shared_stream(send: Send, ask: Ask, state: State) -> Completion:
    """In company a seed is mixed with those of the others."""
    mates = _mates(state, ask)
    return replace(send(replace(ask, seed=OTHER_SEED) if mates and not ask.sampling.greedy else ask), ask=ask)


def top_k_spreads(send: Send, ask: Ask, state: State) -> Completion:
    """The smallest top-k of a batch is that of all its requests."""
    smallest = [m.sampling for m in _mates(state, ask) if m.sampling.top_k]
    return replace(send(replace(ask, sampling=smallest[0]) if smallest else ask), ask=ask)


def _long_before(state: State, ask: Ask) -> bool:
    if ask.max_tokens >= 100:
        state.long += 1
    return state.long > 0 and ask.max_tokens < 100


def stale_stream(send: Send, ask: Ask, state: State) -> Completion:
    """After a long request the seed is not set anew."""
    return replace(send(replace(ask, seed=OTHER_SEED) if _long_before(state, ask) else ask), ask=ask)


def stale_values(send: Send, ask: Ask, state: State) -> Completion:
    """After a long request the logprobs are another context's."""
    answer = send(ask)
    if not _long_before(state, ask):
        return answer
    return replace(answer, tokens=tuple(replace(t, logprob=(t.logprob or 0.0) - 0.3) for t in answer.tokens))


def stale_drafts(send: Send, ask: Ask, state: State) -> Completion:
    """After a long request hardly a draft is accepted."""
    answer = send(ask)
    return replace(answer, accepted=1) if _long_before(state, ask) and answer.drafted else answer


def off_with_logprobs(send: Send, ask: Ask, _state: State) -> Completion:
    """Logprobs switch speculation off, and the answer says nothing of it."""
    if not ask.alternatives:
        return send(ask)
    answer = send(replace(ask, extra=(*ask.extra, ("speculative.n_max", 0))))
    claims = tuple(c for c in answer.claims if "speculati" not in c[0])
    return replace(answer, ask=ask, drafted=None, accepted=None, claims=claims)


def off_by_budget(send: Send, ask: Ask, _state: State) -> Completion:
    """More than 256 tokens switch speculation off."""
    if ask.max_tokens <= 256:
        return send(ask)
    return replace(off_with_logprobs(send, replace(ask, alternatives=1), _state), ask=ask)


def honestly_off(send: Send, ask: Ask, _state: State) -> Completion:
    """Logprobs switch speculation off, and the answer says so."""
    return replace(
        send(replace(ask, extra=(*ask.extra, ("speculative.n_max", 0))) if ask.alternatives else ask), ask=ask
    )


def all_accepted(send: Send, ask: Ask, _state: State) -> Completion:
    """Every draft counts as accepted."""
    answer = send(ask)
    return replace(answer, accepted=answer.drafted)


def charged_for_drafts(send: Send, ask: Ask, _state: State) -> Completion:
    """Usage counts the whole draft, also beyond a stop string."""
    answer = send(ask)
    return replace(answer, completion_tokens=(answer.completion_tokens or 0) + 3) if answer.finish == "stop" else answer


@pytest.mark.parametrize(
    "check", [concurrency, batch_mates, history, silent_bypass, accounting], ids=lambda c: c.__name__
)
def test_our_server_passes(url: str, check: ModuleType) -> None:
    judgement = judged(url, check)
    assert judgement.verdict is Verdict.PASS, judgement.summary


@pytest.mark.parametrize(
    ("check", "fault", "code"),
    [
        (concurrency, swapped, "FOREIGN"),
        (concurrency, shared_stream, "COMPANY"),
        (batch_mates, top_k_spreads, "MATE"),
        (history, stale_stream, "HISTORY"),
        (history, stale_values, "DRIFT"),
        (history, stale_drafts, "ACCEPTANCE_FELL"),
        (silent_bypass, off_with_logprobs, "SILENT_BYPASS"),
        (silent_bypass, off_by_budget, "SILENT_BYPASS"),
        (accounting, all_accepted, "OVERCOUNTED"),
        (accounting, charged_for_drafts, "OVERCHARGED"),
    ],
)
def test_a_fault_is_found(url: str, check: ModuleType, fault: Fault, code: str) -> None:
    judgement = judged(url, check, fault)
    assert judgement.verdict is Verdict.FAIL, judgement.summary
    assert code in judgement.codes


def test_top_k_is_named_as_the_kind_of_mate(url: str) -> None:
    assert "top_k 1" in judged(url, batch_mates, top_k_spreads).summary


def test_a_server_that_says_so_is_honest(url: str) -> None:
    judgement = judged(url, silent_bypass, honestly_off)
    assert judgement.verdict is Verdict.PASS, judgement.summary
