"""How `sampling/unchanged` compares a request with speculation and without: from where on it decides, and what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from draftproof.checks import examples as made
from draftproof.checks.sampling.arms import Evidence, Pair, bound, coupled, first_difference, lacking, moved
from draftproof.checks.sampling.assessment import Bound
from draftproof.checks.sampling.laws import PrefixRow
from draftproof.checks.sampling.streams import Stream
from draftproof.checks.sampling.unchanged import judge
from draftproof.client.coupling import predict
from draftproof.core.ask import Completion
from draftproof.core.mt19937 import draws_of
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import GREEDY, NEUTRAL
from draftproof.core.terms import Terms
from draftproof.core.tokens import Alternative, TokenRecord
from draftproof.core.verdict import Judgement, Statement, Verdict

LAW = (0.5, 0.25, 0.15, 0.1, 0.0)
"""The last letter cannot come."""
TOP = (1.0, 0.0, 0.0, 0.0, 0.0)
IDS = (0, 1, 2, 0, 1, 2)
Answers = list[list[int]]


@cache
def _drawn(first: Sequence[float], later: Sequence[float], n: int, seed: int) -> Answers:
    u = draws_of(range(seed, seed + n), 2)
    columns = [predict(np.array(law), u[:, i]).tokens.tolist() for i, law in enumerate((first, later))]
    return [list(answer) for answer in zip(*columns, strict=True)]


def drawn(later: Sequence[float] = LAW, n: int = 100, seed: int = 1000, first: Sequence[float] = LAW) -> Answers:
    """n answers of two tokens, by these laws."""
    return [list(answer) for answer in _drawn(tuple(first), tuple(later), n, seed)]


def stream(answers: Answers, drafted: int = 0, seed: int = 1000) -> Stream:
    seeds = tuple(range(seed, seed + len(answers)))
    return Stream(made.PROMPT, NEUTRAL, seeds, tuple(map(tuple, answers)), drafted, drafted // 3)


def greedy(ids: Sequence[int] = IDS, gap: float = 1.0, moved: float = 0.0, drafted: int | None = None) -> Completion:
    """Each token at -.5 nat, moved, and its one rival, the next letter, `gap` below."""
    tokens = []
    for best in ids:
        rival = (best + 1) % 3
        listed = tuple(Alternative(i, made.letter(i), x) for i, x in ((best, -0.5), (rival, -0.5 - gap)))
        tokens.append(TokenRecord(best, made.letter(best), None, -0.5 + moved, listed))
    return made.answer(tokens, sampling=GREEDY, drafted=drafted, accepted=None if drafted is None else 2)


def pair(on: Sequence[int] = IDS, gap: float = 1.0, moved: float = 0.0, drafted: int | None = 9) -> Pair:
    return Pair(greedy(on, gap, moved, drafted), greedy(IDS, gap))


CHANGED = (0, 2, 2, 0, 1, 2)


def evidence(
    on: Answers | None = None,
    off: Answers | None = None,
    pairs: Sequence[Pair] = (),
    *,
    drafted: int = 60,
    noise: float = 1e-6,
    ended_s: float = 0.0,
) -> Evidence:
    """The same answers to the same seeds unless given; rows after no token and after each."""
    off = drawn() if off is None else off
    row = OracleRow((0, 1, 2, 3), tuple("abcd"), tuple(map(math.log, LAW[:4])), 2, complete=True)
    rows = tuple(PrefixRow(0, prefix, row) for prefix in [(), *((a,) for a in range(5))])
    arms = stream(off if on is None else on, drafted), stream(off)
    return Evidence(made.LIVE_ON, "speculative", False, noise, 5, tuple(pairs) or (pair(),), *arms, rows, ended_s)


def judged(some: Evidence, target_tv: float = 0.3, **terms: float) -> Judgement:
    return judge(some, Terms(target_tv=target_tv, **terms))


def with_other(answers: Answers, n: int) -> Answers:
    """The first n of them end otherwise."""
    return [[a, (b + 1) % 4] if i < n else [a, b] for i, (a, b) in enumerate(answers)]


# --- what both conditions show of one another


@pytest.mark.parametrize(("differ", "expected"), [(0, True), (2, True), (3, False)])
def test_seeds_may_give_another_answer_in_a_tenth_of_all_cases(differ: int, expected: bool) -> None:
    off = drawn(n=20)
    assert coupled(evidence(with_other(off, differ), off)) is expected


def test_only_seeds_that_both_were_given_are_compared() -> None:
    off = drawn(n=20)
    some = evidence([*off, *drawn(n=30, seed=5)], off)
    assert coupled(some)
    found = bound(some, 0.01)
    assert found is not None
    assert (found.n, found.kind) == (40, "seeds")
    strangers = replace(some, off=stream(off, seed=9000))
    assert not coupled(strangers)
    assert coupled(evidence(off[:1], off[:1])), "one is enough"


def test_a_bound_is_made_at_half_of_the_error_whatever_its_kind() -> None:
    off = drawn()
    for on, kind in ((off, "seeds"), (drawn(seed=7000), "counts")):
        found = bound(evidence(on, off), 0.01)
        assert found is not None
        assert found.kind == kind
        assert found.statement.error_probability == 0.005
    assert bound(replace(evidence(), off=None), 0.01) is None
    assert bound(replace(evidence(), on=None), 0.01) is None


def test_how_many_more_answers_a_bound_lacks() -> None:
    def made_of(tv: float, n: int = 50, kind: str = "counts") -> Bound:
        return Bound(tv, n, kind, Statement("", n, "", 0.01, {}))

    some = evidence()  # 100 answers
    assert lacking(some, made_of(0.2), 0.1) == 300
    assert lacking(some, made_of(0.2, kind="seeds"), 0.1) == 100
    assert lacking(some, made_of(1.0), 0.1) == 0
    assert lacking(some, made_of(0.2, n=0), 0.1) == 0
    assert lacking(some, None, 0.1) == 0
    assert lacking(replace(some, on=None), made_of(0.2), 0.1) == 0


def test_the_gap_of_a_difference_is_of_the_law_told_without_speculation() -> None:
    assert first_difference(pair()) is None
    found = first_difference(pair(CHANGED, gap=0.25))
    assert found is not None
    assert (found.position, found.gap) == (1, 0.25)
    beyond = first_difference(pair((0, 4, 2, 0, 1, 2)))
    assert beyond is not None
    left = 1 - math.exp(-0.5) - math.exp(-1.5)
    assert beyond.gap == pytest.approx(-0.5 - math.log(left)), "at least as far as what all others share"


def test_a_difference_has_no_gap_where_an_answer_ends_or_has_no_list() -> None:
    whole = pair(CHANGED)
    bare = TokenRecord(1, "b", None, 0.0, ())
    unlisted = replace(whole.off, tokens=(whole.off.tokens[0], bare, *whole.off.tokens[2:]))
    fewer = replace(whole.off, tokens=whole.off.tokens[:1])
    for some in (
        replace(whole, off=unlisted),
        replace(whole, off=fewer),
        pair(IDS[:4]),
        Pair(greedy(drafted=9), greedy(IDS[:4])),
    ):
        found = first_difference(some)
        assert found is not None
        assert found.gap is None
    for some in (replace(whole, off=fewer), pair(IDS[:4])):
        judgement = judged(evidence(pairs=[pair(), some]))
        assert judgement.verdict is Verdict.INCONCLUSIVE
        assert judgement.summary == "greedy answers differ where one of them ends or has no logprobs"
        assert judgement.more == 0


def test_values_move_where_both_answers_measured_them_after_equal_tokens() -> None:
    drafted = greedy(CHANGED[:1] + IDS[1:], moved=0.25)
    bare, none = TokenRecord(1, "b", None, 0.0, ()), replace(drafted.tokens[2], logprob=None)
    on = replace(drafted, tokens=(drafted.tokens[0], bare, none, *drafted.tokens[3:]))
    assert list(moved(Pair(on, greedy()))) == [0.25] * 4
    assert list(moved(Pair(greedy(), on))) == [0.25] * 4
    assert list(moved(pair(CHANGED, moved=0.25))) == [0.25]


# --- verdicts


@pytest.mark.parametrize(
    ("gap", "noise", "verdict"),
    [
        (0.0009, 1e-6, Verdict.PASS),
        (0.0011, 1e-6, Verdict.INCONCLUSIVE),
        (0.049, 1e-6, Verdict.INCONCLUSIVE),
        (0.051, 1e-6, Verdict.FAIL),
        (0.63, 0.15, Verdict.PASS),
        (0.65, 0.15, Verdict.INCONCLUSIVE),
        (1.26, 0.15, Verdict.INCONCLUSIVE),
        (1.28, 0.15, Verdict.FAIL),
    ],
)
def test_how_near_greedy_tokens_must_be_to_change_by_noise(gap: float, noise: float, verdict: Verdict) -> None:
    """Three and six times sqrt(2) of the noise of a value, at least .001 and .05 nat."""
    judgement = judged(evidence(pairs=[pair(), pair(CHANGED, gap=gap)], noise=noise))
    assert judgement.verdict is verdict
    assert judgement.measured["greedy answers that differ"] == 1
    assert judgement.more == 0


def test_the_worst_of_the_changed_answers_is_told() -> None:
    some = [pair(), pair(CHANGED, gap=0.3), pair((0, 1, 0, 0, 1, 2), gap=0.7), pair(CHANGED, gap=0.2)]
    judgement = judged(evidence(pairs=some))
    assert judgement.codes == ("CHANGED",)
    assert judgement.summary == "3 of 4 greedy answers change with speculation: token 3 by 0.70 nat"


@pytest.mark.parametrize(("shift", "noise", "codes"), [(0.049, 1e-6, ()), (-0.051, 1e-6, ("MOVED",)), (1.0, 0.15, ())])
def test_how_far_logprobs_may_move(shift: float, noise: float, codes: tuple[str, ...]) -> None:
    judgement = judged(evidence(pairs=[pair(), pair(moved=shift)], noise=noise))
    assert judgement.codes == codes
    assert judgement.measured["RMS difference of logprobs (nat)"] == pytest.approx(abs(shift))


def test_the_farthest_moved_answer_is_told_and_one_that_never_meets_the_other_moves_nothing() -> None:
    judgement = judged(evidence(pairs=[pair(moved=0.2), pair(moved=0.4), pair((1, 2, 0, 1, 2, 0), gap=1e-4)]))
    assert judgement.codes == ("MOVED",)
    assert "by 0.40 nat" in judgement.summary
    apart = judged(evidence(pairs=[pair((1, 2, 0, 1, 2, 0), gap=1e-4)]))
    assert apart.measured["RMS difference of logprobs (nat)"] == 0.0
    assert apart.verdict is Verdict.PASS


@pytest.mark.parametrize("side", ["on", "off"])
def test_a_failed_answer_leaves_its_pair_out(side: str) -> None:
    whole = pair(CHANGED)
    broken = replace(whole, **{side: replace(getattr(whole, side), status=500, error="broken")})
    assert "1 greedy answers equal" in judged(evidence(pairs=[pair(), broken])).summary
    alone = judged(evidence(pairs=[broken]))
    assert (alone.verdict, alone.summary) == (Verdict.INCONCLUSIVE, "too few answers came")
    assert alone.measured["RMS difference of logprobs (nat)"] == 0.0
    assert alone.more == 0


@pytest.mark.parametrize(("noise", "verdict"), [(0.2, Verdict.FAIL), (0.201, Verdict.INCONCLUSIVE)])
def test_laws_that_are_too_uncertain_tell_nothing(noise: float, verdict: Verdict) -> None:
    assert judged(evidence(pairs=[pair(CHANGED, gap=3.0)], noise=noise)).verdict is verdict


def test_a_switch_that_sometimes_lets_drafts_through_is_none() -> None:
    leaking = Pair(greedy(drafted=9), greedy(drafted=1))
    some = evidence()
    assert some.off is not None
    for leak in (evidence(pairs=[pair(), leaking]), replace(some, off=replace(some.off, drafted=1))):
        judgement = judged(leak)
        assert judgement.verdict is Verdict.INCONCLUSIVE
        assert "stops drafting only sometimes" in judgement.summary
        assert judgement.missing == "a switch that always works"


@pytest.mark.parametrize(
    ("arm", "place", "code"), [("on", "log e-value", "CHANGED"), ("off", "log e-value without speculation", "BASELINE")]
)
def test_half_of_alpha_is_for_the_tokens_with_speculation(arm: str, place: str, code: str) -> None:
    wrong, right = drawn(TOP, n=30), drawn(n=30, seed=7000)
    some = evidence(wrong, right) if arm == "on" else evidence(right, wrong)
    log_e = judged(some).measured[place]
    assert isinstance(log_e, float)
    assert log_e > 3
    enough, short = 2 * math.exp(-log_e) * (1 + 1e-9), 2 * math.exp(-log_e) * (1 - 1e-9)
    assert judged(some, alpha=enough).codes == (code,)
    assert judged(some, alpha=short).codes == ()
    assert judged(some, alpha=0.01).statements[0].error_probability == 0.005


def test_one_token_that_cannot_come_is_enough() -> None:
    right = drawn(n=20, seed=7000)
    for on, off, code in (
        ([[0, 4], *drawn(n=20)], right, "CHANGED"),
        (right, [[0, 4], *drawn(n=20)], "BASELINE"),
    ):
        assert judged(evidence(on, off)).codes == (code,)


def test_a_pass_needs_the_bound_that_is_asked_for_and_tells_it() -> None:
    judgement = judged(evidence())
    assert judgement.verdict is Verdict.PASS
    assert (
        "speculative=False changes nothing: 1 greedy answers equal, equal seeds give equal answers" in judgement.summary
    )
    assert len(judgement.statements) == 2
    assert judgement.measured["drafted"] == 60 + 9
    found = bound(evidence(), Terms().pass_error)
    assert found is not None
    assert judged(evidence(), target_tv=found.tv).verdict is Verdict.PASS
    short = judged(evidence(), target_tv=found.tv * (1 - 1e-9))
    assert short.verdict is Verdict.INCONCLUSIVE
    assert short.summary.endswith("is wanted")
    assert short.more == 1
    assert short.missing.startswith("about 1 more samples (--samples ")
    late = judged(evidence(ended_s=61.0), target_tv=found.tv / 2)
    assert late.summary.endswith("sampling ended after 61 s, its time at this effort")


def test_how_short_the_last_answers_were_is_told_where_they_were() -> None:
    name = "tokens per answer where only counts decide"
    assert judged(replace(evidence(), shortened_to=3)).measured[name] == 3
    assert name not in judged(evidence()).measured


def test_without_a_law_there_is_no_bound() -> None:
    some = replace(evidence(drawn(seed=7000), drawn()), rows=())
    judgement = judged(some)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "but only no bound where 0.3 is wanted" in judgement.summary
    assert judgement.missing == "tokens whose law is told without speculation"
    assert len(judgement.statements) == 1
    assert judgement.more == 0


@pytest.mark.parametrize(("drafted", "verdict"), [(30, Verdict.PASS), (29, Verdict.INCONCLUSIVE)])
def test_how_much_must_have_been_drafted(drafted: int, verdict: Verdict) -> None:
    judgement = judged(evidence(drafted=drafted, pairs=[pair(), pair(drafted=None)]))
    assert judgement.verdict is verdict
    assert judgement.measured["drafted"] == drafted + 9
    assert judgement.more == 0
    none = judged(evidence(drafted=drafted, pairs=[pair(drafted=None)]))
    assert none.verdict is Verdict.INCONCLUSIVE
    assert none.summary == f"only {drafted} tokens were drafted at temperature 1"
