"""Work that goes on together: shared passes, no waiting for those that catch up, no failure that takes another with it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.engine.models import random_table

from draftproof.engine.backend import Feed, Rows, UnknownToken
from draftproof.engine.backends.table import TableBackend
from draftproof.engine.in_step import InStep, Read, Reads, at_once, run_alone


class Counted(TableBackend):
    """A table that remembers the lengths of what it read in each pass."""

    def __init__(self) -> None:
        super().__init__(random_table(1, vocab=5).table)
        self.passes: list[list[int]] = []

    def extend(self, feeds: Sequence[Feed]) -> list[Rows]:
        self.passes.append([len(feed.tokens) for feed in feeds])
        return super().extend(feeds)


def likeliest(backend: TableBackend, *parts: Sequence[int]) -> Reads[list[int]]:
    """The likeliest token after each of the parts, read one after the other; long ones when it is their turn."""
    sequence, found = backend.sequence(), []
    for part in parts:
        if len(part) > 16:
            yield None
        rows = yield Read(backend, Feed(sequence, tuple(part), 1))
        found.append(int(rows[0].argmax()))
    return found


@at_once
def known(value: list[int]) -> list[int]:
    return value


def finished(work: InStep[list[int]], room: int = 0) -> dict[int, list[int] | Exception]:
    return dict(work.go_on(room))


def test_alone_every_read_is_a_pass() -> None:
    model = Counted()
    expected = [int(model.row(context).argmax()) for context in ((1, 2), (1, 2, 3))]
    assert run_alone(likeliest(model, (1, 2), (3,))) == expected
    assert model.passes == [[2], [1]]
    assert run_alone(known([7])) == [7]


def test_together_each_makes_what_it_makes_alone_in_fewer_passes() -> None:
    model, other, work = Counted(), Counted(), InStep[list[int]]()
    jobs = [(model, ((1,), (2,), (3,))), (model, ((4, 0), (1,))), (other, ((2,),)), (model, ((0,),))]
    for number, (backend, parts) in enumerate(jobs):
        work.start(number, likeliest(backend, *parts))
    work.start(9, known([7]))
    expected = {n: run_alone(likeliest(backend, *parts)) for n, (backend, parts) in enumerate(jobs)}
    model.passes, other.passes = [], []
    assert finished(work) == {**expected, 9: [7]}
    assert (model.passes, other.passes) == ([[1, 2, 1], [1, 1], [1]], [[1]])
    assert 0 not in work


def test_who_catches_up_does_not_keep_the_others_waiting() -> None:
    model, work = Counted(), InStep[list[int]]()
    long = (1,) * 100
    work.start(0, likeliest(model, long, long, (2,)))
    work.start(1, likeliest(model, long, (3,)))
    for short in (2, 3):
        work.start(short, likeliest(model, (4,)))
        assert short in finished(work, 100)
    assert model.passes == [[1], [100], [1], [100], [1]]
    assert list(finished(work, 0)) == []
    assert list(finished(work, 1)) == [0]


def test_who_fails_takes_no_other_with_it() -> None:
    model, work = Counted(), InStep[list[int]]()
    for number, token in enumerate((1, 99, 2)):
        work.start(number, likeliest(model, (token,), (3,)))
    found = finished(work)
    assert isinstance(found.pop(1), UnknownToken)
    assert found == {n: run_alone(likeliest(model, (token,), (3,))) for n, token in ((0, 1), (2, 2))}
    with pytest.raises(UnknownToken):
        run_alone(likeliest(model, (99,)))


def test_an_error_of_its_own_ends_it_too() -> None:
    def fails() -> Reads[list[int]]:
        yield from ()
        raise RuntimeError("no")

    work = InStep[list[int]]()
    work.start(0, fails())
    work.start(1, known([1]))
    found = finished(work)
    assert isinstance(found[0], RuntimeError)
    assert found[1] == [1]


def test_what_is_dropped_is_closed_and_read_no_more() -> None:
    model, work, closed = Counted(), InStep[list[int]](), []

    def dropped() -> Reads[list[int]]:
        try:
            return (yield from likeliest(model, (1,) * 100, (2,)))
        finally:
            closed.append(True)

    work.start(0, dropped())
    assert finished(work) == {}
    work.drop(0)
    work.drop(0)
    assert finished(work, 100) == {}
    assert (closed, model.passes) == ([True], [])
