"""How samples are taken in as they grow: which draws are compared with their seeds', and what a bound by counts is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from draftproof.checks import examples as made
from draftproof.checks.sampling.assessment import Assessment, Bound, option
from draftproof.checks.sampling.laws import LawBook, PrefixRow
from draftproof.checks.sampling.streams import UNSEEDED, Stream
from draftproof.client.coupling import predict, predict_for
from draftproof.core.mt19937 import MT19937, draws_of
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.verdict import Statement
from draftproof.stats.equivalence import mean_tv_upper

LAW = (0.5, 0.25, 0.15, 0.1, 0.0)
"""The last letter cannot come."""
ROW = OracleRow((0, 1, 2, 3), tuple("abcd"), tuple(map(math.log, LAW[:4])), 2, complete=True)
PREFIXES = [(), *((a,) for a in range(5)), *((a, b) for a in range(5) for b in range(5))]


def own(n: int, depth: int = 3, seed: int = 1000) -> list[tuple[int, ...]]:
    """The answers that the seeds from `seed` on give."""
    u = draws_of(range(seed, seed + n), depth)
    return [tuple(x) for x in predict(np.broadcast_to(np.array(LAW), (n, depth, 5)), u).tokens.tolist()]


def stream(samples: Sequence[tuple[int, ...]], seeds: Sequence[int] | None = None, seed: int = 1000) -> Stream:
    numbers = tuple(range(seed, seed + len(samples))) if seeds is None else tuple(seeds)
    return Stream(made.PROMPT, NEUTRAL, numbers, tuple(samples))


def assessment(but: Sequence[tuple[int, ...]] = (), streams: int = 1, coupling: str = MT19937) -> Assessment:
    """With laws after all prefixes of up to two tokens `but` these."""
    rows = [PrefixRow(n, prefix, ROW) for n in range(streams) for prefix in PREFIXES if prefix not in but]
    return Assessment(LawBook(None, rows, 5, 1e-6), coupling)


def replayed(found: Assessment) -> tuple[int, int, int, int]:
    """Of first tokens compared ones and wrong ones, and of later tokens."""
    c = found.coupling
    return c.control_tokens, c.control_mismatches, c.tokens, c.mismatches


def changed(sample: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*sample[:place], (sample[place] + 1) % 4, *sample[place + 1 :])


@pytest.mark.parametrize(
    ("samples", "said"),
    [(1, 10), (10, 20), (96, 120), (100, 130), (999, 1250), (1000, 1300), (1234, 1600), (12345, 16000)],
)
def test_a_quarter_is_to_spare_in_the_samples_to_ask_for_and_two_digits_are_enough(samples: int, said: int) -> None:
    assert option(samples) == f"--samples {said}"


def test_an_answer_is_compared_up_to_its_first_token_of_another_draw() -> None:
    answers = own(6)
    answers[1], answers[2], answers[3] = (changed(answers[n], n - 1) for n in (1, 2, 3))
    found = assessment()
    found.observe([stream(answers)])
    assert replayed(found) == (6, 1, 5 + 4, 2)
    assert found.later.tokens == 12
    assert found.first.tokens == 6


def test_answers_may_be_of_different_lengths() -> None:
    long, short, empty = own(3)
    found = assessment()
    found.observe([stream([long, short[:1], empty[:0]])])
    assert replayed(found) == (2, 0, 2, 0)


def test_an_answer_is_compared_up_to_its_first_context_of_no_law() -> None:
    answers = own(40)
    lost = answers[0][:1]
    found = assessment(but=[lost])
    found.observe([stream(answers)])
    known = sum(a[:1] != lost for a in answers)
    assert replayed(found) == (40, 0, 2 * known, 0)
    assert found.later.tokens == 2 * known + 40 - known, "after the lost one its tokens are judged, not replayed"


def test_answers_without_a_seed_are_judged_and_not_replayed() -> None:
    answers = own(4)
    found = assessment()
    found.observe([stream(answers, [1000, UNSEEDED, 1002, UNSEEDED])])
    assert replayed(found) == (2, 0, 4, 0)
    assert found.later.tokens == 8
    none = assessment()
    none.observe([stream(answers, [UNSEEDED] * 4)])
    assert replayed(none) == (0, 0, 0, 0)
    other = assessment(coupling="another generator")
    other.observe([stream(answers)])
    assert replayed(other) == (0, 0, 0, 0)
    zero = assessment()
    zero.observe([stream(own(1, seed=0), seed=0)])
    assert replayed(zero) == (1, 0, 2, 0)


def test_every_answer_is_looked_at_once() -> None:
    one, other = own(12), own(9, seed=5000)
    bit_by_bit, whole = assessment(streams=2), assessment(streams=2)
    for n in (4, 4, 12):
        bit_by_bit.observe([stream(one[:n]), stream(other[: n - 3], seed=5000)])
    whole.observe([stream(one), stream(other, seed=5000)])
    for found in (bit_by_bit, whole):
        assert replayed(found) == (21, 0, 42, 0)
        assert found.later.tokens == 42
        assert sum(sum(c.values()) for c in found.counts[1].values()) == 9
    assert bit_by_bit.counts == whole.counts


def test_conditions_may_have_answers_of_different_lengths() -> None:
    found = assessment(streams=2)
    found.observe([stream(own(4, depth=1)), stream(own(4, seed=5000), seed=5000)])
    assert replayed(found) == (8, 0, 8, 0)
    assert found.later.tokens == 8


def test_contexts_of_two_conditions_are_not_taken_for_one() -> None:
    answers = [(0, 4), (1, 4)]
    found = assessment(streams=2)
    found.observe([stream(answers[:1]), stream(answers[1:])])
    assert [(i.token, i.context) for i in found.later.impossible] == [(4, (-1, 0)), (4, (-2, 1))]


def test_second_tokens_of_the_first_condition_are_counted_by_what_is_before_them() -> None:
    answers = [(0, 1, 3), (0, 1, 2), (0, 2, 2), (1, 0, 0)]
    found = assessment(streams=2, coupling="")
    found.observe([stream(answers), stream([(3, 3, 3)])])
    assert found.counts[0] == {(0,): {1: 2, 2: 1}, (1,): {0: 1}}
    bound = found.bound([stream(answers), stream([(3, 3, 3)])], 0.01)
    assert bound is not None
    expected = mean_tv_upper([[0, 2, 1, 0], [1, 0, 0, 0]], [LAW[:4]] * 2, 0.005)
    assert (bound.tv, bound.n, bound.kind) == (expected.bound, 4, "counts")
    assert bound.statement.error_probability == 0.005
    only_second = assessment(streams=2, coupling="")
    only_second.observe([stream([]), stream(answers)])
    assert only_second.bound([stream([]), stream(answers)], 0.01) is None


def test_of_both_bounds_the_smaller_one_is_given() -> None:
    """A tenth of the answers have a second token of another draw from the law: that many mismatches counting outdoes."""
    mine, others = own(8000, depth=2), own(8000, depth=2, seed=50_000)
    rare = [(mine[i][0], others[i][1]) if i % 10 == 0 else mine[i] for i in range(8000)]
    for answers, kind in ((mine, "seeds"), (rare, "counts")):
        found = assessment()
        found.observe([stream(answers)])
        assert found.coupling.holds
        bound = found.bound([stream(answers)], 0.01)
        assert bound is not None
        assert bound.kind == kind
        assert bound.tv < 0.05
        assert bound.statement.error_probability == 0.005
        share = found.coupling.mismatches / found.coupling.tokens
        assert share == 0 if kind == "seeds" else share > bound.tv


def test_a_cell_that_cannot_come_and_did_counts() -> None:
    found = assessment(coupling="")
    answers = [(0, 4), (0, 0)]
    found.observe([stream(answers)])
    bound = found.bound([stream(answers)], 0.01)
    assert bound is not None
    assert bound.tv == mean_tv_upper([[1, 0, 0, 0, 1]], [LAW], 0.005).bound


def test_how_many_more_values_a_bound_takes() -> None:
    def missing(tv: float, n: int, kind: str, target: float) -> int:
        return Bound(tv, n, kind, Statement("", n, "", 0.01, {})).missing(target)

    assert missing(0.2, 100, "seeds", 0.05) == 300
    assert missing(0.2, 100, "counts", 0.05) == 1500
    assert missing(0.05, 100, "counts", 0.05) == 1, "one at the least"
    assert missing(0.2, 0, "counts", 0.05) == 0


def test_what_is_new_in_a_later_condition_is_seen_where_an_earlier_one_has_nothing_new() -> None:
    one, other = own(5), own(9, seed=5000)
    found = assessment(streams=2)
    found.observe([stream(one), stream(other[:2], seed=5000)])
    found.observe([stream(one), stream(other, seed=5000)])
    assert replayed(found) == (14, 0, 28, 0)


def test_draws_are_replayed_in_the_order_of_candidates_that_the_samplers_lead_to() -> None:
    """Top-k sorts the tokens of a law by id; cells of a list are sorted as they are."""
    law = (0.1, 0.5, 0.15, 0.25)
    row = OracleRow((0, 1, 2, 3), tuple("abcd"), tuple(map(math.log, law)), 2, complete=True)
    seeds = range(1000, 1040)
    u = draws_of(seeds, 1)[:, 0]
    cut = Sampling(top_k=3)
    kept = np.broadcast_to(np.array((0.0, 0.5, 0.15, 0.25)) / 0.9, (40, 4))
    drawn, unsorted = predict_for(cut, kept, u).tokens.tolist(), predict(kept, u).tokens.tolist()
    assert drawn != unsorted
    found = Assessment(LawBook(None, [PrefixRow(0, (), row)], 4, 1e-6), MT19937)
    found.observe([Stream(made.PROMPT, cut, tuple(seeds), tuple((x,) for x in drawn))])
    assert replayed(found) == (40, 0, 0, 0)
