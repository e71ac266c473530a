"""GGUF models through libllama, behind the engine's protocol."""

from __future__ import annotations

import math
import threading
from collections import abc
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from draftproof.core.errors import UsageError
from draftproof.core.prefix import common_prefix
from draftproof.engine.backend import CannotTruncate, ContextFull, Feed, Rows, Sequence, UnknownToken
from draftproof.engine.backends.llama_batches import Piece, cut, cut_to_sizes, group
from draftproof.engine.libllama import Context, ContextOptions, Library, Model, ModelOptions, Row, load_library
from draftproof.engine.libllama.errors import Closed
from draftproof.engine.libllama.follower import Hidden, Tap
from draftproof.engine.libllama.head import OutputTap
from draftproof.engine.libllama.model import Progress
from draftproof.engine.libllama.openmp import aside
from draftproof.engine.libllama.rows import RowTest, can_truncate, measure
from draftproof.engine.passes import RowCosts, Sizes, cost_of_limit

_TEST_TOKENS = 256
_MOST_ALIKE = 63
"""libllama's flash attention takes another kernel for more rows than these."""

LONGER_TESTED = (12, 16, 20, 24, 28, 32, 40, 49)
"""The last verifies the longest draft of `ngram-simple`, those between verify what is left of an answer."""


@dataclass(frozen=True, slots=True)
class LlamaOptions:
    """How a model is loaded and run.

    context.batch is the size at whose multiples prompts are cut, context.outputs the most rows of logits of one call.
    strict: sequences are read in one call only up to the number of rows that was measured to give the numbers of single
    rows; where a row of each would then take more than `most_cost` times as long, in one call all the same. exact_prompts:
    prompts too are read in parts no larger than that, so that how they are cut or kept changes no number; long ones take up to
    twice the time. test_rows: up to how many rows that is measured; test_longer: and these sizes, where all up to there are
    exact. hidden: also keep the hidden rows that a prediction head drafts from (see `LlamaHead`).
    """

    model: ModelOptions = field(default_factory=ModelOptions)
    context: ContextOptions = field(default_factory=lambda: ContextOptions(outputs=64))
    strict: bool = True
    most_cost: float = math.inf
    exact_prompts: bool = False
    test_rows: int = 8
    test_longer: tuple[int, ...] = LONGER_TESTED
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """A checkpoint. `memory` is None where the memory can simply be rolled back."""

    tokens: tuple[int, ...]
    memory: bytes | None = field(repr=False)


class LlamaBackend:
    """A loaded GGUF model with room for `options.context.sequences` sequences. One thread at a time may use it."""

    def __init__(
        self,
        path: Path,
        options: LlamaOptions = LlamaOptions(),
        *,
        library: Library | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Loads. What rows cost, and how many of them are exact, is measured when it is asked for.

        Raises LibraryMissing, UnsupportedBuild, SelfTestFailed, ModelRejected, ContextRejected, and what `progress` raises.
        """
        self.options = options
        self._tap: Tap | None = OutputTap() if options.hidden else None
        self.model = Model(library or load_library(), path, options.model, progress)
        try:
            self.memory = Context(self.model, options.context)
            if self._tap is not None:
                self._tap.open(self.memory)
            self.can_truncate = aside(partial(can_truncate, self.memory))
        except BaseException:
            self.model.close()
            raise
        self.vocab = self.model.vocab.size
        self.context = self.memory.tokens
        self._row_test: RowTest | None = None
        self._testing = threading.Lock()
        self._tested: Context | None = None
        self._chunk = self.memory.batch
        if options.exact_prompts:
            all_exact = self.row_test.exact >= options.test_rows
            self._chunk = min(self._chunk, _MOST_ALIKE if all_exact else self.row_test.exact)
        self._open: dict[int, LlamaSequence] = {}

    @property
    def row_test(self) -> RowTest:
        """Measured the first time, which takes as long as reading some hundred tokens; from any thread.

        It is done in a small context of its own, so that no conversation is disturbed. Raises DecodeFailed when it is abandoned,
        Closed after the end.
        """
        with self._testing:
            if self._row_test is None:
                own = self.memory.options
                tested = max(self.options.test_rows, *self.options.test_longer, 2)
                small = replace(own, tokens=_TEST_TOKENS, sequences=1, batch=min(own.batch, tested), outputs=0)
                with Context(self.model, small) as context:
                    self._tested = context
                    if self._tap is not None:
                        self._tap.open(context)
                    limits = self.options.test_rows, self.options.test_longer
                    self._row_test = aside(partial(measure, context, *limits, tokens=self.memory.tokens))
                self._tested = None
            return self._row_test

    @property
    def prompt_part(self) -> int:
        return 1 if self.options.exact_prompts else self._chunk

    @property
    def max_rows_exact(self) -> int:
        return self.row_test.exact

    @cached_property
    def row_costs(self) -> RowCosts:
        """What calls of libllama take, by their rows."""
        return RowCosts(self.row_test.seconds, tuple(self.row_test.longer.items()))

    @property
    def cost_of_exact_company(self) -> float:
        """How many times as long answers that are made together take, at most, where calls have sizes that are exact only."""
        return cost_of_limit(self.row_test.sizes, self.options.context.sequences, self.row_costs)

    @cached_property
    def rows_together(self) -> Sizes:
        """How many rows of several sequences a call may have."""
        dear = not self.options.strict or self.cost_of_exact_company > self.options.most_cost
        return range(1, self.memory.batch + 1) if dear else self.row_test.sizes

    def exact_rows(self, at_most: int) -> int:
        at_most = min(at_most, self.memory.outputs)
        return max((n for n in self.row_test.sizes if n <= at_most), default=0)

    @property
    def vocabulary(self) -> str:
        return self.model.vocab.fingerprint

    @property
    def eog(self) -> frozenset[int]:
        return self.model.vocab.eog

    def sequence(self) -> LlamaSequence:
        # The lowest number: libllama reads sequences in one pass only where their numbers have no gaps.
        free = next((i for i in range(self.options.context.sequences) if i not in self._open), None)
        if free is None:
            raise ContextFull(f"All {self.options.context.sequences} sequences are in use.")
        self._open[free] = LlamaSequence(self, free)
        return self._open[free]

    @property
    def sequences(self) -> tuple[LlamaSequence, ...]:
        """Those that are open, by number."""
        return tuple(self._open[number] for number in sorted(self._open))

    def release(self, sequence: LlamaSequence) -> None:
        """It was closed: its memory is emptied, and its number free. Nothing happens to another one that has the number by now."""
        if self._open.get(sequence.number) is not sequence:
            return
        del self._open[sequence.number]
        if not self.memory.is_closed:
            self.memory.remove(sequence.number, 0)

    def extend(self, feeds: abc.Sequence[Feed]) -> list[Rows]:
        """One `LlamaSequence.extend` for each feed.

        The rows are read-only. Those of the last call of libllama are a view of its memory, the others are copies.
        """
        pieces = self._pieces(feeds)
        try:
            rows = [self._read(pieces)] if len(pieces) == 1 else self._read_all(pieces, len(feeds))
        except BaseException:
            for feed in feeds:
                self._own(feed).go_back()
            raise
        for feed in feeds:
            self._own(feed).tokens.extend(feed.tokens)
        return rows

    def abandon(self) -> None:
        """From any thread: nothing is read any more, and what is being read ends with DecodeFailed."""
        self.memory.abandon()
        if (tested := self._tested) is not None:
            tested.abandon()

    def listen(self, tap: Tap | None) -> None:
        """From here on the sequences keep the hidden rows that `tap` takes; None: none any more.

        Raises UsageError where tokens were read already: theirs are not known.
        """
        if tap is not None:
            if any(sequence.tokens for sequence in self._open.values()):
                raise UsageError("A model cannot be listened to once it has read something.")
            tap.open(self.memory)
        self._tap = tap

    def close(self) -> None:
        with self._testing:
            self.model.close()

    def check_tokens(self, tokens: abc.Sequence[int]) -> None:
        """Raises UnknownToken for a token id outside [0, vocab)."""
        for token in tokens:
            if not 0 <= token < self.vocab:
                raise UnknownToken(f"Token id {token} is outside [0, {self.vocab}).")

    def _own(self, feed: Feed) -> LlamaSequence:
        sequence = feed.sequence
        if not isinstance(sequence, LlamaSequence) or self._open.get(sequence.number) is not sequence:
            raise Closed("The sequence was closed, or belongs to another backend.")
        return sequence

    def _pieces(self, feeds: abc.Sequence[Feed]) -> list[Piece]:
        pieces: list[Piece] = []
        seen: set[int] = set()
        for i, feed in enumerate(feeds):
            sequence, n = self._own(feed), len(feed.tokens)
            rows = n if feed.rows is None else feed.rows
            if not n or not 0 <= rows <= n:
                raise ValueError(f"{rows} rows of {n} tokens")
            if sequence.number in seen:
                raise ValueError(f"sequence {sequence.number} occurs twice")
            seen.add(sequence.number)
            if sequence.length + n > self.context:
                raise ContextFull(f"{sequence.length} + {n} tokens exceed the context of {self.context}.")
            self.check_tokens(feed.tokens)
            whole = Piece(i, sequence.number, sequence.length, feed.tokens, rows)
            parts = cut(whole, self._chunk, min(self._chunk, self.memory.outputs))
            if len(parts) > 1 and rows == n and self.options.strict and self.exact_rows(n) == n:
                # a draft across a place where prompts are cut: its parts must have sizes that are exact too
                parts = [part for piece in parts for part in cut_to_sizes(piece, self.exact_rows)]
            pieces += parts
        return pieces

    def _read_all(self, pieces: list[Piece], feeds: int) -> list[Rows]:
        costs = self.row_costs if self.options.strict or self._row_test is not None else None
        unequal = self.options.context.unified
        calls = group(pieces, self.rows_together, self.memory.outputs, unequal=unequal, costs=costs)
        found: list[list[Rows]] = [[] for _ in range(feeds)]
        for call in calls:
            logits = self._read(call)
            if call is not calls[-1]:
                logits = logits.copy()
            at = 0
            for piece in call:
                found[piece.feed].append(logits[at : at + piece.rows])
                at += piece.rows
        return [rows[0] if len(rows) == 1 else np.concatenate(rows) for rows in found]

    def _read(self, call: list[Piece]) -> Rows:
        rows = [
            Row(piece.sequence, piece.start + i, token, i >= len(piece.tokens) - piece.rows)
            for piece in call
            for i, token in enumerate(piece.tokens)
        ]
        logits = self.memory.decode(rows)
        if self._tap is not None:
            hidden = self._tap.rows(self.memory, [len(piece.tokens) for piece in call])
            for piece, own in zip(call, hidden, strict=True):
                self._open[piece.sequence].hidden.extend(own)
        return logits


class LlamaSequence:
    """One conversation in the memory of a `LlamaBackend`.

    hidden[i]: float32[width], what a drafter reads of its i-th token; empty unless the backend keeps hidden rows.
    """

    def __init__(self, backend: LlamaBackend, number: int) -> None:
        self._backend = backend
        self.number = number
        self.tokens: list[int] = []
        self.hidden: list[Hidden] = []

    @property
    def length(self) -> int:
        return len(self.tokens)

    def extend(self, tokens: abc.Sequence[int], rows: int | None = None) -> Rows:
        return self._backend.extend([Feed(self, tuple(tokens), rows)])[0]

    def truncate(self, length: int) -> None:
        """As the protocol says; where the memory cannot be rolled back, forgetting everything is still possible."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate {self.length} tokens to {length}")
        if length < self.length and not self._backend.memory.remove(self.number, length):
            raise CannotTruncate("This model keeps no memory of each token: it cannot be rolled back.")
        del self.tokens[length:]
        del self.hidden[length:]

    def checkpoint(self) -> State:
        """Costs nothing but the tokens where the memory can be rolled back, else a copy of the memory."""
        backend = self._backend
        return State(tuple(self.tokens), None if backend.can_truncate else backend.memory.save(self.number))

    def restore(self, checkpoint: object) -> None:
        assert isinstance(checkpoint, State)
        if checkpoint.memory is None:
            self.truncate(common_prefix(self.tokens, checkpoint.tokens))
            if missing := checkpoint.tokens[self.length :]:
                self.extend(missing, 0)
            return
        self._backend.memory.load(self.number, checkpoint.memory)
        self.tokens = list(checkpoint.tokens)
        del self.hidden[self.length :]

    def adopt(self, other: Sequence, length: int) -> None:
        assert isinstance(other, LlamaSequence)
        if other.tokens:
            self._backend.memory.copy(other.number, self.number)
            self.tokens, self.hidden = list(other.tokens), list(other.hidden)
        self.truncate(length)

    def go_back(self) -> None:
        """After a call that failed half way: back to the tokens that were held before, or closed where that cannot be."""
        if self._backend.memory.remove(self.number, self.length):
            del self.hidden[self.length :]
        else:
            self.close()

    def close(self) -> None:
        self._backend.release(self)
