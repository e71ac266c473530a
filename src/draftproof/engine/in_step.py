"""Work that needs a model now and then, of several answers at once: what they want read at a time is read in one pass.

Whoever drafts with a model is such work: a generator that yields what has to be read next, is sent the rows, and returns what
it made. So drafts of many answers go on token by token together, and the same code drafts for one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeAlias, TypeVar

from draftproof.engine.backend import Backend, Feed, Rows

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Read:
    """One sequence's share of a pass of `backend`."""

    backend: Backend
    feed: Feed


Reads: TypeAlias = Generator[Read, Rows, T]
"""Is sent the rows of each `Read`, valid until it yields the next one, and returns a T."""


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
            read = work.send(read.backend.extend([read.feed])[0])
    except StopIteration as end:
        made: T = end.value
        return made


def run_together(works: Sequence[Reads[T]]) -> list[T | Exception]:
    """What each makes, or why it failed, which takes no other with it. What they want of one backend at a time shares a pass."""
    made: dict[int, T | Exception] = {}
    wanted: dict[int, Read] = {}

    def go_on(i: int, rows: Rows | None) -> None:
        try:
            wanted[i] = next(works[i]) if rows is None else works[i].send(rows)
        except StopIteration as end:
            made[i] = end.value
        except Exception as error:  # of this one alone
            made[i] = error

    for i in range(len(works)):
        go_on(i, None)
    while wanted:
        backend = next(iter(wanted.values())).backend
        same = [i for i, read in wanted.items() if read.backend is backend]
        feeds = [wanted.pop(i).feed for i in same]
        for i, rows in zip(same, read_each(backend, feeds), strict=True):
            if isinstance(rows, Exception):
                works[i].close()
                made[i] = rows
            else:
                go_on(i, rows)
    return [made[i] for i in range(len(works))]


def read_each(backend: Backend, feeds: Sequence[Feed]) -> Iterator[Rows | Exception]:
    """The rows of each feed, from one pass; where that fails, of each alone, or why there are none."""
    try:
        found = backend.extend(feeds)
    except Exception as error:  # whoever is at fault is found one by one
        if len(feeds) == 1:
            yield error
            return
        for feed in feeds:
            yield from read_each(backend, [feed])
        return
    yield from found
