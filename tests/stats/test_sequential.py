from __future__ import annotations

import itertools
from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.core.distribution import Law
from draftproof.countable.simulate import Server, observed, simulate
from draftproof.countable.table import TablePair, random_table
from draftproof.stats.faults import FAULTS, SOUND, Rule
from draftproof.stats.learners import Rows
from draftproof.stats.sequential import EProcess, ImpossibleToken, parallel_log_e, select

RULES = {rule.name: rule for rule in (*FAULTS, *SOUND)}
TARGET = random_table(5, 2, seed=1, spread=1.2)
PAIR = TablePair("random", TARGET, TARGET.noisy(1.0, seed=2))


def rows_from(rule: str, requests: int, seed: int, tokens: int = 12, lookahead: bool = False) -> Rows:
    server = Server(PAIR, (0, 1), RULES[rule])
    return observed(server, simulate(server, requests, tokens, np.random.default_rng(seed)), lookahead=lookahead)


def feed(process: EProcess, rows: Rows) -> Law:
    return process.observe_many(rows.p, rows.x, q=rows.q, next_top=rows.next_top, contexts=rows.contexts)


def test_one_by_one_is_all_at_once() -> None:
    rows = rows_from("no_residual", 6, 1, lookahead=True)
    assert rows.q is not None
    assert rows.next_top is not None
    single, together = EProcess(5, True, 0.01), EProcess(5, True, 0.01)
    at_once = feed(together, rows)
    for i in range(len(rows)):
        now = single.observe(
            rows.p[i], int(rows.x[i]), q=rows.q[i], next_top=rows.next_top[i], context=rows.contexts[i]
        )
        assert now == pytest.approx(at_once[i], abs=1e-9)
    assert single.log_e == pytest.approx(together.log_e)
    assert single.max_log_e == pytest.approx(together.max_log_e)
    assert single.tokens == together.tokens == len(rows)
    assert single.position_log_e() == pytest.approx(together.position_log_e())


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_from("rejection", 20, 2)
    whole = feed(EProcess(5, True), rows)
    monkeypatch.setattr("draftproof.stats.sequential._CHUNK", 7)
    np.testing.assert_allclose(feed(EProcess(5, True), rows), whole, atol=1e-9)


def test_order_of_answers_does_not_blur_the_blocks() -> None:
    """All answers a token further at a time: every block bet ends with the money it has when answers come whole."""
    rows = rows_from("coin_toss_acceptance_1", 40, 2)
    by_position = np.argsort(np.tile(np.arange(11), 40), kind="stable")
    ends = []
    for order in (np.arange(len(rows)), by_position):
        process = EProcess(5, True)
        feed(
            process,
            Rows(
                rows.p[order],
                rows.x[order],
                _rows(rows.q)[order],
                None,
                [rows.contexts[i] for i in order],
                rows.streams,
            ),
        )
        blocks = [bet.block > 0 for bet in process._bets.bets]
        ends.append(process._wealth[blocks])
    np.testing.assert_allclose(ends[0], ends[1])


def test_forgotten_answers_cost_power_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("draftproof.stats.blocks.REMEMBERED", 2)
    process = EProcess(5, True)
    rows = rows_from("coin_toss_acceptance_1", 40, 2)
    for i in range(len(rows)):
        part = select(rows, slice(i, i + 1))
        feed(process, part)
    assert process.max_log_e > log(1e6)


def _rows(law: Law | None) -> Law:
    assert law is not None
    return law


def test_streams_are_separate_audits() -> None:
    rows = rows_from("redraw_on_mismatch", 30, 3)
    streams = np.arange(len(rows)) // 11 % 3
    together = parallel_log_e(replace(rows, streams=streams), draft_known=True, noise=0.005)
    for stream in range(3):
        alone = feed(EProcess(5, True, 0.005), select(rows, streams == stream))
        np.testing.assert_allclose(together[streams == stream], alone, atol=1e-9)


def test_chunks_and_streams_of_one_token_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_from("greedy", 4, 3)
    three, each = np.arange(len(rows)) % 3, np.arange(len(rows))
    whole = parallel_log_e(replace(rows, streams=three), draft_known=True)
    monkeypatch.setattr("draftproof.stats.sequential._CHUNK", 7)
    np.testing.assert_allclose(parallel_log_e(replace(rows, streams=three), draft_known=True), whole, atol=1e-9)
    alone = parallel_log_e(replace(rows, streams=each), draft_known=True)
    firsts = [feed(EProcess(5, True), select(rows, each == 0))[0], feed(EProcess(5, True), select(rows, each == 9))[0]]
    np.testing.assert_allclose(alone[[0, 9]], firsts, atol=1e-9)


@pytest.mark.parametrize(
    "name", ["draft_top", "greedy", "rank_residual", "draft_top_rank_residual", "no_residual", "temperature_0.5"]
)
def test_a_fault_is_found_and_named(name: str) -> None:
    process = EProcess(5, True)
    feed(process, rows_from(name, 80, 4))
    assert process.max_log_e > log(1e6)
    leader = process.leading(1)[0]
    assert (leader.name, leader.fault) == (name, True)
    assert leader.weight > 0.9


def test_block_length_is_told() -> None:
    process = EProcess(5, True)
    feed(process, rows_from("coin_toss_acceptance_1", 80, 5))
    leader = process.leading(1)[0]
    assert (leader.name, leader.block, leader.share) == ("coin_toss_acceptance_1", 3, 1.0)


def test_a_fault_without_a_name_is_found_by_the_learners() -> None:
    process = EProcess(5, True, faults=[r for r in FAULTS if r.name != "rank_residual"])
    feed(process, rows_from("rank_residual", 200, 6))
    assert process.max_log_e > log(1e6)


def test_a_fault_is_found_without_the_draft() -> None:
    rows = rows_from("rank_residual", 300, 7)
    process = EProcess(5, draft_known=False)
    process.observe_many(rows.p, rows.x, contexts=rows.contexts)
    assert process.max_log_e > log(1e6)
    assert not process.leading(1)[0].fault


def test_a_fault_of_the_joint_law_alone_is_found() -> None:
    """Every token repeats the one before it more or less often by turns of the token before that: each single law is right."""
    rng = np.random.default_rng(8)
    p = np.full((3000, 2), 0.5)
    x = rng.integers(0, 2, size=3000)
    x[2::3] = np.where(rng.random(1000) < 0.8, x[::3] ^ x[1::3], 1 - (x[::3] ^ x[1::3]))
    contexts = [tuple(x[3 * (i // 3) : i].tolist()) for i in range(3000)]
    process = EProcess(2, draft_known=False)
    process.observe_many(p, x, contexts=contexts)
    assert process.max_log_e > log(1e6)
    assert process.leading(1)[0].name.startswith("token")


def test_impossible_tokens_are_listed_and_change_nothing_else() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    process, without = EProcess(3, False), EProcess(3, False)
    log_e = process.observe_many(p, [2, 0, 2], contexts=[(7,), (7, 2), (7, 2, 0)])
    assert process.impossible == [ImpossibleToken(2, (7,))]
    assert log_e[0] == pytest.approx(0, abs=1e-12)
    without.observe_many(p[1:], [0, 2], contexts=[(7, 2), (7, 2, 0)])
    assert process.log_e == pytest.approx(without.log_e)
    assert process.tokens == 3
    assert EProcess(3, False).observe(p[0], 2) == pytest.approx(0, abs=1e-12)


def test_only_impossible_tokens_leave_the_evidence_where_it_was() -> None:
    process = EProcess(2, False)
    before = process.observe([0.5, 0.5], 0)
    assert process.observe([1.0, 0.0], 1) == pytest.approx(before)
    assert len(process.impossible) == 1


def test_the_evidence_beside_impossible_tokens_is_that_before_them() -> None:
    sure, fair = [1.0, 0.0], [0.5, 0.5]
    process, without = EProcess(2, False), EProcess(2, False)
    log_e = process.observe_many([sure, fair, sure, sure, fair, sure], [1, 0, 1, 1, 0, 1])
    one, two = without.observe_many([fair, fair], [0, 0])
    assert log_e == pytest.approx([0, one, one, one, two, two], abs=1e-12)
    assert process.tokens == 6
    assert [i.token for i in process.impossible] == [1] * 4
    assert EProcess(2, False).observe_many([fair, sure], [0, 1]) == pytest.approx([one, one], abs=1e-12)


def test_the_best_moment_is_kept_and_is_never_below_the_start() -> None:
    process = EProcess(5, True)
    sound = feed(process, rows_from("rejection", 10, 1))
    assert process.max_log_e == max(0.0, sound.max())
    quiet = EProcess(2, False)
    assert quiet.observe_many([[0.999, 0.001]] * 3, [0, 0, 0]).max() < 0.5
    assert 0 <= quiet.max_log_e < 0.5
    wrong = feed(process, rows_from("greedy", 10, 2))
    best = process.max_log_e
    assert best == wrong.max()
    feed(process, rows_from("rejection", 10, 3))
    assert process.max_log_e >= best


def test_the_weights_of_all_explanations_add_to_one() -> None:
    process = EProcess(5, True)
    feed(process, rows_from("greedy", 3, 4))
    every = process.leading(1000)
    assert sum(leader.weight for leader in every) == pytest.approx(1)
    assert process.leading() == every[:3]
    assert all(leader.share > 0 for leader in every)
    assert [leader.weight for leader in every] == sorted((leader.weight for leader in every), reverse=True)


def test_positions_point_at_the_fault() -> None:
    good, bad = rows_from("rejection", 60, 9), rows_from("greedy", 60, 9)
    lengths = np.array([len(c) for c in good.contexts])
    x = np.where(lengths == 5, bad.x, good.x)
    assert good.q is not None
    assert bad.q is not None
    here = (lengths == 5)[:, None]
    p, q = np.where(here, bad.p, good.p), np.where(here, bad.q, good.q)
    process = EProcess(5, True)
    process.observe_many(p, x, q=q, contexts=good.contexts)
    by_position = process.position_log_e()
    assert max(by_position, key=lambda at: by_position[at]) == 5
    assert by_position[5] > log(1e6)
    assert sum(value > log(1e3) for value in by_position.values()) == 1


def test_share_bounds_of_a_sound_server() -> None:
    process = EProcess(5, True)
    assert set(process.share_bounds(0.001).values()) == {1.0}
    feed(process, rows_from("rejection", 300, 10))
    bounds = process.share_bounds(0.001)
    assert bounds.keys() == {rule.name for rule in FAULTS}
    assert bounds["draft_top"] < 0.1
    assert bounds["greedy"] < 0.1
    assert bounds["draft_top"] < bounds["no_residual"] < bounds["lenient_ratio_0.95"]
    assert bounds["short_drafts_dropped_0.45"] == 1  # nothing was known of the draft after each token


def test_noise_makes_share_bounds_larger() -> None:
    rows = rows_from("rejection", 100, 10)
    clean, noisy = EProcess(5, True), EProcess(5, True, 0.05)
    for process in (clean, noisy):
        feed(process, rows)
    without, guarded = clean.share_bounds(0.001), noisy.share_bounds(0.001)
    assert all(guarded[name] >= without[name] for name in without)
    assert guarded["greedy"] > 1.05 * without["greedy"]


def test_share_bounds_cover_the_share_that_was_there() -> None:
    server = Server(PAIR, (0, 1), RULES["greedy"], drafted=1000, share=0.3)
    rows = observed(server, simulate(server, 300, 12, np.random.default_rng(11)))
    process = EProcess(5, True)
    feed(process, rows)
    assert 0.3 < process.share_bounds(0.001)["greedy"] < 0.9
    assert process.leading(1)[0].name == "greedy"


def test_own_rules_join_the_library() -> None:
    always_two = Rule(
        "always_two", "emits token 2", RULES["greedy"].needs, lambda s: RULES["greedy"].outcome(replace(s, p=_two(s.p)))
    )
    process = EProcess(5, True, faults=(*FAULTS, always_two))
    rows = rows_from("rejection", 3, 12)
    feed(process, replace(rows, x=np.full(len(rows), 2)))
    assert process.leading(1)[0].name == "always_two"


def _two(p: Law) -> Law:
    return np.broadcast_to(np.eye(5)[2], p.shape)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": [[0.5, 0.5]], "x": [0], "q": None}, "q is missing"),
        ({"p": [[0.5, 0.4, 0.1]], "x": [0], "q": [[0.5, 0.5]]}, "p has shape"),
        ({"p": [[0.5, 0.6]], "x": [0], "q": [[0.5, 0.5]]}, "p must sum to 1"),
        ({"p": [[1.5, -0.5]], "x": [0], "q": [[0.5, 0.5]]}, "nonnegative"),
        ({"p": [[0.5, 0.5]], "x": [2], "q": [[0.5, 0.5]]}, "tokens must lie"),
        ({"p": [[0.5, 0.5]], "x": [-1], "q": [[0.5, 0.5]]}, "tokens must lie"),
        ({"p": [[0.5, 0.5]], "x": [0], "q": [[0.5, 0.4]]}, "q must sum to 1"),
        ({"p": [[0.5, float("nan")]], "x": [0], "q": [[0.5, 0.5]]}, "finite"),
        ({"p": [[0.5, 0.5]], "x": [0], "q": [[0.5, 0.5]], "contexts": []}, "0 contexts for 1 tokens"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EProcess(2, True).observe_many(**arguments)  # type: ignore[arg-type]


def test_no_tokens_are_no_evidence() -> None:
    process = EProcess(3, False)
    assert process.observe_many(np.zeros((0, 3)), []).shape == (0,)
    assert process.log_e == pytest.approx(0, abs=1e-12)
    assert process.max_log_e == 0


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_evidence_is_a_supermartingale(seed: int) -> None:
    """E of E after two tokens, over all their values, is exactly 1."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(3), size=(2, 4))
    total = 0.0
    for x in range(3):
        for y in range(3):
            process = EProcess(3, True)
            process.observe_many([p[0], p[1 + x]], [x, y], q=[q[0], q[1 + x]], contexts=[(0,), (0, x)])
            total += p[0][x] * p[1 + x][y] * np.exp(process.log_e)
    assert total == pytest.approx(1, abs=1e-9)


def test_noise_without_a_guard_raises_false_alarms_and_with_it_none() -> None:
    """200 clean audits of 1000 tokens at one context, log p off by .1 RMS, at 1e-3: over 4 guarded alarms have probability 3e-6."""
    rng = np.random.default_rng(13)
    p = np.array([0.5, 0.3, 0.15, 0.05])
    error = rng.standard_normal((200, 4))
    truth = p * np.exp(0.1 * error / np.sqrt((p * error**2).sum(axis=1, keepdims=True)))
    truth /= truth.sum(axis=1, keepdims=True)
    x = (rng.random((200, 1000, 1)) > np.cumsum(truth, axis=1)[:, None, :-1]).sum(axis=2).ravel()
    streams = np.repeat(np.arange(200), 1000)
    rows = Rows(np.tile(p, (len(x), 1)), x, None, None, [(0,)] * len(x), streams)
    alarms = {}
    for noise in (0.0, 0.1):
        log_e = parallel_log_e(rows, draft_known=False, noise=noise, faults=()).reshape(200, 1000)
        alarms[noise] = int((log_e.max(axis=1) >= log(1e3)).sum())
    assert alarms[0.0] > 4
    assert alarms[0.1] <= 4


def test_ten_thousand_clean_audits_raise_at_most_22_alarms() -> None:
    """Watched after every token at 1e-3: a true rate of 1e-3 gives more than 22 alarms with probability 3e-4."""
    alarms, audits = 0, 0
    for seed, rule in enumerate(("rejection", "exact_match") * 5):
        rows = rows_from(rule, 2000, seed, tokens=9, lookahead=seed == 0)
        streams = np.repeat(np.arange(1000), 16)
        log_e = parallel_log_e(replace(rows, streams=streams), draft_known=True).reshape(1000, 16)
        alarms += int((log_e.max(axis=1) >= log(1e3)).sum())
        audits += len(log_e)
    assert audits == 10_000
    assert alarms <= 22


def test_what_may_come_seldom_and_never_does_is_no_evidence() -> None:
    """60,000 tokens of an honest server, of which up to 1 in 1000 may be a slip: to expect them would cost 60 nats."""
    rng = np.random.default_rng(5)
    laws = np.array([[0.5, 0.3, 0.2, 0.0], [0.8, 0.15, 0.05, 0.0]])
    where = rng.integers(0, 2, 60_000)
    x = (rng.random((60_000, 1)) > laws[where].cumsum(axis=1)[:, :3]).sum(axis=1)
    process = EProcess(4, draft_known=False, noise=0.01)
    process.observe_many(laws[where], x, contexts=[(int(w),) for w in where], slip=0.001)
    assert process.max_log_e < log(100)
    assert process.log_e < 0
    assert not process.impossible


@pytest.mark.parametrize("last", [0.0, 0.0004])
@pytest.mark.parametrize("true", [0.0, 0.0005, 0.001])
def test_the_wealth_does_not_grow_on_average_whatever_the_rate_of_slips(last: float, true: float) -> None:
    """Exactly: every pair of tokens, weighted by its probability, after 50 that taught the learners something."""
    p = np.array([0.6, 0.3, 0.1, 0.0]) * (1 - last)
    p[-1] = last
    law = p / (1 - last) * (1 - true)
    law[-1] = true
    slip = 0.001 - last
    total = 0.0
    for pair in itertools.product(range(4), repeat=2):
        process = EProcess(4, draft_known=False)
        process.observe_many(np.tile(p, (50, 1)), [0, 0, 1, 0, 2] * 10, contexts=[(0,)] * 50, slip=slip)
        before = process.log_e
        log_e = process.observe_many(np.tile(p, (2, 1)), pair, contexts=[(0,)] * 2, slip=slip)
        total += exp(log_e[-1] - before) * law[pair[0]] * law[pair[1]]
    assert total <= 1 + 1e-12
    assert total > 0.99


def test_slips_that_come_too_often_are_evidence() -> None:
    rng = np.random.default_rng(6)
    x = np.where(rng.random(1000) < 0.05, 2, rng.integers(0, 2, 1000))
    process = EProcess(3, draft_known=False)
    process.observe_many(np.tile([0.5, 0.5, 0.0], (1000, 1)), x, contexts=[(0,)] * 1000, slip=0.001)
    assert process.log_e > log(1e7)
    assert process.max_log_e >= process.log_e
    assert process.slips_lead
    assert not process.impossible
