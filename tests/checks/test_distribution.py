"""How `sampling/distribution` decides: from which evidence on, at which share of alpha, and what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from draftproof.checks import examples as made
from draftproof.checks.drafting import Reports
from draftproof.checks.sampling.assessment import option
from draftproof.checks.sampling.collecting import Evidence
from draftproof.checks.sampling.distribution import judge
from draftproof.checks.sampling.laws import PrefixRow
from draftproof.checks.sampling.streams import Stream
from draftproof.client.coupling import predict
from draftproof.core.mt19937 import MT19937, draws_of
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import NEUTRAL
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

LAW = (0.5, 0.25, 0.15, 0.1, 0.0)
"""The last letter cannot come."""
GREEDY = (1.0, 0.0, 0.0, 0.0, 0.0)


def drawn(*laws: Sequence[float], n: int = 300) -> list[list[int]]:
    """n answers, token i drawn from `laws[i]` as its seed says."""
    u = draws_of(range(1000, 1000 + n), len(laws))
    columns = [predict(np.array(law), u[:, i]).tokens.tolist() for i, law in enumerate(laws)]
    return [list(answer) for answer in zip(*columns, strict=True)]


def evidence(
    answers: list[list[int]],
    coupling: str = "",
    drafted: int = 300,
    noise: float = 1e-6,
    reports: Reports = made.LIVE_ON,
    depth: int = 2,
) -> Evidence:
    row = OracleRow((0, 1, 2, 3), tuple("abcd"), tuple(map(math.log, LAW[:4])), 2, complete=True)
    prefixes = [(), *((a,) for a in range(5))][: 6 if depth else 0]
    seeds = tuple(range(1000, 1000 + len(answers)))
    stream = Stream(made.PROMPT, NEUTRAL, seeds, tuple(map(tuple, answers)), drafted, drafted // 3)
    rows = tuple(PrefixRow(0, prefix, row) for prefix in prefixes)
    return Evidence(reports, noise, 5, coupling, "", (stream,), rows)


def judged(some: Evidence, **terms: float) -> Judgement:
    return judge(some, Terms(**terms))


@cache
def sound() -> Evidence:
    return evidence(drawn(LAW, LAW), MT19937)


@pytest.mark.parametrize(
    ("laws", "place", "code"),
    [((LAW, GREEDY), "log e-value (largest)", "BIASED"), ((GREEDY, LAW), "log e-value of token 1", "BASELINE")],
)
def test_half_of_alpha_is_for_token_1_and_half_for_the_others(
    laws: tuple[Sequence[float], ...], place: str, code: str
) -> None:
    some = evidence(drawn(*laws, n=30))
    log_e = judged(some).measured[place]
    assert isinstance(log_e, float)
    assert log_e > 3
    enough, short = 2 * math.exp(-log_e) * (1 + 1e-9), 2 * math.exp(-log_e) * (1 - 1e-9)
    assert judged(some, alpha=enough).codes == (code,)
    assert judged(some, alpha=enough).verdict is Verdict.FAIL
    assert judged(some, alpha=short).codes == ()
    assert judged(some, alpha=0.01).statements[0].error_probability == 0.005


def test_token_1_is_judged_before_the_others() -> None:
    judgement = judged(evidence(drawn(GREEDY, GREEDY)))
    assert judgement.codes == ("BASELINE",)
    assert "even token 1" in judgement.summary


@pytest.mark.parametrize(("answer", "code"), [([4, 0], "BASELINE"), ([0, 4], "IMPOSSIBLE")])
def test_one_token_that_cannot_come_is_enough(answer: list[int], code: str) -> None:
    judgement = judged(evidence([answer, *drawn(LAW, LAW, n=20)]))
    assert judgement.verdict is Verdict.FAIL
    assert judgement.codes == (code,)


def test_impossible_tokens_are_counted_and_the_rule_is_named_where_it_shows() -> None:
    few = judged(evidence([[1, 2], [0], [0, 3], [0, 4], *drawn(LAW, LAW, n=18)]))
    assert "1 of 21 tokens are ones that the samplers exclude, such as token id 4 after 'a'" in few.summary
    assert "they fit" not in few.summary
    many = judged(evidence([[0, 4], *drawn(LAW, GREEDY)]))
    assert "1 of 301 tokens" in many.summary
    assert "; they fit the rule" in many.summary


def test_the_rule_is_named_where_one_fits() -> None:
    assert "they fit the rule: greedy (for 100% of tokens" in judged(evidence(drawn(LAW, GREEDY))).summary
    nameless = judged(evidence(drawn(LAW, (0.1, 0.15, 0.25, 0.5, 0.0), n=600)))
    assert nameless.codes == ("BIASED",)
    assert "they fit no rule known by name" in nameless.summary


@pytest.mark.parametrize(("noise", "verdict"), [(0.2, Verdict.FAIL), (0.201, Verdict.INCONCLUSIVE)])
def test_laws_that_are_uncertain_by_a_fifth_of_a_nat_say_nothing(noise: float, verdict: Verdict) -> None:
    judgement = judged(evidence([[0, 4], *drawn(LAW, LAW, n=20)], noise=noise))
    assert judgement.verdict is verdict


def test_no_law_no_verdict() -> None:
    judgement = judged(evidence(drawn(LAW, LAW), depth=0))
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "no law is known" in judgement.summary
    assert "total variation at most" not in judgement.measured
    assert len(judgement.statements) == 1


@pytest.mark.parametrize(
    ("drafted", "reports", "verdict"),
    [
        (30, made.LIVE_ON, Verdict.PASS),
        (29, made.LIVE_ON, Verdict.INCONCLUSIVE),
        (1, made.LIVE_ON, Verdict.INCONCLUSIVE),
        (0, made.LIVE_ON, Verdict.INCONCLUSIVE),
        (0, made.LIVE_OFF, Verdict.PASS),
        (29, made.LIVE_OFF, Verdict.INCONCLUSIVE),
    ],
)
def test_how_much_must_have_been_drafted(drafted: int, reports: Reports, verdict: Verdict) -> None:
    stream = replace(sound().streams[0], drafted=drafted, accepted=0)
    assert judged(replace(sound(), streams=(stream,), reports=reports)).verdict is verdict


def test_a_pass_needs_the_bound_that_is_asked_for_and_tells_it() -> None:
    judgement = judged(sound())
    bound = judgement.measured["total variation at most"]
    assert isinstance(bound, float)
    assert "300 tokens after the first are the target's own draws" in judgement.summary
    assert "at 99.9%" in judgement.summary
    assert judgement.measured["seeds replayed: token 1"] == "300 of 300"
    assert judgement.measured["seeds replayed: later"] == "300 of 300"
    assert len(judgement.statements) == 2
    assert judged(sound(), target_tv=bound).verdict is Verdict.PASS
    short = judged(replace(sound(), answer_s=0.5), target_tv=bound * (1 - 1e-9))
    assert short.verdict is Verdict.INCONCLUSIVE
    assert (short.more, short.more_s) == (1, 0)
    assert (judgement.more, judgement.more_s) == (0, 0)


def test_how_many_more_it_takes_falls_with_n_by_seeds_and_with_its_root_by_counts() -> None:
    for coupling, power in ((MT19937, 1), ("", 2)):
        some = replace(sound(), coupling=coupling)
        bound = judged(some, target_tv=0.9).measured["total variation at most"]
        assert isinstance(bound, float)
        assert judged(some, target_tv=bound / 3).more == pytest.approx(300 * (3**power - 1), abs=2)


def test_the_samples_that_are_asked_for_are_of_the_first_condition_where_counts_decide() -> None:
    """That one gets all that `--samples` names; tokens of all conditions count by seeds."""
    first, second = sound().streams[0], evidence(drawn(LAW, LAW, n=500)).streams[0]
    rows = (*sound().rows, *(replace(r, stream=1) for r in sound().rows))
    for coupling, samples, n, unit in (
        (MT19937, 800, 800, "tokens"),
        ("", 300, 300, "samples of the first condition"),
    ):
        some = replace(sound(), coupling=coupling, streams=(first, second), rows=rows)
        bound = judged(some, target_tv=0.9).measured["total variation at most"]
        assert isinstance(bound, float)
        judgement = judged(some, target_tv=bound / 2)
        lacking = n * (2 if coupling else 4) - n
        assert judgement.missing == f"about {lacking:,} more {unit} ({option(samples + lacking)})"
        assert judgement.more == math.ceil(lacking * samples / n)
        timed = judged(replace(some, answer_s=0.5), target_tv=bound / 2)
        assert timed.more_s == (0 if coupling else 0.5 * timed.more), "the pace is the first condition's"


def test_the_error_of_a_bound_is_shared_between_the_two_kinds() -> None:
    seeds, counts = (judged(replace(sound(), coupling=c), pass_error=0.01).statements[1] for c in (MT19937, ""))
    assert seeds.error_probability == counts.error_probability == 0.005


@pytest.mark.parametrize(("wrong", "kind"), [(0, "seeds"), (30, "seeds"), (31, "counts")])
@pytest.mark.parametrize("place", [0, 1])
def test_draws_that_are_not_the_replayed_ones_bound_nothing(place: int, wrong: int, kind: str) -> None:
    """A tenth of the tokens may differ, of the first ones and of those after; an answer is compared up to its first difference."""
    answers = drawn(LAW, LAW)
    for answer in answers[:wrong]:
        answer[place] = (answer[place] + 1) % 4
    later = 300 - (wrong if place == 0 else 0)
    judgement = judged(evidence(answers, MT19937), target_tv=0.9)
    assert ("own draws" in judgement.summary) is (kind == "seeds")
    control = f"{300 - (wrong if place == 0 else 0)} of 300"
    assert judgement.measured["seeds replayed: token 1"] == control
    assert judgement.measured["seeds replayed: later"] == f"{later - (wrong if place else 0)} of {later}"


def test_thirty_tokens_of_each_kind_are_the_least_to_replay() -> None:
    for n, kind in ((30, "seeds"), (29, "counts")):
        judgement = judged(evidence(drawn(LAW, LAW, n=n), MT19937), target_tv=0.99)
        assert ("own draws" in judgement.summary) is (kind == "seeds")


def test_an_e_value_above_a_hundred_holds_back_a_pass_by_counts_and_none_by_seeds() -> None:
    """A few answers too many with the top after token 1. By seeds they are compared as they are."""
    some = drawn(LAW, LAW, n=900)
    for answer in [a for a in some if a[1] != 0][:90]:
        answer[1] = 0
    judgement = judged(evidence(some), alpha=1e-80, target_tv=0.9)
    log_e = judgement.measured["log e-value"]
    assert isinstance(log_e, float)
    assert log_e > math.log(100)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "suspicious" in judgement.summary
    assert judged(evidence(some, MT19937), alpha=1e-80, target_tv=0.9).verdict is Verdict.PASS
    assert judged(evidence(drawn(LAW, LAW, n=900)), target_tv=0.9).verdict is Verdict.PASS


def test_how_short_the_last_answers_were_is_told_where_they_were() -> None:
    name = "tokens per answer where only counts decide"
    assert judged(replace(sound(), shortened_to=3)).measured[name] == 3
    assert name not in judged(sound()).measured


def test_tokens_are_shown_beside_the_law() -> None:
    judgement = judged(evidence([[0, 1]] * 6 + [[0, 0]] * 2 + [[1, 2]] * 3 + [[2, 0]] * 2 + [[3, 0]]), target_tv=0.9)
    (table,) = judgement.tables
    assert [row[:3] for row in table.rows[:4]] == [
        ("'a'", repr(token), n) for token, n in zip("abcd", (2, 6, 0, 0), strict=True)
    ]
    assert table.rows[1][3] == 0.75
    assert table.rows[1][4] == pytest.approx(0.25)
    assert {row[0] for row in table.rows} == {"'a'", "'b'", "'c'"}
    assert {row[1] for row in table.rows} == {"'a'", "'b'", "'c'", "'d'"}, "none that cannot come and did not"
