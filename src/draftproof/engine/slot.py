"""One slot: the memory of a conversation, of the target and of those that draft, and the answer that is made in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from draftproof.core.coin import Coin
from draftproof.core.prefix import common_prefix
from draftproof.core.sampling import Sampling
from draftproof.core.speculation import OFF, Speculation
from draftproof.engine.backend import Backend, Feed, Rows
from draftproof.engine.backend import Sequence as Memory
from draftproof.engine.draft.drafter import NOTHING, Draft, Drafter, Proposal
from draftproof.engine.draft.kind import Lender, Setup, nobody
from draftproof.engine.draft.ngram_pool import NgramPool
from draftproof.engine.draft.pace import Costs, alone
from draftproof.engine.generate import Generation, Job
from draftproof.engine.shape import Constraint
from draftproof.engine.speculate import Plan
from draftproof.engine.stop import Stop


@dataclass(frozen=True, slots=True)
class Models:
    """What all slots share. `head` is the prediction head of the target, `eagle` an EAGLE-3 draft of it.

    `costs` is asked when something is to be drafted, and may then take its time; None: rows are free, so drafts are as long
    as they may be. `abandon`, from any thread, makes what reads end soon, with an error; None: that is soon anyway.
    """

    target: Backend
    draft: Backend | None = None
    pool: NgramPool | None = None
    costs: Callable[[], Costs] | None = None
    head: Backend | None = None
    eagle: Backend | None = None
    abandon: Callable[[], None] | None = None

    @property
    def helpers(self) -> dict[str, Backend]:
        """Those that read along in order to draft, by the fields' names."""
        all_ = {"draft": self.draft, "head": self.head, "eagle": self.eagle}
        return {name: backend for name, backend in all_.items() if backend is not None}

    @property
    def followed(self) -> bool:
        """Whether what drafts belongs to the very sequences of the target, which then cannot be exchanged."""
        return self.head is not None or self.eagle is not None

    def costs_of(self, speculation: Speculation) -> Costs | None:
        """What rows cost, where it matters."""
        matters = speculation.wanted and speculation.adaptive
        return self.costs() if self.costs is not None and matters else None

    def setup(
        self,
        speculation: Speculation,
        sampling: Sampling,
        memories: Mapping[str, Memory] = MappingProxyType({}),
        company: Callable[[], int] = alone,
        lender: Lender = nobody,
    ) -> Setup:
        """What drafters are made from. memories: those of the helpers, by name. company, lender: as of `Setup`."""
        return Setup(
            self.target,
            speculation,
            sampling,
            draft=self.draft,
            sequence=memories.get("draft"),
            pool=self.pool,
            head=self.head,
            head_sequence=memories.get("head"),
            eagle=self.eagle,
            eagle_sequence=memories.get("eagle"),
            company=company,
            lender=lender,
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
        self.known: tuple[tuple[int, ...], Rows] | None = None
        """The prompt that was read last, and float32[vocab], the logits after it."""
        self._models = models
        self.memory = models.target.sequence()
        self.helpers = {name: helper.sequence() for name, helper in models.helpers.items()}
        """Memories of those that draft; the head's and the EAGLE-3 draft's follow the one before."""

    def holds(self, prompt: Sequence[int]) -> int:
        """How many tokens of `prompt` need not be read again here; without `knows` it the last one is, for its logits."""
        most = len(prompt) - 1
        common = self.common(self.memory, prompt)
        if self._models.target.can_truncate:
            return common if self.knows(prompt) else min(common, most)
        return common if common == self.memory.length <= most else 0

    def common(self, memory: Memory, text: Sequence[int]) -> int:
        """How many tokens of `text` one of the slot's memories begins with."""
        return common_prefix(self.tokens[: memory.length], text)

    def knows(self, prompt: Sequence[int]) -> bool:
        """Whether the logits after the prompt are still known from the last time that it was read here.

        Reading its last token once more could give others: it would be read alone.
        """
        return self.known is not None and self.known[0] == tuple(prompt) and self._models.target.can_truncate

    def prepare(self, prompt: Sequence[int], *, reuse: bool, lender: Slot | None = None) -> int:
        """Only a prefix of `prompt` is held afterwards; its length. Without `reuse` it is 0. A lender's memory is copied."""
        for name, helper in self._models.helpers.items():
            memory = self.helpers[name]
            common = self.common(memory, prompt) if reuse else 0
            self.helpers[name] = shorten(helper, memory, common)
        holder = lender or self
        keep = holder.holds(prompt) if reuse else 0
        self.known = holder.known if keep == len(prompt) else None
        if lender is not None:
            self.memory.adopt(lender.memory, keep)
        self.memory = shorten(self._models.target, self.memory, keep)
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
            self.helpers[name] = shorten(helper, memory, 0 if broken else min(memory.length, len(self.tokens)))
        if broken:
            self.known = None
            self.memory = shorten(self._models.target, self.memory, 0)

    def close(self) -> None:
        self.release()
        for memory in self.helpers.values():
            memory.close()
        self.memory.close()


def shorten(backend: Backend, memory: Memory, length: int) -> Memory:
    """A memory that holds the first `length` tokens of this one; a new one where it cannot lose single tokens."""
    if memory.length == length:
        return memory
    if backend.can_truncate:
        memory.truncate(length)
        return memory
    memory.close()
    return backend.sequence()


class AfterFirst:
    """Drafts nothing for the first answered token.

    Where a prompt is read, that token comes with it; where all of it was held, it would be drafted, and a seeded answer would
    depend on who was here before.
    """

    def __init__(self, drafter: Drafter, prompt: int) -> None:
        self.name = drafter.name
        self._drafter = drafter
        self._prompt = prompt

    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Proposal:
        return (yield from self._drafter.propose(context, k, coin)) if len(context) > self._prompt else NOTHING

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:
        self._drafter.observe(context, draft, accepted)

    def close(self) -> None:
        self._drafter.close()
