"""Checks of streams, prompts, encodings and stop strings on a sound server whose answers are spoiled on their way to the check.

The one-token oracle is left alone, as on a server that is only wrong where more than one token is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.server.loopback import DRAFT, serving

from draftproof.checks.check import AnyCheck
from draftproof.checks.logprobs import encoding, prompt, streaming
from draftproof.checks.stopping import stop_string
from draftproof.client.facts import connect
from draftproof.client.probe import LiveProbe
from draftproof.core.ask import Ask, Completion
from draftproof.core.errors import NoNumber
from draftproof.core.probe import Effort
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Judgement, Verdict

PASS, FAIL, NA = Verdict.PASS, Verdict.FAIL, Verdict.NOT_APPLICABLE
Send = Callable[[Ask], Completion]
Spoil = Callable[[Send, Ask], Completion]


@pytest.fixture(scope="module")
def connected() -> Iterator[LiveProbe]:
    with serving(DRAFT, slots=4, context=4096) as (_, server), connect(server.url) as found:
        yield found


@pytest.fixture
def probe(connected: LiveProbe) -> LiveProbe:
    """One that remembers no answer of an earlier test."""
    return LiveProbe(connected.http, connected.dialect, connected.facts, effort=Effort.QUICK)


def judged(check: AnyCheck, probe: LiveProbe, spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> Judgement:
    send = probe.ask
    monkeypatch.setattr(probe, "ask", lambda ask: spoil(send, ask))
    judgement: Judgement = check.judge(check.collect(probe), Terms())
    return judgement


def honest(send: Send, ask: Ask) -> Completion:
    return send(ask)


def moved(token: TokenRecord, by: float) -> TokenRecord:
    listed = tuple(replace(a, logprob=(a.logprob or 0.0) + by) for a in token.alternatives or ())
    return replace(token, logprob=(token.logprob or 0.0) + by, alternatives=listed)


def silent(token: TokenRecord) -> TokenRecord:
    return TokenRecord(token.id, token.text, None, None, None)


def streams(change: Callable[[Completion], Completion]) -> Spoil:
    """Spoils streamed answers only."""
    return lambda send, ask: change(send(ask)) if ask.stream else send(ask)


def in_one_event(answer: Completion) -> Completion:
    """As a proxy hands it on that keeps back all events until the last has come."""
    return replace(answer, arrivals=answer.arrivals[-1:], event_tokens=(len(answer.tokens),))


def one_list_per_event(answer: Completion) -> Completion:
    tokens = tuple(
        replace(t, alternatives=answer.tokens[1].alternatives) if n else t for n, t in enumerate(answer.tokens)
    )
    return replace(answer, tokens=tokens, event_tokens=(1, len(tokens) - 1))


@pytest.mark.parametrize(
    ("spoil", "verdict", "codes"),
    [
        (honest, PASS, set()),
        (streams(in_one_event), PASS, set()),
        (streams(lambda a: replace(a, tokens=a.tokens[:1] + tuple(map(silent, a.tokens[1:])))), FAIL, {"MISSING"}),
        (streams(lambda a: replace(a, tokens=a.tokens[:4] + a.tokens[5:])), FAIL, {"MISSING"}),
        (streams(one_list_per_event), FAIL, {"COPIED"}),
        (streams(lambda a: replace(a, tokens=tuple(moved(t, -0.3) for t in a.tokens))), FAIL, {"STREAM_DIFFERS"}),
        (streams(lambda a: replace(a, text=a.text[:-1])), FAIL, {"STREAM_DIFFERS"}),
        (streams(lambda a: replace(a, error="HTTP 500", status=500)), FAIL, {"BROKEN"}),
        (streams(lambda a: replace(a, error="HTTP 400", status=400)), NA, set()),
    ],
)
def test_streams(
    spoil: Spoil, verdict: Verdict, codes: set[str], probe: LiveProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgement = judged(streaming.CHECK, probe, spoil, monkeypatch)
    assert (judgement.verdict, set(judgement.codes)) == (verdict, codes), judgement.summary


def prompts(change: Callable[[Completion], Completion]) -> Spoil:
    """Spoils answers to requests for the prompt's logprobs only."""
    return lambda send, ask: change(send(ask)) if ask.echo else send(ask)


def entries(change: Callable[[int, TokenRecord], TokenRecord]) -> Spoil:
    return prompts(lambda a: replace(a, prompt=tuple(change(n, t) for n, t in enumerate(a.prompt))))


def of_next(answer: Completion) -> Completion:
    values = (*(t.logprob for t in answer.prompt[1:]), -1.0)
    return replace(answer, prompt=tuple(replace(t, logprob=v) for t, v in zip(answer.prompt, values, strict=True)))


@pytest.mark.parametrize(
    ("spoil", "verdict", "codes"),
    [
        (honest, PASS, set()),
        (entries(lambda _, t: replace(t, logprob=0.0)), FAIL, {"PLACEHOLDER"}),
        (entries(lambda n, t: t if n else replace(t, logprob=0.0)), FAIL, {"PLACEHOLDER"}),
        (entries(lambda n, t: replace(t, logprob=None) if n == 7 else t), FAIL, {"MISSING"}),
        (entries(lambda n, t: moved(t, -0.5) if n >= 24 else t), FAIL, {"CORRUPT"}),
        (prompts(of_next), FAIL, {"SHIFTED"}),
        (prompts(lambda a: replace(a, prompt=a.prompt[16:])), FAIL, {"MISSING"}),
        (prompts(lambda a: replace(a, prompt=())), FAIL, {"MISSING"}),
        (prompts(lambda a: replace(a, prompt=(), text=a.text[48:])), NA, {"IGNORED"}),
        (prompts(lambda a: replace(a, error="HTTP 400", status=400)), NA, set()),
        (
            lambda send, ask: (
                replace(a, prompt=tuple(moved(t, -0.5) if n == 9 else t for n, t in enumerate(a.prompt)))
                if (a := send(ask)).ask.max_tokens > 1
                else a
            ),
            FAIL,
            {"UNSTEADY"},
        ),
    ],
)
def test_prompts(
    spoil: Spoil, verdict: Verdict, codes: set[str], probe: LiveProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgement = judged(prompt.CHECK, probe, spoil, monkeypatch)
    assert judgement.verdict is verdict, judgement.summary
    # A value that is shifted also moves when the prompt is cut before the one it was taken from.
    assert codes <= set(judgement.codes) <= codes | {"UNSTEADY"}, judgement.codes


def tokens(change: Callable[[TokenRecord], TokenRecord]) -> Spoil:
    return lambda send, ask: replace(a := send(ask), tokens=tuple(map(change, a.tokens)))


def with_least(value: float) -> Callable[[TokenRecord], TokenRecord]:
    def change(token: TokenRecord) -> TokenRecord:
        *listed, last = token.alternatives or ()
        return replace(token, alternatives=(*listed, replace(last, logprob=value)))

    return change


def not_a_number(send: Send, ask: Ask) -> Completion:
    if ask.sampling.temperature == 0.01:
        raise NoNumber("/completion answered 200 with a body that is not valid JSON: NaN is not JSON.", exchange=9)
    return send(ask)


@pytest.mark.parametrize(
    ("spoil", "verdict", "codes"),
    [
        (honest, PASS, set()),
        (tokens(with_least(-9999.0)), FAIL, {"SENTINEL"}),
        (tokens(with_least(-3.4028234663852886e38)), FAIL, {"SENTINEL"}),
        (not_a_number, FAIL, {"NO_NUMBER"}),
        (tokens(lambda t: replace(t, bytes=(0xEF, 0xBF, 0xBD))), FAIL, {"LOST_BYTES"}),
        (tokens(lambda t: replace(t, bytes=()) if t.text == "b" else t), FAIL, {"BYTES"}),
        (tokens(lambda t: replace(t, id=None, text="", bytes=None)), FAIL, {"NAMELESS"}),
    ],
)
def test_encodings(
    spoil: Spoil, verdict: Verdict, codes: set[str], probe: LiveProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgement = judged(encoding.CHECK, probe, spoil, monkeypatch)
    assert (judgement.verdict, set(judgement.codes)) == (verdict, codes), judgement.summary


def stopped(change: Callable[[Completion], Completion]) -> Spoil:
    """Spoils answers to requests with stop strings only."""
    return lambda send, ask: change(send(ask)) if ask.stop else send(ask)


def to_the_end_of_the_draft(answer: Completion) -> Completion:
    ids = answer.token_ids or ()
    return replace(answer, tokens=answer.tokens + answer.tokens[:2], token_ids=ids + ids[:2])


def without_stops(send: Send, ask: Ask) -> Completion:
    return replace(send(replace(ask, stop=())), ask=ask)


@pytest.mark.parametrize(
    ("spoil", "verdict", "codes"),
    [
        (honest, PASS, set()),
        (stopped(lambda a: replace(a, tokens=a.tokens[: len(a.text)])), PASS, set()),
        (stopped(lambda a: replace(a, text=a.text + a.ask.stop[0])), PASS, set()),
        (without_stops, FAIL, {"STOP_PASSED"}),
        (stopped(to_the_end_of_the_draft), FAIL, {"STOP_PASSED"}),
        (stopped(lambda a: replace(a, completion_tokens=(a.completion_tokens or 0) + 2)), FAIL, {"MISCOUNT"}),
        (stopped(lambda a: replace(a, text=a.text[:-1])), FAIL, {"TEXT_LOST"}),
        (stopped(lambda a: replace(a, finish="length")), FAIL, {"WRONG_FINISH"}),
        (stopped(lambda a: replace(a, error="HTTP 400", status=400)), NA, set()),
    ],
)
def test_stop_strings(
    spoil: Spoil, verdict: Verdict, codes: set[str], probe: LiveProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgement = judged(stop_string.CHECK, probe, spoil, monkeypatch)
    assert (judgement.verdict, set(judgement.codes)) == (verdict, codes), judgement.summary
