from __future__ import annotations

import math
import random

from draftproof.client.watch import Observed, Watch, two_laws
from draftproof.core.ask import Ask, Completion
from draftproof.core.tokens import Alternative, TokenRecord

ONE = Ask((1, 2), 1, 2, seed=0, route="/completion")


def answer(logprob: float, ask: Ask = ONE, **claims: str) -> Completion:
    listed = (Alternative(0, "a", logprob), Alternative(1, "b", -9.0))
    return Completion(
        ask, 1, "/completion", 200, tokens=(TokenRecord(0, "a", None, logprob, listed),), claims=tuple(claims.items())
    )


def test_answers_of_one_build_are_one_server() -> None:
    watch = Watch()
    watch.saw([answer(-0.5, model="m", stop_type="limit"), answer(-0.5, model="m", stop_type="eos")])
    assert watch.identities == ()
    assert Observed(watch.identities).is_one_server


def test_two_fingerprints_are_two_servers() -> None:
    watch = Watch()
    watch.saw([answer(-0.5, system_fingerprint="fp_1"), answer(-0.5, system_fingerprint="fp_2")])
    watch.claim("build by /props", "b1")
    assert watch.identities == ("system_fingerprint of /completion=fp_1", "system_fingerprint of /completion=fp_2")
    assert not Observed(watch.identities).is_one_server


def test_only_a_request_whose_answers_differ_by_much_is_suspicious() -> None:
    watch = Watch()
    watch.saw([answer(-0.5), answer(-0.51)])
    assert watch.suspicious() is None
    watch.saw([answer(-0.9)])
    assert watch.suspicious() == ONE
    assert Watch().suspicious() is None


def test_noise_is_one_law_and_two_builds_are_two() -> None:
    rng = random.Random(1)
    noisy = [{"a": -1 + rng.gauss(0, 0.1), "b": -2 + rng.gauss(0, 0.1)} for _ in range(8)]
    assert two_laws(noisy) == 0.0
    turns = [{"a": -1 - 0.4 * (n % 2) + rng.gauss(0, 0.005), "b": -2.0} for n in range(8)]
    assert math.isclose(two_laws(turns), 0.4, abs_tol=0.05)


def test_one_outlier_makes_no_second_server() -> None:
    assert two_laws([*[{"a": -1.0}] * 7, {"a": -2.0}]) == 0.0
    assert two_laws([]) == two_laws([{"a": -1.0}]) == 0.0
