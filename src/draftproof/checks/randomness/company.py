"""Requests at one time: prompts that cannot be mistaken for each other, and answers with the times that they took."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from draftproof.core.ask import Ask, Completion
from draftproof.core.probe import Probe

UNKNOWN_SLOTS = 4


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer, and when it was asked for and when it was there, in seconds of one clock."""

    answer: Completion
    began_s: float
    ended_s: float


def together(probe: Probe, asks: Sequence[Ask]) -> tuple[Timed, ...]:
    """One answer per ask, in order, all sent at the same moment. Raises TargetError when one of them is not usable."""
    if not asks:
        return ()
    start = threading.Barrier(len(asks))

    def one(ask: Ask) -> Timed:
        start.wait()
        began = time.monotonic()
        answer = probe.ask(ask)
        return Timed(answer, began, time.monotonic())

    with ThreadPoolExecutor(len(asks)) as threads:
        return tuple(threads.map(one, asks))


def accompanied(probe: Probe, ask: Ask, mates: Sequence[Ask], most: int) -> tuple[Timed, ...]:
    """The answer to `ask`, and those of `mates`, each asked for again and again until the answer is there, at most `most` times.

    For answers that end early, or that come far sooner than the one they are to be beside. Raises as `together`.
    """
    start, done = threading.Barrier(1 + len(mates)), threading.Event()

    def one(ask: Ask) -> Timed:
        began = time.monotonic()
        return Timed(probe.ask(ask), began, time.monotonic())

    def mine() -> list[Timed]:
        start.wait()
        try:
            return [one(ask)]
        finally:
            done.set()

    def again(mate: Ask) -> list[Timed]:
        start.wait()
        answers = [one(mate)]
        while not done.is_set() and len(answers) < most:
            answers.append(one(replace(mate, seed=(mate.seed or 0) + len(answers) * len(mates))))
        return answers

    with ThreadPoolExecutor(1 + len(mates)) as threads:
        futures = [threads.submit(mine), *(threads.submit(again, mate) for mate in mates)]
        return tuple(timed for future in futures for timed in future.result())


def company(answers: Sequence[Timed], n: int) -> float:
    """The share of the time of answer n in which another one was asked for, from 0 to 1."""
    me = answers[n]
    others = sorted((t.began_s, t.ended_s) for i, t in enumerate(answers) if i != n)
    shared, until = 0.0, me.began_s
    for began, ended in others:
        low, high = max(began, until), min(ended, me.ended_s)
        if high > low:
            shared, until = shared + high - low, high
    whole = me.ended_s - me.began_s
    return shared / whole if whole > 0 else 0.0


def room(probe: Probe, most: int) -> int:
    """How many requests to send at once: as many as the server has slots for, at most `most`."""
    return min(most, probe.facts.slots or UNKNOWN_SLOTS)
