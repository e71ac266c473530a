from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from draftproof.client.pipeline import in_order


def test_answers_come_in_the_order_of_the_questions() -> None:
    def work(i: int) -> int:
        time.sleep(0.002 if i % 3 else 0.006)
        return i * i

    assert list(in_order(work, range(60), 5)) == [i * i for i in range(60)]


def test_no_questions_no_answers() -> None:
    assert list(in_order(lambda i: i, [], 3)) == []


def test_so_many_work_at_once_and_no_more() -> None:
    lock = threading.Lock()
    now = most = 0

    def work(_: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1

    list(in_order(work, range(40), 4))
    assert most == 4


def test_an_error_comes_in_its_place() -> None:
    def work(i: int) -> int:
        if i == 37:
            raise KeyError(i)
        return i

    answers = in_order(work, itertools.count(), 4)
    assert list(itertools.islice(answers, 37)) == list(range(37))
    with pytest.raises(KeyError):
        next(answers)


def test_questions_are_read_a_bounded_number_ahead() -> None:
    read = 0

    def questions() -> Iterator[int]:
        nonlocal read
        for i in itertools.count():
            read += 1
            yield i

    answers = in_order(lambda i: i, questions(), 2)
    for _ in range(1000):
        next(answers)
    assert read < 1000 + 4 * 2 * 16 + 16
    answers.close()  # type: ignore[attr-defined]  # it is a generator


def test_an_error_of_the_questions_is_the_callers() -> None:
    def questions() -> Iterator[int]:
        yield 1
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        list(in_order(lambda i: i, questions(), 2))


def test_leaving_early_begins_nothing_new() -> None:
    begun = []

    def work(i: int) -> int:
        begun.append(i)
        time.sleep(0.03)
        return i

    for answer in in_order(work, range(1000), 3):
        if answer == 2:
            break
    stopped_at = len(begun)
    time.sleep(0.1)
    assert len(begun) <= stopped_at + 3
    assert stopped_at < 20


def test_slow_work_is_shared_evenly_and_fast_work_handed_over_in_bulk() -> None:
    doers: dict[int, int] = {}

    def slow(i: int) -> int:
        doers[threading.get_ident()] = doers.get(threading.get_ident(), 0) + 1
        time.sleep(0.02)
        return i

    list(in_order(slow, range(16), 4))
    assert sorted(doers.values()) == [4, 4, 4, 4]
    assert list(in_order(lambda i: i, range(5000), 4)) == list(range(5000))


def test_an_interrupt_in_the_caller_leaves_at_once() -> None:
    def interrupted() -> Iterator[int]:
        yield from range(4)
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(in_order(lambda _: time.sleep(1.0), interrupted(), 4))
    assert time.monotonic() - began < 0.5
