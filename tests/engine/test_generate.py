from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.models import ALL_NUMBERS, cycle, model_drafter, noisy, random_table, run

from draftproof.core.distribution import log_softmax
from draftproof.core.sampling import Sampling
from draftproof.engine.backend import CannotTruncate, ContextFull
from draftproof.engine.backends.table import TableBackend
from draftproof.engine.emit import NOTHING_ASKED, Origin
from draftproof.engine.generate import Counters, Generation, Job, generate
from draftproof.engine.in_step import run_alone
from draftproof.engine.stop import Finish, StopTokens
from draftproof.engine.verify import match, rejection


def test_origins_tell_what_became_of_a_draft() -> None:
    """The draft equals the target: blocks of three accepted tokens and a bonus; a longer prompt is read without a draft."""
    model = cycle(8, 8, 60.0)
    result = run(model, Job((0,), 9), model_drafter(TableBackend(model.table)), rejection.RULE)
    assert [e.origin.value[0] for e in result.emitted] == list("aaabaaabp")
    prompted = run(model, Job((5, 0), 9), model_drafter(TableBackend(model.table)), rejection.RULE)
    assert [e.origin.value[0] for e in prompted.emitted] == list("paaabaaab")
    assert prompted.generation.counters == Counters(9, 3, 2, [2, 2, 2], [2, 2, 2])


def test_a_wrong_draft_is_recovered_and_counted() -> None:
    model, other = cycle(8, 8, 60.0), TableBackend(np.roll(cycle(8, 8, 60.0).table, 1, axis=1))
    result = run(model, Job((5, 0), 4), model_drafter(other, 2), rejection.RULE)
    assert [e.origin for e in result.emitted] == [Origin.PLAIN, *[Origin.RECOVERED] * 2, Origin.PLAIN]
    counters = result.generation.counters
    assert (counters.drafted_by_position, counters.accepted_by_position) == ([2, 1], [0, 0])


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 5), rule=st.sampled_from([match.RULE, rejection.RULE]))
def test_counters_agree_with_what_was_emitted(seed: int, k: int, rule: object) -> None:
    target = random_table(seed, eog={0})
    result = run(target, Job((1, 2), 30, seed=seed), model_drafter(noisy(target, seed), k), rule)  # type: ignore[arg-type]
    counters = result.generation.counters
    origins = [e.origin for e in result.emitted]
    assert counters.emitted == len(origins)
    assert counters.accepted == origins.count(Origin.ACCEPTED)
    assert counters.drafts == sum(b[0].origin is not Origin.PLAIN for b in result.blocks)
    assert all(a <= d for a, d in zip(counters.accepted_by_position, counters.drafted_by_position, strict=True))


def test_many_generations_in_one_batch_say_what_they_say_alone() -> None:
    target = random_table(7, vocab=6)
    draft = noisy(target, 8)
    jobs = [Job((i, 1), 5 + i, seed=i, sampling=Sampling(temperature=0.5 + i / 4)) for i in range(5)]
    alone = [[e.token for e in generate(target, job, drafter=model_drafter(draft))] for job in jobs]
    generations = [Generation(target, target.sequence(), job, drafter=model_drafter(draft)) for job in jobs]
    together: list[list[int]] = [[] for _ in jobs]
    while busy := [i for i, g in enumerate(generations) if not g.finish]:
        feeds = [run_alone(generations[i].feed()) for i in busy]
        for i, rows in zip(busy, target.extend(feeds), strict=True):
            together[i] += [e.token for e in generations[i].take(rows)]
    assert together == alone


def test_a_prompt_is_cut_alike_whatever_is_drafted() -> None:
    target = random_table(3)
    prompt = tuple(np.random.default_rng(1).integers(0, 5, 23).tolist())
    run(target, Job(prompt, 3, batch=8), model_drafter(noisy(target, 3)), rejection.RULE)
    assert [len(c) for c in target.calls[:3]] == [8, 8, 7]


def test_a_remembered_prefix_is_not_read_again() -> None:
    target = random_table(3)
    for held in range(1, 7):
        sequence = target.sequence()
        sequence.extend((0, 1, 2, 3, 4, 0)[:held])
        target.calls.clear()
        generation = Generation(target, sequence, Job((0, 1, 2, 3, 4, 0), 1))
        while not generation.finish:
            feed = run_alone(generation.feed())
            generation.take(sequence.extend(feed.tokens, feed.rows))
        assert sum(map(len, target.calls)) == max(1, 6 - held)
        assert generation.context[-1] == next(iter(generate(target, Job((0, 1, 2, 3, 4, 0), 1)))).token


def test_a_memory_without_rollback_that_holds_the_whole_prompt_is_refused() -> None:
    target = random_table(3, can_truncate=False)
    sequence = target.sequence()
    sequence.extend([0, 1])
    with pytest.raises(CannotTruncate):
        Generation(target, sequence, Job((0, 1), 1))


@pytest.mark.parametrize("batch", [3, 64])
@pytest.mark.parametrize("max_tokens", [0, 2])
def test_the_prompts_own_tokens_are_scored_on_request(batch: int, max_tokens: int) -> None:
    target = random_table(4)
    prompt = (0, 3, 1, 4, 2, 2, 1)
    job = Job(prompt, max_tokens, report=ALL_NUMBERS, score_prompt=True, batch=batch, seed=5)
    result = run(target, job, None, rejection.RULE)
    records = result.generation.prompt_records
    assert [r.token for r in records] == list(prompt[1:])
    assert {r.origin for r in records} == {Origin.PROMPT}
    assert {r.p for r in records} == {None}
    for i, record in enumerate(records, 1):
        assert record.position == i
        assert record.logprob == pytest.approx(log_softmax(target.row(prompt[:i]))[prompt[i]], abs=1e-12)
    assert result.tokens == [e.token for e in generate(target, Job(prompt, max_tokens, seed=5))]
    assert result.generation.finish is Finish.LENGTH


def test_no_tokens_asked_no_tokens_made() -> None:
    target = random_table(1)
    assert list(generate(target, Job((0, 1), 0))) == []
    sequence = target.sequence()
    for held in (0, 1, 2):  # of the prompt, which is read for whoever comes next
        sequence.truncate(0)
        if held:
            sequence.extend((0, 1)[:held])
        generation = Generation(target, sequence, Job((0, 1), 0))
        feed = run_alone(generation.feed())
        assert generation.take(sequence.extend(feed.tokens, feed.rows)) == []
        assert (generation.finish, sequence.length) == (Finish.LENGTH, 2)


def test_prompts_that_cannot_be_are_refused() -> None:
    target = random_table(1, context=3)
    with pytest.raises(ContextFull, match="4 tokens"):
        Generation(target, target.sequence(), Job((0,) * 4, 1))
    with pytest.raises(ValueError, match="at least one token"):
        Generation(target, target.sequence(), Job((), 1))


def test_numbers_are_left_out_when_nobody_asked() -> None:
    (e,) = generate(random_table(1), Job((0,), 1, report=NOTHING_ASKED))
    assert np.isnan(e.logprob)
    assert (e.alternatives, e.sampled, e.row) == (None, None, None)


def test_an_outer_stop_sees_every_token() -> None:
    """The server looks for text; the loop asks it after each token, inside blocks too."""

    class AtThree:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def ends(self, token: int) -> bool:
            self.seen.append(token)
            return token == 3

    model, stop = cycle(8, 8, 60.0), AtThree()
    result = run(model, Job((0,), 50), model_drafter(TableBackend(model.table), 6), rejection.RULE, stop=stop)
    assert stop.seen == result.tokens == [1, 2, 3]


def test_stop_sequences_overlap_and_span_blocks() -> None:
    stop = StopTokens([(1, 1, 2), (), (4,)])
    assert [stop.ends(t) for t in (1, 1, 1, 2)] == [False, False, False, True]
    assert [StopTokens([]).ends(t) for t in (1, 2)] == [False, False]


def test_closing_the_iterator_closes_the_sequence() -> None:
    target = random_table(1)
    closed = []
    sequence = target.sequence()
    sequence.close = lambda: closed.append(True)  # type: ignore[method-assign]
    target.sequence = lambda: sequence  # type: ignore[method-assign]
    tokens = generate(target, Job((0,), 50))
    next(tokens)
    tokens.close()  # type: ignore[attr-defined]
    assert closed == [True]
