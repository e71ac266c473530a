"""Several requests in flight, answers in order, memory bounded, and quick to stop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class _Task(Generic[A, B]):
    __slots__ = ("answer", "done", "error", "question")

    def __init__(self, question: A) -> None:
        self.question = question
        self.answer: B | None = None
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()


def in_order(work: Callable[[A], B], questions: Iterable[A], workers: int) -> Iterator[B]:
    """`work(question)` of every question, in the order of the questions, `workers` of them at a time.

    `questions` is read in the caller's thread, at most 4 x workers ahead. What `work` raises is raised at its place in the order.
    On leaving early (an exception, Ctrl-C, an abandoned iterator) nothing new is begun;
    requests on their way end in the background.
    """
    todo: SimpleQueue[_Task[A, B] | None] = SimpleQueue()
    stop = threading.Event()
    threads = [threading.Thread(target=_work, args=(work, todo, stop), daemon=True) for _ in range(workers)]
    source = iter(questions)
    waiting: deque[_Task[A, B]] = deque()
    try:
        for thread in threads:
            thread.start()
        more = True
        while True:
            while more and len(waiting) < 4 * workers:
                try:
                    task: _Task[A, B] = _Task(next(source))
                except StopIteration:
                    more = False
                    break
                waiting.append(task)
                todo.put(task)
            if not waiting:
                return
            task = waiting.popleft()
            task.done.acquire()
            if task.error is not None:
                raise task.error
            yield task.answer  # type: ignore[misc]  # set, since there was no error
    finally:
        stop.set()
        for _ in threads:
            todo.put(None)


def _work(work: Callable[[A], B], todo: SimpleQueue[_Task[A, B] | None], stop: threading.Event) -> None:
    while (task := todo.get()) is not None:
        if not stop.is_set():
            try:
                task.answer = work(task.question)
            except BaseException as e:
                task.error = e
        task.done.release()
