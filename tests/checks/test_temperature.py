from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from draftproof.checks import examples as made
from draftproof.checks.sampling.collecting import LEAST_DRAFTED
from draftproof.checks.sampling.laws import PrefixRow, known_model
from draftproof.checks.sampling.streams import Stream
from draftproof.checks.sampling.temperature import HOT, Evidence, judge, next_size
from draftproof.client.coupling import predict
from draftproof.core.law import Law
from draftproof.core.mt19937 import MT19937, draws_of
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict
from draftproof.countable.catalogue import servable

LAW = (0.4, 0.25, 0.2, 0.1, 0.05)


def at(law: Sequence[float] | Law, temperature: float, top_k: int = 0) -> Law:
    kept = np.where(np.arange(len(law)) < (top_k or len(law)), np.log(law), -np.inf)
    hot = np.exp((kept - kept.max()) / temperature)
    return np.asarray(hot / hot.sum())


def row(law: Sequence[float], listed: int, *, texts: bool = False) -> OracleRow:
    ids = tuple(range(listed)) if not texts else (-1,) * listed
    return OracleRow(
        ids, tuple("abcde"[:listed]), tuple(math.log(x) for x in law[:listed]), 2, complete=listed == len(law)
    )


def stream(
    drawn: float,
    *,
    law: Sequence[float] = LAW,
    top_k: int = 0,
    n: int = 400,
    drafted: int = 400,
    seed: int = 1,
    names: tuple[str, ...] = (),
) -> Stream:
    rng = np.random.default_rng(seed)
    first = rng.choice(len(law), size=n, p=at(law, HOT, top_k))
    later = rng.choice(len(law), size=n, p=at(law, drawn, top_k))
    samples = tuple((int(a), int(b)) for a, b in zip(first, later, strict=True))
    return Stream(
        made.PROMPT, Sampling(temperature=HOT, top_k=top_k), tuple(range(n)), samples, drafted, drafted // 3, names
    )


def judged(
    *streams: Stream, rows: Sequence[OracleRow] = (), noise: float = 1e-6, but: Sequence[tuple[int, ...]] = ()
) -> Judgement:
    prefixes: list[tuple[int, ...]] = [(), *((a,) for a in range(5))]
    known = tuple(PrefixRow(n, p, r) for n, r in enumerate(rows) for p in prefixes if p not in but)
    return judge(Evidence(made.LIVE_ON, noise, "", streams, known), Terms())


@pytest.mark.parametrize(("drawn", "verdict"), [(HOT, Verdict.PASS), (0.7, Verdict.FAIL), (0.0001, Verdict.FAIL)])
def test_a_law_that_is_cut_is_read_from_its_first_tokens(drawn: float, verdict: Verdict) -> None:
    """Top-k 3 of a list of four, whose fourth is clearly less likely than the third."""
    assert judged(stream(drawn, top_k=3, n=3000), rows=[row(LAW, 4)]).verdict is verdict


def test_a_cut_that_is_not_clear_tells_nothing() -> None:
    three = row(LAW, 3)
    assert "no token after the first" in judged(stream(0.7, top_k=3), rows=[three]).summary, (
        "where the cut is, is not listed"
    )
    near = (0.4, 0.25, 0.16, 0.14, 0.05)
    assert judged(stream(0.3, law=near, top_k=3, n=3000), rows=[row(near, 4)]).verdict is Verdict.FAIL
    partial = row(LAW, 4)
    assert "no token after the first" in judged(stream(0.7), rows=[partial]).summary, "not cut, and not all listed"


def test_tokens_by_text_are_found_by_their_names() -> None:
    """Names in another order than the list; one token that never came has none."""
    names = ("c", "a", "b", "d", "e")
    number = {0: 1, 1: 2, 2: 0, 3: 3, 4: 4}
    for drawn, verdict in ((HOT, Verdict.PASS), (0.5, Verdict.FAIL)):
        plain = stream(drawn)
        renamed = tuple(tuple(number[x] for x in s) for s in plain.samples)
        named = Stream("text", plain.sampling, plain.seeds, renamed, 400, 130, names)
        evidence = Evidence(
            made.LIVE_ON,
            1e-6,
            "",
            (named,),
            tuple(PrefixRow(0, p, row(LAW, 5, texts=True)) for p in [(), *((a,) for a in range(5))]),
        )
        assert judge(evidence, Terms()).verdict is verdict
    few = tuple(s for s in stream(HOT).samples if 4 not in s)
    unnamed = Stream("text", Sampling(temperature=HOT), tuple(range(len(few))), few, 400, 130, ("a", "b", "c", "d"))
    evidence = Evidence(
        made.LIVE_ON, 1e-6, "", (unnamed,), tuple(PrefixRow(0, (a,), row(LAW, 5, texts=True)) for a in range(4))
    )
    assert judge(evidence, Terms()).measured["tokens"] == len(few)


def test_a_prefix_without_a_row_is_passed_over() -> None:
    plain = stream(HOT)
    judgement = judged(plain, rows=[row(LAW, 5)], but=[(1,)])
    assert judgement.measured["tokens"] == sum(s[0] != 1 for s in plain.samples)


def test_a_known_law_needs_no_rows() -> None:
    name = next(iter(servable())).name
    known = known_model(name)
    rng = np.random.default_rng(5)

    def drawn(temperature: float) -> Stream:
        def pick(context: tuple[int, ...], t: float) -> int:
            return int(rng.choice(known.vocabulary, p=at(np.exp(known.target(context)), t)))

        firsts = [pick(made.PROMPT, HOT) for _ in range(200)]
        samples = tuple((a, pick((*made.PROMPT, a), temperature)) for a in firsts)
        return Stream(made.PROMPT, Sampling(temperature=HOT), tuple(range(200)), samples, 200, 60)

    assert judge(Evidence(made.LIVE_ON, 1e-6, name, (drawn(HOT),)), Terms()).verdict is Verdict.PASS
    assert judge(Evidence(made.LIVE_ON, 1e-6, name, (drawn(0.3),)), Terms()).verdict is Verdict.FAIL
    assert judge(Evidence(made.LIVE_ON, 1e-6, name, ()), Terms()).verdict is Verdict.INCONCLUSIVE


def test_a_pass_is_of_streams_that_drafted() -> None:
    """A long stream that drafted nothing beside a short one that did: the short one's tokens alone must tell."""
    quiet, drafting = stream(HOT, drafted=0), stream(HOT, n=12, seed=2)
    judgement = judged(quiet, drafting, rows=[row(LAW, 5)] * 2)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.tables[0].rows[1][1] == 12
    assert judgement.measured["tokens"] == 412
    both = judged(quiet, stream(HOT, seed=2), rows=[row(LAW, 5)] * 2)
    assert both.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("drafted", "verdict"), [(LEAST_DRAFTED, Verdict.PASS), (LEAST_DRAFTED - 1, Verdict.INCONCLUSIVE)]
)
def test_enough_must_have_been_drafted(drafted: int, verdict: Verdict) -> None:
    assert judged(stream(HOT, drafted=drafted), rows=[row(LAW, 5)]).verdict is verdict


@pytest.mark.parametrize(("drawn", "code"), [(0.0001, "GREEDY"), (0.09, "GREEDY"), (0.35, "WRONG_TEMPERATURE")])
def test_hardly_any_temperature_is_called_greedy(drawn: float, code: str) -> None:
    judgement = judged(stream(drawn, n=1500), rows=[row(LAW, 5)])
    assert judgement.codes == (code,)
    assert ("are drawn greedily" in judgement.summary) is (code == "GREEDY")


def test_a_share_of_greedy_tokens_is_told_as_one() -> None:
    greedy, right = stream(0.0001, n=1500), stream(HOT, n=1500, seed=4)
    mixed = Stream(made.PROMPT, right.sampling, right.seeds, greedy.samples[:700] + right.samples[700:], 400, 130)
    judgement = judged(mixed, rows=[row(LAW, 5)])
    assert judgement.codes == ("GREEDY",)
    assert "a share of them greedily" in judgement.summary


def test_the_later_tokens_are_the_ones_that_are_told() -> None:
    judgement = judged(stream(0.7), rows=[row(LAW, 5)])
    first, later = (r[2] for r in judgement.tables[0].rows)
    assert first == pytest.approx(HOT, rel=0.3)
    assert later == pytest.approx(0.7, rel=0.3)


def test_conditions_may_be_cut_to_different_numbers_of_tokens() -> None:
    two, three = stream(HOT, top_k=2, n=3000), stream(HOT, top_k=3, n=3000, seed=3)
    assert judged(two, three, rows=[row(LAW, 4)] * 2).verdict is Verdict.PASS


def test_a_pass_wants_a_limit_on_either_side() -> None:
    """From few answers to many: first any temperature fits, and a pass comes once both sides are refuted."""
    for n in (20, 40, 60, 80, 120, 160, 240, 320, 400):
        judgement = judged(stream(HOT, n=n), rows=[row(LAW, 5)])
        low, high = judgement.tables[0].rows[1][3:]
        assert isinstance(low, float)
        assert isinstance(high, float)
        assert (judgement.verdict is Verdict.PASS) is (low >= HOT / 2 and high < math.inf)


def test_no_limit_above_is_no_pass() -> None:
    """Tokens drawn somewhat hotter than asked for: too few to refute that, enough to refute anything colder than half of it."""
    judgement = judged(stream(5.0, n=120), rows=[row(LAW, 5)])
    low, high = judgement.tables[0].rows[1][3:]
    assert isinstance(low, float)
    assert low >= HOT / 2
    assert high == math.inf
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "too peaked" in judgement.summary


@pytest.mark.parametrize(
    ("noise", "judged"),
    [
        (1e-6, 4),
        (
            0.01,
            2,
        ),  # the third and the fourth token are 0.1 nat apart, the edge is 0.2: which of them came in is not known
        (0.1, 0),  # one token alone tells no temperature
    ],
)
def test_tokens_near_the_edge_of_top_k_are_left_out_and_the_others_keep_their_odds(noise: float, judged: int) -> None:
    row = OracleRow(tuple(range(5)), tuple("abcde"), (-0.5, -1.5, -2.9, -3.0, -4.0), 2)
    samples = ((0, 0), (0, 1), (0, 2), (0, 2))
    stream = Stream(made.PROMPT, Sampling(temperature=HOT, top_k=3), (1, 2, 3, 4), samples)
    evidence = Evidence(made.LIVE_OFF, noise, "", (stream,), (PrefixRow(0, (0,), row),))
    assert judge(evidence, Terms()).measured["tokens"] == judged


def replayable(tells: int, silent: int, wrong: int = 0) -> tuple[Stream, int]:
    """Answers that are their seeds' own at temperature 2: `tells` of them would have another second token at 1, and `silent` ones
    the same. Of both, `wrong` have a second token that neither gives. And how many are not the own draws at 1 after a first token
    that is.
    """
    seeds = range(1000, 3000)
    u = draws_of(seeds, 2)
    hot, cold = (predict(np.broadcast_to(at(LAW, t), (2000, 2, 5)), u).tokens.tolist() for t in (HOT, HOT / 2))
    same_first = [i for i in range(2000) if hot[i][0] == cold[i][0]]
    chosen = [i for i in same_first if hot[i][1] != cold[i][1]][:tells]
    chosen = [*[i for i in same_first if hot[i][1] == cold[i][1]][:silent], *chosen]
    samples = [tuple(hot[i]) for i in chosen]
    for n in range(wrong):
        other = next(x for x in range(5) if x not in (hot[chosen[n]][1], cold[chosen[n]][1]))
        samples[n] = (samples[n][0], other)
    numbers = tuple(seeds[i] for i in chosen)
    sampling = Sampling(temperature=HOT)
    return Stream(made.PROMPT, sampling, numbers, tuple(samples), 400, 130), tells + min(wrong, silent)


def by_seeds(some: Stream, *, noise: float = 0.5) -> Judgement:
    """The noise is too large to read a temperature from what was drawn."""
    rows = tuple(PrefixRow(0, p, row(LAW, 5)) for p in [(), *((a,) for a in range(5))])
    return judge(Evidence(made.LIVE_ON, noise, "", (some,), rows, coupling=MT19937), Terms())


@pytest.mark.parametrize(
    ("tells", "n", "verdict"),
    [
        (10, 48, Verdict.PASS),
        (9, 48, Verdict.INCONCLUSIVE),
        (9, 200, Verdict.INCONCLUSIVE),
        (10, 47, Verdict.INCONCLUSIVE),
    ],
)
def test_seeds_must_bound_it_and_ten_draws_tell_half_the_temperature_apart(
    tells: int, n: int, verdict: Verdict
) -> None:
    """48 draws without a mismatch are the least that bound the total variation by .15."""
    some, _ = replayable(tells, n - tells)
    assert len(some.samples) == n
    judgement = by_seeds(some)
    assert judgement.verdict is verdict
    if verdict is Verdict.PASS:
        assert f"{n} tokens after the first are their seeds' own draws at temperature 2" in judgement.summary
        assert judgement.summary.endswith(f"; {tells} of them would not be at 1")
        assert judgement.statements[1].error_probability == Terms().pass_error / 2


def test_mismatches_at_the_temperature_asked_for_do_not_count_as_apart() -> None:
    some, colder = replayable(30, 270, wrong=5)
    judgement = by_seeds(some)
    assert judgement.verdict is Verdict.PASS
    assert judgement.summary.endswith(f"; {colder - 5} of them would not be at 1")


def test_draws_that_are_not_those_of_the_seeds_pass_nothing_by_them() -> None:
    """Every fifth is not: too many to call the others replayed."""
    some, _ = replayable(60, 240, wrong=60)
    assert by_seeds(some).verdict is Verdict.INCONCLUSIVE
    few, _ = replayable(10, 15)
    assert by_seeds(few).verdict is Verdict.INCONCLUSIVE


def test_one_row_is_enough_to_see_whether_rows_are_whole() -> None:
    plain = stream(HOT)
    some = Evidence(made.LIVE_ON, 1e-6, "", (plain,), (PrefixRow(0, (1,), row(LAW, 5)),), coupling=MT19937)
    assert judge(some, Terms()).measured["tokens"] == sum(s[0] == 1 for s in plain.samples)


@pytest.mark.parametrize(("took_s", "size"), [(1.0, 16), (15.0, 16), (18.0, 10), (24.0, 4), (25.0, 0), (40.0, 0)])
def test_a_batch_is_as_large_as_all_before_it_or_as_comes_in_time(took_s: float, size: int) -> None:
    assert next_size(16, took_s, 30.0) == size
