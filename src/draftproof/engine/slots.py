"""Many answers at once on one model: each step reads a few tokens for every running one, in one batch.

One thread owns a `Slots` and the backends in it. Which tokens an answer gets depends on its own seed and positions only, so
company changes nothing but what the backend's arithmetic lets it change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from draftproof.core.errors import UsageError
from draftproof.core.sampling import Sampling
from draftproof.core.speculation import OFF, Speculation
from draftproof.engine.backend import Backend, Feed, Rows
from draftproof.engine.backend import Sequence as Memory
from draftproof.engine.draft.kind import Setup
from draftproof.engine.draft.ngram_pool import NgramPool
from draftproof.engine.draft.pace import Costs
from draftproof.engine.emit import Emitted
from draftproof.engine.generate import Generation, Job
from draftproof.engine.shape import Constraint
from draftproof.engine.speculate import Plan, make_plan
from draftproof.engine.stop import Stop

_WORTH_COPYING = 32
"""Prompt tokens that take longer to read than a memory takes to copy."""
_SIMILAR = 0.1
"""A memory that holds less than this share of a prompt is not worth more than the one that was used longest ago."""


@dataclass(frozen=True, slots=True)
class Models:
    """What all slots share. `head` is the prediction head of the target.

    `costs` None: rows are free, so drafts are as long as they may be.
    """

    target: Backend
    draft: Backend | None = None
    pool: NgramPool | None = None
    costs: Costs | None = None
    head: Backend | None = None

    @property
    def helpers(self) -> dict[str, Backend]:
        """Those that read along in order to draft, by the fields' names."""
        return {name: b for name, b in (("draft", self.draft), ("head", self.head)) if b is not None}

    def setup(
        self, speculation: Speculation, sampling: Sampling, memories: Mapping[str, Memory] = MappingProxyType({})
    ) -> Setup:
        """What drafters are made from. memories: those of the helpers, by name."""
        return Setup(
            self.target,
            speculation,
            sampling,
            draft=self.draft,
            sequence=memories.get("draft"),
            pool=self.pool,
            head=self.head,
            head_sequence=memories.get("head"),
        )

    def close(self) -> None:
        """Frees all of them."""
        for helper in self.helpers.values():
            helper.close()
        self.target.close()


@dataclass(frozen=True, slots=True)
class Order:
    """One answer to make. `reuse`: what a slot still holds of the prompt is not read again. `slot`: only this one will do."""

    job: Job
    speculation: Speculation = OFF
    reuse: bool = True
    slot: int | None = None
    stop: Stop | None = None
    constraint: Constraint | None = None


@dataclass(slots=True, eq=False)
class Run:
    """An order in its slot. Times are of a monotonic clock, in seconds.

    `reused` counts the prompt's tokens that were held already. `read_s`: when the prompt was read and the first token known.
    """

    order: Order
    slot: int
    memory: Memory
    plan: Plan
    generation: Generation
    reused: int
    started_s: float
    read_s: float | None = None
    ended_s: float | None = None
    error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.error is not None or self.generation.finish is not None

    @property
    def read_tokens(self) -> int:
        """How much of the prompt the memory holds."""
        return min(self.memory.length, len(self.order.job.prompt))


class Slot:
    """The memory of one conversation, of the target and of those that draft, and whoever runs in it."""

    def __init__(self, number: int, models: Models) -> None:
        self.number = number
        self.run: Run | None = None
        self.tokens: list[int] = []
        """The memories hold prefixes of this."""
        self.used_s = 0.0
        self.pending: Feed | None = None
        self._models = models
        self.memory = models.target.sequence()
        self.helpers = {name: helper.sequence() for name, helper in models.helpers.items()}
        """Memories of those that draft; the head's follows the one before."""

    def holds(self, prompt: Sequence[int]) -> int:
        """How many tokens of `prompt` need not be read again here.

        The last two are always read, so that the first answered token is not a drafted one, whatever was held: a seeded
        answer must not depend on who was here before.
        """
        most = max(len(prompt) - 2, 0)
        common = _common(self.tokens[: self.memory.length], prompt)
        if self._models.target.can_truncate:
            return min(common, most)
        return common if common == self.memory.length <= most else 0

    def prepare(self, prompt: Sequence[int], *, reuse: bool, lender: Slot | None = None) -> int:
        """Only a prefix of `prompt` is held afterwards; its length. Without `reuse` it is 0. A lender's memory is copied."""
        for name, helper in self._models.helpers.items():
            memory = self.helpers[name]
            common = _common(self.tokens[: memory.length], prompt) if reuse else 0
            self.helpers[name] = _shorten(helper, memory, common)
        holder = lender or self
        keep = holder.holds(prompt) if reuse else 0
        if lender is not None:
            self.memory.close()
            self.memory = lender.memory.fork()
        self.memory = _shorten(self._models.target, self.memory, keep)
        self.tokens = list(prompt)
        return keep

    def release(self, *, broken: bool = False) -> None:
        """Whoever ran is gone. Its tokens stay for the next prompt, unless the memory may be `broken`."""
        run, self.run, self.pending = self.run, None, None
        if run is None:
            return
        run.plan.drafter.close()
        self.tokens = run.generation.context
        for name, helper in self._models.helpers.items():
            # a draft that was made but not judged may be in it
            memory = self.helpers[name]
            self.helpers[name] = _shorten(helper, memory, 0 if broken else min(memory.length, len(self.tokens)))
        if broken:
            self.memory = _shorten(self._models.target, self.memory, 0)

    def close(self) -> None:
        self.release()
        for memory in self.helpers.values():
            memory.close()
        self.memory.close()


class Slots:
    """`start` an order, `step` until its run is done.

    count: how many answers can be made at once; the backends need a sequence for each. batch: about how many prompt tokens
    are read in one step, so that a long prompt does not silence the others for long; a slot takes its turn in rotation.
    """

    def __init__(
        self, models: Models, count: int, *, batch: int = 512, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.models = models
        self.slots = tuple(Slot(i, models) for i in range(count))
        self.steps = 0
        self._batch = batch
        self._clock = clock
        self._turn = 0

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
        lent = {name: _Lent(memory) for name, memory in slot.helpers.items()}
        setup = models.setup(order.speculation, order.job.sampling, lent)
        plan = make_plan(setup, models.costs)
        generation = Generation(
            models.target,
            slot.memory,
            order.job,
            drafter=plan.drafter,
            rule=plan.rule,
            n_max=plan.n_max,
            constraint=order.constraint,
            stop=order.stop,
        )
        run = Run(order, slot.number, slot.memory, plan, generation, reused, now_s)
        slot.run = run
        slot.used_s = now_s
        if run.done:
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
        if not self.models.target.can_truncate or self.models.head is not None:
            return None
        best = max(self.slots, key=lambda s: s.holds(prompt))
        return best if best.holds(prompt) - slot.holds(prompt) >= _WORTH_COPYING else None

    def step(self) -> list[tuple[Run, list[Emitted]]]:
        """One batch for all that fit in it: which runs moved, and the tokens that each emitted. A run that failed has `error`."""
        moved: list[tuple[Run, list[Emitted]]] = []
        fed = self._gather(moved)
        if fed:
            self.steps += 1
        for slot, rows in self._extend(fed, moved):
            run = slot.run
            assert run is not None
            slot.pending = None
            try:
                emitted = run.generation.take(rows)
            except Exception as error:  # one answer must not take the others with it
                self._fail(slot, error, moved)
                continue
            if run.read_s is None and (emitted or run.done):
                run.read_s = self._clock()
            if run.done:
                self._finish(slot)
            moved.append((run, emitted))
        return moved

    def _gather(self, moved: list[tuple[Run, list[Emitted]]]) -> list[tuple[Slot, Feed]]:
        """Every answer that is past its prompt, and prompts in rotation as far as the batch goes."""
        order = self.slots[self._turn :] + self.slots[: self._turn]
        self._turn = (self._turn + 1) % len(self.slots)
        fed, room = [], self._batch
        for slot in order:
            run = slot.run
            if run is None or (run.read_s is None and room <= 0):
                continue
            try:
                feed = slot.pending = slot.pending or run.generation.feed()
            except Exception as error:  # one drafter must not take the others with it
                self._fail(slot, error, moved)
                continue
            if run.read_s is None:
                if room < len(feed.tokens) and room < self._batch:
                    continue
                room -= len(feed.tokens)
            fed.append((slot, feed))
        return fed

    def _extend(
        self, fed: list[tuple[Slot, Feed]], moved: list[tuple[Run, list[Emitted]]]
    ) -> Iterable[tuple[Slot, Rows]]:
        target = self.models.target
        if not fed:
            return
        try:
            found = target.extend([feed for _, feed in fed])
        except Exception as error:  # whoever is at fault is found one by one
            if len(fed) == 1:
                self._fail(fed[0][0], error, moved)
                return
            for pair in fed:
                yield from self._extend([pair], moved)
            return
        yield from ((slot, rows) for (slot, _), rows in zip(fed, found, strict=True))

    def cancel(self, run: Run) -> None:
        """The slot of `run` is free again; what was read stays there for the next prompt. Nothing happens to a run that is done."""
        slot = self.slots[run.slot]
        if slot.run is run:
            self._finish(slot)

    def _finish(self, slot: Slot) -> None:
        assert slot.run is not None
        slot.run.ended_s = slot.used_s = self._clock()
        slot.release()

    def _fail(self, slot: Slot, error: Exception, moved: list[tuple[Run, list[Emitted]]]) -> None:
        run = slot.run
        assert run is not None
        run.error = error
        run.ended_s = slot.used_s = self._clock()
        slot.release(broken=True)
        moved.append((run, []))

    def close(self) -> None:
        """Gives back the memories, not the backends."""
        for slot in self.slots:
            slot.close()


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    a, b = tuple(a), tuple(b)
    known, n = 0, min(len(a), len(b))
    while known < n:
        middle = (known + n + 1) // 2
        if a[known:middle] == b[known:middle]:
            known = middle
        else:
            n = middle - 1
    return known


def _shorten(backend: Backend, memory: Memory, length: int) -> Memory:
    """A memory that holds the first `length` tokens of this one; a new one where it cannot lose single tokens."""
    if memory.length == length:
        return memory
    if backend.can_truncate:
        memory.truncate(length)
        return memory
    memory.close()
    return backend.sequence()


class _Lent:
    """A memory that outlives the drafter that uses it: `close` leaves it open."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @property
    def length(self) -> int:
        return self._memory.length

    def extend(self, tokens: Sequence[int], rows: int | None = None) -> Rows:
        return self._memory.extend(tokens, rows)

    def truncate(self, length: int) -> None:
        self._memory.truncate(length)

    def checkpoint(self) -> object:
        return self._memory.checkpoint()

    def restore(self, checkpoint: object) -> None:
        self._memory.restore(checkpoint)

    def fork(self) -> Memory:
        return self._memory.fork()

    def close(self) -> None:
        """The slot's."""
