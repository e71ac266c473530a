from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from draftproof.checks import examples as made
from draftproof.checks.logprobs.prompt import Evidence, judge
from draftproof.checks.logprobs.prompt_values import Place
from draftproof.core.ask import Completion
from draftproof.core.probe import OracleRow
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Judgement, Verdict

LAWS = ((0.5, 0.25, 0.125, 0.0625, 0.0625), (0.1, 0.6, 0.1, 0.1, 0.1), (0.3, 0.05, 0.25, 0.25, 0.15))
IDS = tuple(n * 7 % 5 for n in range(16))
N = len(IDS)


def value(n: int, law: int | None = None) -> float:
    return math.log(LAWS[(n if law is None else law) % 3][IDS[n]])


def row(law: Sequence[float], *, listed: int = 5, by: float = 0.0) -> OracleRow:
    best = sorted(range(5), key=lambda i: -law[i])[:listed]
    logs = tuple(math.log(law[i]) + by for i in best)
    return OracleRow(tuple(best), tuple("abcde"[i] for i in best), logs, 2, complete=listed == 5)


def place(n: int, *, listed: int = 5, noise: float = 0.0) -> Place:
    law = LAWS[n % 3]
    return Place(n - N, row(law, listed=listed), row(law, by=noise) if noise else None)


def answer(values: dict[int, float | None] | None = None, texts: Sequence[str] = "abcde") -> Completion:
    changed: dict[int, float | None] = {0: None, **(values or {})}
    entries = [TokenRecord(None, texts[IDS[n]], None, changed.get(n, value(n)), None) for n in range(N)]
    whole = made.answer([made.true_token(1)], route="/v1/completions")
    text = "".join(made.letter(i) for i in IDS) + whole.text
    return replace(whole, ask=replace(whole.ask, prompt=IDS, echo=True), prompt=tuple(entries), text=text)


def judged(given: Completion, places: Sequence[Place] | None = None, **more: Any) -> Judgement:
    return judge(Evidence(N, given, tuple(map(place, (2, 5, 7, 9, 15)) if places is None else places), **more), Terms())


@pytest.mark.parametrize(
    ("error", "noise", "verdict"),
    [
        (0.045, 0.0, Verdict.PASS),
        (-0.055, 0.0, Verdict.FAIL),
        (0.055, 0.0, Verdict.FAIL),
        (0.39, 0.02, Verdict.PASS),
        (-0.41, 0.02, Verdict.FAIL),
        (0.0, 0.045, Verdict.PASS),
        (0.0, 0.055, Verdict.PASS),
        (0.06, 0.055, Verdict.INCONCLUSIVE),
        (0.06, 0.045, Verdict.PASS),
    ],
)
def test_the_tolerance(error: float, noise: float, verdict: Verdict) -> None:
    assert judged(answer({7: value(7) + error}), noise=noise).verdict is verdict


def test_the_noise_is_that_of_the_noisiest_place() -> None:
    off = answer({7: value(7) + 0.3})
    assert judged(off, [place(2, noise=0.02), place(5, noise=1e-6), place(7, noise=1e-6)]).verdict is Verdict.PASS
    assert judged(off, [place(2), place(7)], noise=0.02).verdict is Verdict.PASS


@pytest.mark.parametrize(("reported", "verdict"), [(-5.0, Verdict.PASS), (-1.5, Verdict.PASS), (-0.5, Verdict.FAIL)])
def test_a_token_outside_the_row_can_only_be_too_likely(reported: float, verdict: Verdict) -> None:
    """Token 14 is `d`, of .1: the two that are listed are of .6 and .1, and leave .3 at most."""
    assert IDS[14] == 3
    assert LAWS[14 % 3][3] == 0.25
    few = [place(14, listed=1)]
    assert judged(answer({14: reported}), few).verdict is verdict


def test_prompts_of_ids_are_judged_by_ids_whatever_the_entries_are_called() -> None:
    named = answer({7: -9.0}, texts=[f"<{i}>" for i in range(5)])
    assert judged(named).codes == ("CORRUPT",)
    assert judged(answer(texts=[f"<{i}>" for i in range(5)])).measured["worst difference (nat)"] == pytest.approx(0.0)


def test_a_shift_is_named_from_three_values_on_and_when_most_fit_it() -> None:
    moved = answer({n: value(n - 1) for n in range(2, N)})
    assert judged(moved, list(map(place, (3, 5, 8)))).codes == ("SHIFTED",)
    assert judged(moved, list(map(place, (3, 5)))).codes == ("CORRUPT",)
    half = answer({**{n: value(n - 1) for n in range(2, N)}, 10: -8.0, 12: -9.0, 13: -7.5})
    assert judged(half, list(map(place, (3, 5, 8, 9, 12)))).codes == ("SHIFTED",)
    assert judged(half, list(map(place, (3, 5, 8, 9, 11, 12)))).codes == ("CORRUPT",)


def test_a_shift_that_is_merely_possible_is_not_named() -> None:
    """Every value is too low; the neighbours' tokens are in none of the rows, so that there they could be of any low value."""
    places = [place(n, listed=2) for n in range(1, N - 1) if made_likely(n, n) and not made_likely(n, n + 1)]
    assert len(places) >= 3
    low = answer({n: -6.0 - n / 10 for n in range(1, N)})
    assert judged(low, places).codes == ("CORRUPT",)


def made_likely(law: int, token: int) -> bool:
    return IDS[token] in row(LAWS[law % 3], listed=2).ids


def test_a_shift_is_named_only_where_no_other_one_explains_half_as_much() -> None:
    at = (2, 5, 8, 11)
    wrong: dict[int, float | None] = dict.fromkeys(at, -9.0)
    late = {n + 1: value(n) for n in at}
    assert "they stand at the next token" in judged(answer({**wrong, **late}), list(map(place, at))).summary
    for also, code in ((1, "SHIFTED"), (2, "SHIFTED"), (3, "CORRUPT"), (4, "CORRUPT")):
        early = {n - 1: value(n) for n in at[:also]}
        assert judged(answer({**wrong, **late, **early}), list(map(place, at))).codes == (code,)


def test_what_is_right_speaks_for_no_shift() -> None:
    """Two values are wrong; that the neighbours of two others have the same ones as they is chance."""
    at = (2, 5, 8, 11)
    values: dict[int, float | None] = {2: -9.0, 5: -9.0, **{n + 1: value(n) for n in at}}
    assert judged(answer(values), list(map(place, at))).codes == ("CORRUPT",)


def test_what_was_measured_is_told_with_a_table() -> None:
    judgement = judged(answer({7: value(7) - 0.03, 5: value(5) + 0.01}))
    assert judgement.measured["worst difference (nat)"] == pytest.approx(0.03)
    assert judgement.measured["asked again"] == 5
    (table,) = judgement.tables
    assert [r[0] for r in table.rows] == [-14, -11, -9, -7, -1]
    assert table.rows[2][1:] == pytest.approx((value(7) - 0.03, value(7), -0.03))
    none = judged(answer(), [])
    assert none.measured["worst difference (nat)"] == 0.0
    assert none.tables == ()
