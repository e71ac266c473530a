"""Several requests in flight, answers in order, memory bounded, and quick to stop."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from queue import SimpleQueue
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")

_PER_HANDOVER_S = 0.02
_MOST_PER_HANDOVER = 16


class _Task(Generic[A, B]):
    """Some questions in a row. `answers` are those that came before `error`."""

    __slots__ = ("answers", "done", "error", "questions")

    def __init__(self, questions: tuple[A, ...]) -> None:
        self.questions = questions
        self.answers: list[B] = []
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()


class _Line(Generic[A, B]):
    """Work that waits, the workers that do it, and how long a piece takes."""

    def __init__(self, work: Callable[[A], B], workers: int) -> None:
        self.work = work
        self.todo: SimpleQueue[_Task[A, B] | None] = SimpleQueue()
        self.stopped = False
        self.pace_s = _PER_HANDOVER_S
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(workers)]

    def per_handover(self) -> int:
        """Threads cost more to switch than a fast answer takes to come: then several questions are handed over at once."""
        return max(1, min(_MOST_PER_HANDOVER, int(_PER_HANDOVER_S / max(self.pace_s, 1e-6))))

    def _run(self) -> None:
        while (task := self.todo.get()) is not None:
            began = time.perf_counter()
            try:
                for question in task.questions:
                    if self.stopped:
                        break
                    task.answers.append(self.work(question))
            except BaseException as e:
                task.error = e
            self.pace_s = (time.perf_counter() - began) / len(task.questions)
            task.done.release()


def in_order(work: Callable[[A], B], questions: Iterable[A], workers: int) -> Iterator[B]:
    """`work(question)` of every question, in the order of the questions, `workers` of them at a time.

    `questions` is read in the caller's thread and only a bounded number ahead. What `work` raises is raised at its place in the
    order. On leaving early (an exception, Ctrl-C, an abandoned iterator) nothing new is begun; what is on its way ends in the
    background.
    """
    line: _Line[A, B] = _Line(work, workers)
    source = iter(questions)
    waiting: deque[_Task[A, B]] = deque()
    try:
        for thread in line.threads:
            thread.start()
        more = True
        while True:
            while more and len(waiting) < 4 * workers:
                some = tuple(islice(source, line.per_handover()))
                more = bool(some)
                if some:
                    waiting.append(_Task(some))
                    line.todo.put(waiting[-1])
            if not waiting:
                return
            task = waiting.popleft()
            task.done.acquire()
            yield from task.answers
            if task.error is not None:
                raise task.error
    finally:
        line.stopped = True
        for _ in line.threads:
            line.todo.put(None)
