"""Work that needs a model now and then, of several answers at once: what they want read at a time is read in one pass.

Whoever drafts with a model is such work: a generator that yields what has to be read next, is sent the rows, and returns what
it made. So drafts of many answers go on token by token together, and the same code drafts for one alone. Who has much to
read, to catch up with a text, first waits for its turn: the others are not to wait for it, and may read what it needs too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Generic, ParamSpec, TypeAlias, TypeVar

from draftproof.engine.backend import Backend, Feed, Rows
from draftproof.engine.libllama.errors import Closed

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Read:
    """One sequence's share of a pass of `backend`."""

    backend: Backend
    feed: Feed


Reads: TypeAlias = Generator[Read | None, Rows, T]
"""Is sent the rows of each `Read`, valid until it yields the next one, and returns a T. Yields None to wait for its turn."""


def at_once(make: Callable[P, T]) -> Callable[P, Reads[T]]:
    """Work that needs no model: a function as a generator that yields nothing."""

    @wraps(make)
    def work(*args: P.args, **kwargs: P.kwargs) -> Reads[T]:
        yield from ()
        return make(*args, **kwargs)

    return work


def run_alone(work: Reads[T]) -> T:
    """What one piece of work makes, every `Read` in a pass of its own. Raises what it raises, and what the backend does."""
    try:
        read = next(work)
        while True:
            read = next(work) if read is None else work.send(read.backend.extend([read.feed])[0])
    except StopIteration as end:
        made: T = end.value
        return made


class InStep(Generic[T]):
    """Pieces of work, by a number each, that go on together: what they want of one backend at a time shares a pass."""

    def __init__(self) -> None:
        self._works: dict[int, Reads[T]] = {}
        self._wanted: dict[int, Read | None] = {}
        """Of those that have begun; who went on last is last."""

    def __contains__(self, number: int) -> bool:
        return number in self._works

    def start(self, number: int, work: Reads[T]) -> None:
        """Takes it in; `go_on` begins it."""
        self._works[number] = work

    def drop(self, number: int) -> None:
        """It is not wanted any more, if it is still here."""
        if number in self._works:
            self._wanted.pop(number, None)
            self._works.pop(number).close()

    def go_on(self, room: int) -> Iterator[tuple[int, T | Exception]]:
        """Those that end: with what each made, or why it failed, which takes no other with it. Others go on the next time.

        room: about how many tokens may be read by those that wait for their turn.
        """
        for number in [n for n in self._works if n not in self._wanted]:
            yield from self._resume(number)
        while self._wanted:
            reads = {n: read for n, read in self._wanted.items() if read is not None}
            if not reads:
                if room <= 0:
                    return
                number = next(iter(self._wanted))
                yield from self._resume(number)
                if (read := self._wanted.get(number)) is not None:
                    room -= len(read.feed.tokens)
                continue
            backend = next(iter(reads.values())).backend
            together = {n: read.feed for n, read in reads.items() if read.backend is backend}
            for number, rows in zip(together, read_each(backend, tuple(together.values())), strict=True):
                yield from self._resume(number, rows)

    def _resume(self, number: int, rows: Rows | Exception | None = None) -> Iterator[tuple[int, T | Exception]]:
        self._wanted.pop(number, None)
        work = self._works[number]
        try:
            if isinstance(rows, Exception):
                raise rows
            self._wanted[number] = next(work) if rows is None else work.send(rows)
            return
        except StopIteration as end:
            made = end.value
        except Exception as error:  # one must not take the others with it
            made = error
        self.drop(number)
        yield number, made


def read_each(backend: Backend, feeds: Sequence[Feed]) -> Iterator[Rows | Exception]:
    """The rows of each feed, from one pass; where that fails, of each alone, or why there are none."""
    try:
        found = backend.extend(feeds)
    except Exception as error:  # whoever is at fault is found one by one
        if len(feeds) == 1:
            yield error
            return
        for feed in feeds:
            for rows in read_each(backend, [feed]):
                # a memory that cannot be rolled back did not outlive the pass that failed
                yield error if isinstance(rows, Closed) else rows
        return
    yield from found
