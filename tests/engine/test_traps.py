"""The list of traps of speculative verification, one test each or one table of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.engine.models import ALL_NUMBERS, cycle, model_drafter, noisy, random_table, run, watched

from draftproof.core.coin import RngCoin
from draftproof.core.distribution import log_softmax, shape
from draftproof.core.errors import UsageError
from draftproof.core.law import Ids
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.speculation import DraftModel, Speculation
from draftproof.engine.backends.table import TableBackend
from draftproof.engine.draft.kind import Setup
from draftproof.engine.draft.model import ModelDrafter
from draftproof.engine.emit import Origin
from draftproof.engine.generate import Job
from draftproof.engine.in_step import run_alone
from draftproof.engine.speculate import make_plan
from draftproof.engine.stop import Finish
from draftproof.engine.verify import greedy, match, rejection
from draftproof.engine.verify.exact import answer_law, target_law
from draftproof.engine.verify.rule import Rule

SAMPLINGS = (
    NEUTRAL,
    Sampling(top_k=3, temperature=0.8),
    Sampling(repeat_penalty=1.4, presence_penalty=0.5),
    Sampling(dry_multiplier=1.0, dry_allowed_length=1),
    Sampling(xtc_probability=0.5, xtc_threshold=0.1),
    Sampling(mirostat=2, mirostat_tau=1.5),
    Sampling(temperature=0.0),
)
any_sampling = st.sampled_from(SAMPLINGS)
seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=60)
@given(seed=seeds, sampling=any_sampling, k=st.integers(1, 6), rule=st.sampled_from([match.RULE, rejection.RULE]))
def test_no_random_word_serves_two_decisions(seed: int, sampling: Sampling, k: int, rule: Rule) -> None:
    target = random_table(seed)
    coin = watched(seed)
    drafter = model_drafter(noisy(target, seed), k, sampling)
    run(target, Job((0, 1), 25, sampling), drafter, rule, coin=coin)
    assert [stream for stream, n in Counter(coin.words.asked).items() if n > 1] == []


@settings(deadline=None, max_examples=60)
@given(seed=seeds, sampling=any_sampling, k=st.integers(1, 6), drawn=st.booleans())
def test_exact_match_says_what_is_said_without_speculation(seed: int, sampling: Sampling, k: int, drawn: bool) -> None:
    target = random_table(seed)
    job = Job((0, 1), 25, sampling, seed=seed)
    alone = run(target, job, None, match.RULE)
    drafted = run(target, job, model_drafter(noisy(target, seed, 0.5), k, sampling, drawn=drawn), match.RULE)
    assert drafted.tokens == alone.tokens


@settings(deadline=None, max_examples=40)
@given(seed=seeds, k=st.integers(1, 6), rule=st.sampled_from([greedy.RULE, match.RULE, rejection.RULE]))
def test_every_rule_is_greedy_at_temperature_zero(seed: int, k: int, rule: Rule) -> None:
    target = random_table(seed)
    job = Job((0, 1), 25, Sampling(temperature=0.0), seed=seed)
    drafter = model_drafter(noisy(target, seed), k)
    assert run(target, job, drafter, rule).tokens == run(target, job, None, greedy.RULE).tokens


@settings(deadline=None, max_examples=60)
@given(seed=seeds, sampling=any_sampling, k=st.integers(1, 6), can_truncate=st.booleans())
def test_every_token_carries_the_numbers_of_its_own_row(
    seed: int, sampling: Sampling, k: int, can_truncate: bool
) -> None:
    """Raw logprob, alternatives and p of accepted, recovered, bonus and plain tokens equal a computation from scratch."""
    target = random_table(seed, can_truncate=can_truncate)
    job = Job((3, 0, 1), 20, sampling, seed=seed, report=ALL_NUMBERS)
    result = run(target, job, model_drafter(noisy(target, seed, 0.5), k, sampling), rejection.RULE)
    context = [3, 0, 1]
    for e in result.emitted:
        row = target.row(context)
        raw = log_softmax(row)
        assert e.position == len(context)
        np.testing.assert_array_equal(e.row, row)
        assert e.logprob == pytest.approx(raw[e.token], abs=1e-12)
        assert e.alternatives is not None
        assert e.alternatives.ids.tolist() == np.argsort(-row, kind="stable")[:3].tolist()
        np.testing.assert_allclose(e.alternatives.values, raw[e.alternatives.ids], atol=1e-12)
        if not sampling.mirostat and not sampling.has_xtc:
            p = shape(row, context, sampling)
            assert e.p == pytest.approx(p[e.token], abs=1e-12)
            assert e.sampled is not None
            np.testing.assert_allclose(e.sampled.values, p[e.sampled.ids], atol=1e-12)
        assert e.p is not None
        assert e.p > 0
        context.append(e.token)


def test_the_law_follows_what_was_accepted_before_in_the_same_block() -> None:
    """Penalties so strong that no token can come twice: a block of accepted drafts must not contain one twice either."""
    target = TableBackend(np.zeros((8, 8)))
    sampling = Sampling(presence_penalty=50.0, repeat_last_n=-1)
    for seed in range(30):
        drafter = model_drafter(target, 6)  # drafts without penalties: repetitions are proposed
        assert len(set(run(target, Job((0,), 7, sampling, seed=seed), drafter, rejection.RULE).tokens)) == 7


class Alternating:
    """Even tokens follow odd ones and the other way round; counts what it was told."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def allowed(self, ids: Ids) -> NDArray[np.bool_]:
        last = self.told[-1] if self.told else 0
        fits: NDArray[np.bool_] = ids % 2 != last % 2
        return fits

    def advance(self, token: int) -> None:
        self.told.append(token)


@pytest.mark.parametrize("rule", [rejection.RULE, match.RULE])
def test_a_grammar_is_told_of_emitted_tokens_only(rule: Rule) -> None:
    target = random_table(1, vocab=6)
    for seed in range(20):
        grammar = Alternating()
        drafter = model_drafter(noisy(target, 2, 0.3), 5)
        tokens = run(target, Job((0,), 20, seed=seed), drafter, rule, constraint=grammar).tokens
        assert grammar.told == tokens
        assert all((a + b) % 2 for a, b in zip([0, *tokens], tokens, strict=False))


def test_q_is_the_law_after_the_drafters_own_truncation() -> None:
    draft = random_table(3, vocab=6)
    for seed in range(20):
        drafter = model_drafter(draft, 4, Sampling(top_k=2, temperature=0.7))
        proposal = run_alone(drafter.propose((0, 1), 4, RngCoin(seed)))
        assert proposal.q is not None
        context = [0, 1]
        for x, q in zip(proposal.tokens, proposal.q, strict=True):
            np.testing.assert_allclose(
                q.dense(), shape(draft.row(context), context, Sampling(top_k=2, temperature=0.7))
            )
            assert len(q.ids) == 2
            context.append(x)


def test_a_draft_of_likeliest_tokens_is_one_hot() -> None:
    draft = random_table(3)
    for drafter in (model_drafter(draft, 4, drawn=False), model_drafter(draft, 4, Sampling(temperature=0))):
        assert run_alone(drafter.propose((0, 1), 4, RngCoin(1))).q is None


@pytest.mark.parametrize(("vocab", "message"), [(6, "6 tokens"), (5, "other texts")])
def test_another_vocabulary_is_refused(vocab: int, message: str) -> None:
    target, draft = random_table(1, vocab=5), random_table(2, vocab=vocab)
    draft.vocabulary = "another family"
    with pytest.raises(UsageError, match=message):
        make_plan(Setup(target, Speculation(types=("draft-simple",)), draft=draft))


@settings(deadline=None, max_examples=40)
@given(seed=seeds, k=st.integers(1, 5), can_truncate=st.booleans(), rule=st.sampled_from([match.RULE, rejection.RULE]))
def test_both_memories_hold_what_was_said_and_nothing_else(seed: int, k: int, can_truncate: bool, rule: Rule) -> None:
    """After every block target and draft hold prefixes of the text, and the next draft is that of a fresh drafter."""
    target = random_table(seed, can_truncate=can_truncate)
    draft = noisy(target, seed)

    class Checked(ModelDrafter):
        def propose(self, context, k, coin):  # type: ignore[no-untyped-def]
            assert self.held() == list(context)[: len(self.held())]
            mine = yield from super().propose(context, k, coin)
            fresh = run_alone(model_drafter(draft, 8).propose(context, k, coin))
            assert mine.tokens == fresh.tokens
            assert [q.p.tolist() for q in mine.q or ()] == [q.p.tolist() for q in fresh.q or ()]
            return mine

        def held(self) -> list[int]:
            return list(self._sequence.tokens)  # type: ignore[attr-defined]

        def observe(self, context, draft, accepted):  # type: ignore[no-untyped-def]
            super().observe(context, draft, accepted)
            assert self.held() == list(context)[: len(self.held())]

    drafter = Checked(draft, draft.sequence(), NEUTRAL, DraftModel(n_max=8), drawn=True)
    run(target, Job((0, 1), 30, seed=seed), drafter, rule, n_max=k)


def test_nothing_is_computed_twice_where_memories_can_be_rolled_back() -> None:
    target = random_table(5)
    draft = noisy(target, 5, 0.5)
    result = run(target, Job((0, 1, 2), 40, seed=1), model_drafter(draft, 4), rejection.RULE)
    counters = result.generation.counters
    fed = sum(map(len, target.calls))
    assert fed == 3 + (40 - 1) - counters.accepted + counters.drafted
    assert counters.passes == len(target.calls)


@settings(deadline=None, max_examples=40)
@given(seed=seeds, sampling=any_sampling, k=st.integers(1, 5), rule=st.sampled_from([match.RULE, rejection.RULE]))
def test_a_replay_takes_no_decision_again(seed: int, sampling: Sampling, k: int, rule: Rule) -> None:
    """A memory that cannot be rolled back gives the same tokens from the same random words, each used once."""
    runs = []
    for can_truncate in (True, False):
        target = random_table(seed, can_truncate=can_truncate)
        coin = watched(seed)
        drafter = model_drafter(noisy(target, seed, 0.7), k, sampling)
        runs.append(
            (run(target, Job((0, 1), 25, sampling, report=ALL_NUMBERS), drafter, rule, coin=coin), coin.words.asked)
        )
    (rolled, words), (replayed, words_again) = runs
    assert [(e.token, e.origin, e.logprob, e.p) for e in rolled.emitted] == [
        (e.token, e.origin, e.logprob, e.p) for e in replayed.emitted
    ]
    assert words == words_again


ENDINGS = [
    (Job((0,), 50, stops=((3, 4),)), Finish.STOP, [1, 2, 3, 4]),
    (Job((0,), 50, stops=((9,), (5,))), Finish.STOP, [1, 2, 3, 4, 5]),
    (Job((0,), 3), Finish.LENGTH, [1, 2, 3]),
    (Job((0,), 1), Finish.LENGTH, [1]),
    (Job((0,), 50), Finish.EOG, [1, 2, 3, 4, 5, 6]),
    (Job((0,), 9, ignore_eog=True), Finish.LENGTH, [1, 2, 3, 4, 5, 6, 7, 0, 1]),
]


@pytest.mark.parametrize(("job", "finish", "tokens"), ENDINGS)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("can_truncate", [True, False])
def test_an_ending_inside_an_accepted_block_ends_the_output_there(
    job: Job, finish: Finish, tokens: list[int], k: int, can_truncate: bool
) -> None:
    """Tokens, numbers, counters and memory agree on where it ended. The model says 0 1 2 3 .. and the draft knows it."""
    model = cycle(8, 8, 60.0)
    target = TableBackend(model.table, eog={6}, can_truncate=can_truncate)
    draft = TableBackend(model.table, can_truncate=can_truncate)
    result = run(target, job, model_drafter(draft, k), rejection.RULE)
    counters = result.generation.counters
    assert result.generation.finish is finish
    assert result.tokens == tokens
    assert result.generation.context == [0, *tokens]
    assert counters.emitted == len(tokens)
    assert counters.accepted == sum(e.origin is Origin.ACCEPTED for e in result.emitted)
    assert counters.accepted <= counters.drafted
    assert result.sequence.tokens == [0, *tokens][: result.sequence.length]
    assert result.sequence.length >= len(tokens) - (0 if can_truncate else k)


def test_a_full_context_ends_the_answer() -> None:
    model = cycle(8, 8, 60.0)
    for k in (1, 3, 8):
        target = TableBackend(model.table, context=6)
        result = run(target, Job((0, 1), 50), model_drafter(TableBackend(model.table), k), rejection.RULE)
        assert result.generation.finish is Finish.CONTEXT
        assert result.tokens == [2, 3, 4, 5, 6]


def test_the_loop_is_exact_for_long_blocks_too() -> None:
    """Four tokens, drafts of three, order 2, a draft with p_min: by enumeration."""
    target = random_table(11, vocab=3, order=2)
    draft = noisy(target, 12, 1.0)
    law = answer_law(rejection.RULE, target, lambda: model_drafter(draft, 3, p_min=0.4), 3, 4, context=(0, 1))
    np.testing.assert_allclose(law, target_law(target, 4, (0, 1)), atol=1e-12)


def test_with_real_coins_the_joint_law_of_three_tokens_is_the_targets() -> None:
    """Pearson's chi-square over 27 sequences, 6000 seeds (0..5999): 26 degrees of freedom, 75 comes by chance once in 900,000."""
    target = TableBackend(np.random.default_rng(21).normal(size=(3, 3)) * 0.5)
    draft = noisy(target, 22)
    counts = np.zeros((3, 3, 3))
    for seed in range(6000):
        job = Job((0,), 3, seed=seed)
        counts[tuple(run(target, job, model_drafter(draft, 2), rejection.RULE).tokens)] += 1
    expected = 6000 * target_law(target, 3)
    assert expected.min() > 5
    assert ((counts - expected) ** 2 / expected).sum() < 75
