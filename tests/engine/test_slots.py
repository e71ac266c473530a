"""Many answers on one model: each as it would be alone, prompts kept, one failure never taking another answer with it."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.core.errors import UsageError
from draftproof.core.sampling import Sampling
from draftproof.core.speculation import DraftModel, NgramLookup, Speculation
from draftproof.engine.backend import ContextFull, Feed, Rows
from draftproof.engine.backends.law import LawBackend
from draftproof.engine.draft.ngram_pool import NgramPool
from draftproof.engine.draft.pace import Costs
from draftproof.engine.emit import Emitted
from draftproof.engine.generate import Job, generate
from draftproof.engine.passes import RowCosts
from draftproof.engine.slot import Models, Order, Run
from draftproof.engine.slots import Slots
from draftproof.engine.stop import Finish

VOCAB = 6
DRAFT = Speculation(types=("draft-simple",), draft=DraftModel(n_max=3))
BOTH = Speculation(types=("ngram-simple", "draft-simple"), ngram_simple=NgramLookup(size_n=1, size_m=3))


def table(seed: int, noise: int | None = None) -> np.ndarray[Any, np.dtype[np.float64]]:
    logits = np.random.default_rng(seed).normal(size=(VOCAB, VOCAB, VOCAB)) * 1.5
    return logits if noise is None else logits + np.random.default_rng(noise).normal(size=logits.shape)


class Model(LawBackend):
    """A table of order 2 that remembers what it was fed, and can be told to fail."""

    def __init__(self, logits: np.ndarray[Any, np.dtype[np.float64]], **options: Any) -> None:
        self.fed: list[list[int]] = []
        self.fails_on = -1
        super().__init__(lambda cs: np.stack([logits[(0, *c)[-2:]] for c in cs]), VOCAB, "six", **options)

    def extend(self, feeds: Any) -> list[Rows]:
        for feed in feeds:
            assert isinstance(feed, Feed)
            if self.fails_on in feed.tokens:
                raise RuntimeError("this token is too much")
        self.fed.append([len(feed.tokens) for feed in feeds])
        return super().extend(feeds)


FREE = Costs()
DEAR = Costs(RowCosts((1.0, 1.3, 1.6, 1.9, 2.2, 2.5)), draft=0.1, together=range(1, 5))
"""A row more costs a third, in company too, where up to four rows are read together."""


def models(costs: Costs = FREE, **options: Any) -> Models:
    return Models(Model(table(1), **options), Model(table(1, noise=2), **options), NgramPool(), lambda: costs)


def order(
    prompt: Any = (1, 2, 3), tokens: int = 20, seed: int = 0, speculation: Speculation = DRAFT, **more: Any
) -> Order:
    return Order(Job(tuple(prompt), tokens, Sampling(), seed), speculation, **more)


def finish(slots: Slots, *orders: Order) -> list[list[int]]:
    """The tokens of each order; as many at once as there are slots."""
    made: dict[int, list[int]] = {}
    runs: dict[Run, int] = {}
    waiting = list(enumerate(orders))
    while waiting or runs:
        while waiting and slots.can_start(waiting[0][1]):
            i, one = waiting.pop(0)
            runs[slots.start(one)] = i
            made[i] = []
        for run, emitted in slots.step():
            made[runs[run]] += [e.token for e in emitted]
            if run.done:
                assert run.error is None
                del runs[run]
    return [made[i] for i in range(len(orders))]


def alone(one: Order) -> list[int]:
    """The same answer by the engine's single loop, without drafts."""
    return [e.token for e in generate(Model(table(1)), one.job)]


def test_without_drafts_a_slot_makes_what_the_loop_makes() -> None:
    orders = [
        order(prompt, seed=i, speculation=Speculation()) for i, prompt in enumerate([(1,), (1, 2), (3, 1, 4, 1, 5)])
    ]
    assert finish(Slots(models(), 2), *orders) == [alone(o) for o in orders]


PROMPTS = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=8) | st.lists(
    st.integers(0, VOCAB - 1), min_size=17, max_size=24
)
ORDERS = st.lists(
    st.builds(
        order,
        PROMPTS,
        st.integers(1, 12),
        st.integers(0, 5),
        st.sampled_from([DRAFT, BOTH, Speculation()]),
        reuse=st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=60)
@given(ORDERS, st.integers(1, 4), st.booleans(), st.sampled_from([1, 20, 512]), st.sampled_from([FREE, DEAR]))
def test_company_order_and_kept_prompts_change_no_answer(
    orders: list[Order], count: int, rolls_back: bool, batch: int, costs: Costs
) -> None:
    together = finish(Slots(models(costs, can_truncate=rolls_back), count, batch=batch), *orders)
    one_by_one = [finish(Slots(models(costs), 1), one)[0] for one in orders]
    assert together == one_by_one


@settings(deadline=None, max_examples=60)
@given(ORDERS, st.integers(1, 4), st.booleans(), st.randoms(use_true_random=False))
def test_cancelled_and_failing_neighbours_change_no_answer(
    orders: list[Order], count: int, rolls_back: bool, chance: Random
) -> None:
    shared = models(can_truncate=rolls_back)
    assert isinstance(shared.draft, Model)
    slots, waiting = Slots(shared, count, batch=20), list(orders)
    while waiting or slots.runs:
        shared.draft.fails_on = chance.choice([-1, -1, 5])
        if waiting and slots.can_start(waiting[0]):
            slots.start(waiting.pop(0))
        if slots.runs and chance.random() < 0.1:
            slots.cancel(chance.choice(slots.runs))
        for run, _ in slots.step():
            if run.generation.finish and not run.error:
                made = run.generation.context[len(run.order.job.prompt) :]
                assert [made] == finish(Slots(models(can_truncate=rolls_back), 1), run.order)


def test_company_does_not_decide_which_of_two_drafters_drafts() -> None:
    asked = [order((1, 2, 3, 1, 2), 40, seed, BOTH, reuse=False) for seed in range(4)]
    quiet = [order(seed=seed, tokens=40, speculation=Speculation()) for seed in range(3)]
    for one in asked:
        assert finish(Slots(models(DEAR), 4), one, *quiet)[0] == finish(Slots(models(DEAR), 1), one)[0]


@pytest.mark.parametrize("speculation", [DRAFT, BOTH])
def test_a_draft_model_is_not_asked_before_the_answer_begins(speculation: Speculation) -> None:
    """It would have to go back afterwards, which not every memory can."""
    asked = order((0, 0, 0, 0, 2, 4, 0, 0, 0, 0, 2, 4), 7, 3, speculation)
    shared = models(can_truncate=False)
    assert finish(Slots(shared, 1), asked) == finish(Slots(models(), 1), asked)
    assert isinstance(shared.draft, Model)
    assert sum(shared.draft.fed[0]) >= len(asked.job.prompt)


def test_drafts_and_verification_rows_of_all_slots_share_passes() -> None:
    shared = models()
    slots = Slots(shared, 3)
    for seed in range(3):
        slots.start(order(seed=seed, tokens=9))
    slots.step()
    slots.step()
    assert isinstance(shared.target, Model)
    assert shared.target.fed == [[3, 3, 3], [4, 4, 4]]
    assert isinstance(shared.draft, Model)
    assert shared.draft.fed == [[4, 4, 4], [1, 1, 1], [1, 1, 1]]


def test_a_draft_that_catches_up_with_a_long_prompt_keeps_nobody_waiting() -> None:
    """Each step reads one part of it, and the others get their tokens."""
    shared = models()
    slots = Slots(shared, 2)
    assert isinstance(shared.draft, Model)
    late = slots.start(order((1, 2, 3, 4) * 500, 3))
    while not late.generation.counters.emitted:
        slots.step()
    quick = slots.start(order(tokens=40))
    slots.step()
    shared.draft.fed.clear()
    steps = 0
    while late.generation.counters.emitted == 1:
        steps += 1
        assert quick in [run for run, emitted in slots.step() if emitted]
    assert steps >= 3
    assert [512] in shared.draft.fed
    assert sum(sum(fed) for fed in shared.draft.fed if fed[0] > 16) <= 2001
    slots.cancel(quick)
    while slots.runs:
        slots.step()
    assert [late.generation.context[2000:]] == finish(Slots(models(), 1), order((1, 2, 3, 4) * 500, 3))


@pytest.mark.parametrize(("part", "reuse", "read"), [(1, True, 1100), (512, True, 1100 + 2 * 77), (1, False, 3 * 1100)])
def test_a_draft_reads_what_another_slots_draft_has_read_no_more(part: int, reuse: bool, read: int) -> None:
    """Up to where prompts are cut, so that the rest is cut as if all of it were read."""
    shared, prompt = models(), (1, 2, 3, 4, 5) * 220
    assert isinstance(shared.draft, Model)
    shared.draft.prompt_part = part
    orders = [order(prompt, 9, seed, reuse=reuse) for seed in range(3)]
    made = finish(Slots(shared, 3), *orders)
    assert made == [finish(Slots(models(), 1), one)[0] for one in orders]
    assert abs(sum(n for fed in shared.draft.fed for n in fed if n > 16) - read) < 60


@pytest.mark.parametrize(("part", "reuse", "read"), [(1, True, 1180), (512, True, 1691), (1, False, 3227)])
def test_prompts_that_begin_alike_are_read_once_also_at_the_same_time(part: int, reuse: bool, read: int) -> None:
    """But for their ends, and for the third from where prompts were cut last: its last token must be read for what follows."""
    shared, text = models(), (1, 2, 3, 4, 5) * 220
    assert isinstance(shared.target, Model)
    shared.target.prompt_part = part
    prompts = (*text, 0), (*text, 2, 0), text[:1024]
    orders = [order(prompt, 9, speculation=Speculation(), reuse=reuse) for prompt in prompts]
    slots = Slots(shared, 3)
    runs = [slots.start(one) for one in orders]
    while slots.runs:
        slots.step()
    made = [run.generation.context[len(run.order.job.prompt) :] for run in runs]
    assert made == [finish(Slots(models(), 1), one)[0] for one in orders]
    fed = sum(n for fed in shared.target.fed for n in fed)
    assert fed == read + 3 * 8
    assert sum(len(run.order.job.prompt) - run.reused + 8 for run in runs) == fed


def test_a_draft_takes_over_what_an_answer_that_is_done_has_left() -> None:
    shared, prompt = models(), (1, 2, 3, 4, 5) * 20
    assert isinstance(shared.draft, Model)
    slots = Slots(shared, 2)
    made = finish(slots, order(prompt, 9, slot=0))
    shared.draft.fed.clear()
    assert finish(slots, order(prompt, 9, slot=1)) == made
    assert max(n for fed in shared.draft.fed for n in fed) == 1


def test_an_answer_is_cancelled_while_its_draft_catches_up() -> None:
    shared = models()
    slots = Slots(shared, 1)
    run = slots.start(order((1, 2, 3, 4) * 500, 9))
    while not run.generation.counters.emitted:
        slots.step()
    slots.step()
    slots.cancel(run)
    assert slots.step() == []
    assert finish(slots, order()) == finish(Slots(models(), 1), order())


def test_a_prompt_that_is_held_is_not_read_again() -> None:
    shared = models()
    slots = Slots(shared, 2)
    prompt = tuple(range(6)) * 4
    finish(slots, order(prompt, 3))
    run = slots.start(order((*prompt, 1, 2), 3))
    assert run.reused == len(prompt)
    slots.step()
    assert isinstance(shared.target, Model)
    assert shared.target.fed[-1] == [2]
    assert slots.start(order(prompt, 3, reuse=False)).reused == 0


def test_the_slot_that_holds_most_of_a_prompt_takes_it() -> None:
    slots = Slots(models(), 3)
    first, second = (1, 2, 3, 4, 5, 1), (5, 4, 3, 2, 1, 0)
    for prompt in (first, second):
        finish(slots, order(prompt, 2))
    assert slots.start(order((*second, 3), 2)).slot == 1
    assert slots.start(order((*first, 3), 2)).slot == 0


@pytest.mark.parametrize("rolls_back", [True, False])
def test_a_prompt_that_is_asked_again_is_not_read_at_all(rolls_back: bool) -> None:
    shared = models(can_truncate=rolls_back)
    slots = Slots(shared, 1)
    first = finish(slots, order(seed=1))
    for seed in (1, 2, 1):
        run = slots.start(order(seed=seed))
        assert run.generation.can_begin is rolls_back
        slots.cancel(run)
        again = finish(slots, order(seed=seed))
        assert again == finish(Slots(models(can_truncate=rolls_back), 1), order(seed=seed))
    assert first == again
    other = finish(slots, order((1, 2, 4)))
    assert other == finish(Slots(models(), 1), order((1, 2, 4)))


@pytest.mark.parametrize("speculation", [Speculation(), DRAFT, BOTH])
def test_a_prompt_that_another_slot_holds_is_copied(speculation: Speculation) -> None:
    shared = models()
    slots = Slots(shared, 2)
    prompt = tuple(range(6)) * 8
    busy = slots.start(order(prompt, 30, speculation=speculation))
    for _ in range(3):
        slots.step()
    copied = order((*prompt, 1), 20, seed=5, speculation=speculation)
    run = slots.start(copied)
    assert run.reused == len(prompt)
    made: dict[Run, list[int]] = {busy: [], run: []}
    while slots.runs:
        for moved, emitted in slots.step():
            made[moved] += [e.token for e in emitted]
    assert [made[run]] == finish(Slots(models(), 1), copied)
    assert busy.generation.context[len(prompt) :] == finish(Slots(models(), 1), busy.order)[0]


def test_an_order_can_name_its_slot() -> None:
    slots = Slots(models(), 2)
    assert slots.start(order(slot=1)).slot == 1
    assert not slots.can_start(order(slot=1))
    assert slots.can_start(order(slot=0))
    with pytest.raises(UsageError, match="free"):
        slots.start(order(slot=1))


def test_long_prompts_take_turns_and_leave_room_for_those_who_answer() -> None:
    shared = models()
    slots = Slots(shared, 3, batch=8)
    answering = slots.start(order((1, 2), 50))
    slots.step()
    long = Job((1, 2, 3, 4) * 8, 2, batch=8)
    waiting = [slots.start(Order(long)) for _ in range(2)]
    seen: dict[Run, int] = {}
    for _ in range(8):
        for run, _emitted in slots.step():
            seen[run] = seen.get(run, 0) + 1
    assert seen[answering] == 8
    assert [run.read_s is not None for run in waiting] == [True, True]
    assert isinstance(shared.target, Model)
    assert max(sum(n for n in fed if n > 4) for fed in shared.target.fed) <= 8


def test_a_cancelled_answer_frees_its_slot_and_harms_nobody() -> None:
    slots = Slots(models(), 1)
    for steps in range(6):
        run = slots.start(order((1, 2, 3, 4), 40, seed=steps))
        for _ in range(steps):
            slots.step()
        slots.cancel(run)
        slots.cancel(run)
        assert slots.runs == []
        assert run.ended_s is not None
        again = order((1, 2, 3, 4, 5), 12, seed=7)
        assert finish(slots, again) == finish(Slots(models(), 1), again)


class Moody:
    """A stop that breaks at the third token."""

    def __init__(self) -> None:
        self.seen = 0

    def ends(self, token: int) -> bool:
        self.seen += 1
        if self.seen == 3:
            raise RuntimeError("no")
        return False


def test_one_failure_takes_no_other_answer_with_it() -> None:
    shared = models()
    slots = Slots(shared, 3)
    bad = slots.start(order((1, 2), 30, stop=Moody()))
    good = order((3, 4, 5), 30, seed=3)
    run = slots.start(good)
    tokens: list[int] = []
    failed: list[Run] = []
    while not run.done:
        for moved, emitted in slots.step():
            tokens += [e.token for e in emitted] if moved is run else []
            failed += [moved] if moved.error else []
    assert failed == [bad]
    assert [tokens] == finish(Slots(models(), 1), good)
    assert finish(slots, order((1, 2), 9)) == finish(Slots(models(), 1), order((1, 2), 9))


def test_whoever_breaks_a_batch_is_found() -> None:
    shared = models()
    slots = Slots(shared, 2)
    assert isinstance(shared.target, Model)
    shared.target.fails_on = 5
    off = Speculation()
    ban = Sampling(logit_bias=((5, float("-inf")),))
    good = slots.start(Order(Job((1, 2), 6, ban), off))
    bad = slots.start(Order(Job((5, 2), 6, ban), off))
    while not good.done:
        slots.step()
    assert isinstance(bad.error, RuntimeError)
    assert good.error is None


def test_a_prompt_that_is_only_scored_leaves_with_its_numbers() -> None:
    slots = Slots(models(), 1)
    run = slots.start(Order(Job((1, 2, 3, 4), 0, score_prompt=True)))
    while not run.done:
        slots.step()
    assert run.generation.finish is Finish.LENGTH
    assert [e.token for e in run.generation.prompt_records] == [2, 3, 4]


def test_a_prompt_that_is_only_read_is_held_for_the_next() -> None:
    slots = Slots(models(), 1)
    run = slots.start(Order(Job((1, 2, 3, 4), 0)))
    assert [moved for moved, _ in slots.step()] == [run]
    assert (run.generation.finish, run.memory.length) == (Finish.LENGTH, 4)
    again = slots.start(Order(Job((1, 2, 3, 4), 0)))
    assert (again.done, again.reused) == (True, 4)
    assert slots.runs == []
    assert slots.start(Order(Job((1, 2, 3, 4), 1))).reused == 4


def test_a_prompt_that_does_not_fit_leaves_the_slot_free() -> None:
    slots = Slots(models(context=4), 1)
    with pytest.raises(ContextFull):
        slots.start(order((1,) * 5))
    assert finish(slots, order((1, 2), 9))[0]


def test_emitted_tokens_tell_their_own_numbers() -> None:
    slots = Slots(models(), 1)
    run = slots.start(order(tokens=12))
    emitted: list[Emitted] = []
    while not run.done:
        for _, more in slots.step():
            emitted += more
    assert [e.position for e in emitted] == list(range(3, 15))
    assert all(np.isfinite(e.logprob) for e in emitted)
    slots.close()
