"""`draft-simple`: a smaller model with the same vocabulary drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from draftproof.core.chain import Chain
from draftproof.core.coin import Coin
from draftproof.core.law import TokenLaw
from draftproof.core.sampling import Sampling
from draftproof.core.speculation import DraftModel
from draftproof.engine.backend import WORTH_COPYING, Backend, Feed, Rows, check_vocabulary, take_over
from draftproof.engine.backend import Sequence as Memory
from draftproof.engine.draft.drafter import NOTHING, Draft, Proposal
from draftproof.engine.draft.kind import Kind, Lender, Setup, nobody
from draftproof.engine.in_step import Read, Reads

_BATCH = 512


def draft_sampling(sampling: Sampling) -> Sampling:
    """What the draft is drawn by: the target's samplers without those that would need a coin or a state of their own."""
    return replace(sampling, xtc_probability=0.0, mirostat=0)


class ModelDrafter:
    """Draws each token from q, the draft model's law after its samplers, or takes the likeliest (then q is one-hot).

    `sequence` is lent and holds a prefix of the context; None: one of its own. The draft model's memory keeps what was accepted:
    nothing is computed twice but what cannot be rolled back. lender: who has read much of a context already.
    """

    def __init__(
        self,
        backend: Backend,
        sequence: Memory | None,
        sampling: Sampling,
        settings: DraftModel,
        *,
        drawn: bool,
        lender: Lender = nobody,
        name: str = "draft-simple",
    ) -> None:
        self.name = name
        self._backend = backend
        self._sequence = sequence or backend.sequence()
        self._lent = sequence is not None
        self._chain = Chain(draft_sampling(sampling))
        self._settings = settings
        self._lender = lender
        self._drawn = drawn and not self._chain.sampling.greedy
        self._base = 0
        self._checkpoint: object = None

    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Proposal:
        settings = self._settings
        k = min(k, settings.n_max, self._backend.context - len(context))
        if k <= 0:
            return NOTHING
        row = yield from self._read(context)
        self._base = len(context)
        self._checkpoint = None if self._backend.can_truncate else self._sequence.checkpoint()
        so_far, laws = list(context), []
        for i in range(k):
            q = self._chain.law(row, so_far)
            # looks at the tokens before this one only, so what is drafted is still drawn from q
            if i >= settings.n_min and q.p.max() < settings.p_min:
                break
            so_far.append(self._choose(q, coin, i))
            laws.append(q)
            if i + 1 < k:
                row = (yield self._next(so_far[-1:], 1))[0]
        tokens = tuple(so_far[self._base :])
        return Draft(tokens, tuple(laws) if self._drawn else None, self.name) if tokens else NOTHING

    def _choose(self, q: TokenLaw, coin: Coin, i: int) -> int:
        # keyed by where the block begins too: a position that is drafted again after a rejection gets fresh words
        return int(q.ids[coin.at("draft", self._base, i).pick(q.p)]) if self._drawn else q.argmax

    def _next(self, tokens: Sequence[int], rows: int) -> Read:
        return Read(self._backend, Feed(self._sequence, tuple(tokens), rows))

    def _read(self, context: Sequence[int]) -> Reads[Rows]:
        """float32[vocab]: the logits after the context."""
        if self._sequence.length >= len(context):
            self._sequence.truncate(len(context) - 1)
        while True:
            if len(context) - self._sequence.length > WORTH_COPYING:
                yield None
                self._borrow(context)
            pending = context[self._sequence.length :]
            rows = yield self._next(pending[:_BATCH], int(len(pending) <= _BATCH))
            if len(pending) <= _BATCH:
                row: Rows = rows[0]
                return row

    def _borrow(self, context: Sequence[int]) -> None:
        """Copies what another answer's draft has read of a long context, so that the rest is cut as if all were read."""
        if not self._backend.can_truncate:
            return
        memory, most = self._lender(context)
        if memory is not None:
            take_over(self._backend, self._sequence, memory, min(most, len(context) - 1), _BATCH)

    def observe(self, context: Sequence[int], draft: Draft, accepted: int) -> None:  # noqa: ARG002 - only its length counts
        keep = self._base + accepted
        if not draft.tokens or self._sequence.length <= keep:
            return
        if self._backend.can_truncate:
            self._sequence.truncate(keep)
        else:
            self._sequence.restore(self._checkpoint)

    def close(self) -> None:
        if not self._lent:
            self._sequence.close()


def _open(setup: Setup) -> ModelDrafter:
    assert setup.draft is not None
    check_vocabulary(setup.target, setup.draft.vocab, setup.draft.vocabulary)
    return ModelDrafter(
        setup.draft,
        setup.sequence,
        setup.sampling,
        setup.speculation.draft,
        drawn=setup.drawn,
        lender=setup.lender,
    )


DRAFTER = Kind(
    "draft-simple",
    "a smaller model with the same vocabulary",
    _open,
    lambda setup: "" if setup.draft else "no draft model is loaded",
    lambda costs: costs.draft,
)
