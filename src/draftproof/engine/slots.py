"""Many answers at once on one model: each step reads a few tokens for every running one, in one batch.

One thread owns a `Slots` and the backends in it. Which tokens an answer gets depends on its own seed and positions only, so
company changes nothing but what the backend's arithmetic lets it change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from draftproof.core.errors import UsageError
from draftproof.engine.backend import WORTH_COPYING, Feed, Rows, take_over
from draftproof.engine.backend import Sequence as Memory
from draftproof.engine.draft.kind import nobody
from draftproof.engine.emit import Emitted
from draftproof.engine.generate import Generation
from draftproof.engine.in_step import InStep, read_each, run_alone
from draftproof.engine.slot import AfterFirst, Models, Order, Run, Slot
from draftproof.engine.speculate import make_plan

_SIMILAR = 0.1
"""A memory that holds less than this share of a prompt is not worth more than the one that was used longest ago."""


class Slots:
    """`start` an order, `step` until its run is done.

    count: how many answers can be made at once; the backends need a sequence for each. batch: about how many prompt tokens
    are read in one step, so that a long prompt does not silence the others for long; a slot takes its turn in rotation.
    """

    generation: type[Generation] = Generation
    """How answers are made; a subclass may make them another way."""

    def __init__(
        self, models: Models, count: int, *, batch: int = 512, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.models = models
        self.slots = tuple(Slot(i, models) for i in range(count))
        self.steps = 0
        self._batch = batch
        self._clock = clock
        self._turn = 0
        self._drafting: InStep[Feed] = InStep()

    @property
    def runs(self) -> list[Run]:
        """Those that are being made."""
        return [slot.run for slot in self.slots if slot.run is not None]

    def can_start(self, order: Order) -> bool:
        """Whether a slot is free for it."""
        return any(slot.run is None and order.slot in (None, slot.number) for slot in self.slots)

    def start(self, order: Order) -> Run:
        """Gives a free slot to an order; there must be one. Raises UsageError, ContextFull and the slot stays free."""
        slot = self._choose(order)
        now_s = self._clock()
        reuse = order.reuse and not order.job.score_prompt
        lender = self._lender(slot, order.job.prompt) if reuse else None
        reused = slot.prepare(order.job.prompt, reuse=reuse, lender=lender)
        models = self.models
        setup = models.setup(
            order.speculation,
            order.job.sampling,
            slot.helpers,
            company=lambda: len(self.runs),
            lender=self._lender_of_draft if order.reuse else nobody,
        )
        plan = make_plan(setup, models.costs_of(order.speculation))
        generation = self.generation(
            models.target,
            slot.memory,
            order.job,
            drafter=AfterFirst(plan.drafter, len(order.job.prompt)),
            rule=plan.rule,
            n_max=plan.n_max,
            constraint=order.constraint,
            stop=order.stop,
            known=slot.known[1] if slot.known else None,
        )
        run = Run(order, slot.number, slot.memory, plan, generation, reused, now_s)
        slot.run = run
        slot.used_s = now_s
        if run.done:
            run.read_s = now_s
            self._finish(slot)
        return run

    def _choose(self, order: Order) -> Slot:
        free = [s for s in self.slots if s.run is None and order.slot in (None, s.number)]
        if not free:
            raise UsageError("No slot is free.")
        prompt = order.job.prompt
        if order.reuse:
            best = max(free, key=lambda slot: slot.holds(prompt))
            if best.holds(prompt) > _SIMILAR * len(prompt):
                return best
        return min(free, key=lambda slot: slot.used_s)

    def _lender(self, slot: Slot, prompt: Sequence[int]) -> Slot | None:
        """A slot, busy or not, that holds so much more of the prompt that its memory is worth copying."""
        if not self.models.target.can_truncate or self.models.followed:
            return None
        best = max(self.slots, key=lambda s: s.holds(prompt))
        return best if best.holds(prompt) - slot.holds(prompt) >= WORTH_COPYING else None

    def _lender_of_draft(self, context: Sequence[int]) -> tuple[Memory | None, int]:
        memories = [slot.helpers["draft"] for slot in self.slots]
        held = [slot.common(memory, context) for slot, memory in zip(self.slots, memories, strict=True)]
        most = max(held)
        return memories[held.index(most)], most

    def step(self) -> list[tuple[Run, list[Emitted]]]:
        """One batch for all that fit in it: which runs moved, and the tokens that each emitted. A run that failed has `error`."""
        moved: list[tuple[Run, list[Emitted]]] = []
        beginning = [slot for slot in self.slots if slot.run is not None and slot.run.generation.can_begin]
        fed = self._gather(moved, beginning)
        for slot in beginning:
            self._advance(slot, None, moved)
        if fed:
            self.steps += 1
        for slot, rows in self._extend(fed, moved):
            slot.pending = None
            self._advance(slot, rows, moved)
        return moved

    def _advance(self, slot: Slot, rows: Rows | None, moved: list[tuple[Run, list[Emitted]]]) -> None:
        """What follows from the rows that were computed, or without them from what is known of the prompt."""
        run = slot.run
        assert run is not None
        try:
            emitted = run.generation.begin() if rows is None else run.generation.take(rows)
        except Exception as error:  # one answer must not take the others with it
            self._fail(slot, error, moved)
            return
        if run.read_s is None and (emitted or run.done):
            run.read_s = self._clock()
            if rows is not None:
                slot.known = (run.order.job.prompt, rows[-1].copy())
        if run.done:
            self._finish(slot)
        moved.append((run, emitted))

    def _gather(self, moved: list[tuple[Run, list[Emitted]]], without: Sequence[Slot]) -> list[tuple[Slot, Feed]]:
        """Every answer that is past its prompt, and prompts in rotation as far as the batch goes."""
        order = self.slots[self._turn :] + self.slots[: self._turn]
        self._turn = (self._turn + 1) % len(self.slots)
        self._draft([slot for slot in order if slot not in without], moved)
        fed, room = [], self._batch
        for slot in order:
            run, feed = slot.run, slot.pending
            if run is None or feed is None:
                continue
            if run.read_s is None:
                if room > 0 and self._catch_up(slot, run):
                    feed = slot.pending = run_alone(run.generation.feed())
                if room <= 0 or (room < len(feed.tokens) and room < self._batch):
                    continue
                room -= len(feed.tokens)
            fed.append((slot, feed))
        return fed

    def _catch_up(self, slot: Slot, run: Run) -> bool:
        """Whether another slot has read more of the prompt meanwhile, and it was copied, up to where prompts are cut."""
        job = run.order.job
        lender = self._lender(slot, job.prompt) if run.order.reuse and not job.score_prompt else None
        if lender is None:
            return False
        most = min(lender.holds(job.prompt), len(job.prompt) - 1)
        gained = take_over(self.models.target, slot.memory, lender.memory, most, job.batch)
        run.reused += gained
        return gained > 0

    def _draft(self, slots: Sequence[Slot], moved: list[tuple[Run, list[Emitted]]]) -> None:
        """What each has to read next, if that is not known yet; those that draft with a model do it together."""
        for slot in slots:
            if slot.run is not None and slot.pending is None and slot.number not in self._drafting:
                self._drafting.start(slot.number, slot.run.generation.feed())
        for number, feed in self._drafting.go_on(self._batch):
            if isinstance(feed, Exception):
                self._fail(self.slots[number], feed, moved)
            else:
                self.slots[number].pending = feed

    def _extend(
        self, fed: list[tuple[Slot, Feed]], moved: list[tuple[Run, list[Emitted]]]
    ) -> Iterable[tuple[Slot, Rows]]:
        if not fed:
            return
        for (slot, _), rows in zip(fed, read_each(self.models.target, [feed for _, feed in fed]), strict=True):
            if isinstance(rows, Exception):
                self._fail(slot, rows, moved)
            else:
                yield slot, rows

    def cancel(self, run: Run) -> None:
        """The slot of `run` is free again; what was read stays there for the next prompt. Nothing happens to a run that is done."""
        slot = self.slots[run.slot]
        if slot.run is run:
            self._finish(slot)

    def _finish(self, slot: Slot, *, broken: bool = False) -> None:
        assert slot.run is not None
        slot.run.ended_s = slot.used_s = self._clock()
        self._drafting.drop(slot.number)
        slot.release(broken=broken)

    def _fail(self, slot: Slot, error: Exception, moved: list[tuple[Run, list[Emitted]]]) -> None:
        run = slot.run
        assert run is not None
        run.error = error
        self._finish(slot, broken=True)
        moved.append((run, []))

    def close(self) -> None:
        """Gives back the memories, not the backends."""
        for slot in self.slots:
            slot.close()
