from __future__ import annotations

from draftproof.client.replay import Replay
from draftproof.core.exchange import Exchange


def exchange(number: int, request: str = "{}", **changes: object) -> Exchange:
    given = {"method": "POST", "path": "/completion", "status": 200, "answer": str(number), **changes}
    return Exchange(number=number, request=request, attempts=(), events=(), **given)  # type: ignore[arg-type]


def test_each_recorded_answer_is_given_once_to_an_equal_request() -> None:
    replay = Replay([exchange(1), exchange(2), exchange(3, "[]")])
    given = [replay.take("/completion", b"{}") for _ in range(3)]
    assert [e and e.number for e in given] == [1, 2, None]
    assert replay.take("/v1/completions", b"[]") is None
    assert replay.take("/completion", b"[]") is not None
    assert replay.given == 3


def test_refusals_failures_and_descriptions_are_not_given_again() -> None:
    replay = Replay([exchange(1, status=429), exchange(2, status=None), exchange(3, method="GET")])
    assert replay.take("/completion", b"{}") is None


def test_a_check_that_must_ask_anew_is_given_nothing() -> None:
    replay = Replay([exchange(1)], anew=["self_report/accounting"])
    replay.begin("self_report/accounting")
    assert replay.take("/completion", b"{}") is None
    replay.begin("sampling/distribution")
    assert replay.take("/completion", b"{}") is not None
