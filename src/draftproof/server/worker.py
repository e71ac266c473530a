"""The engine thread: it alone touches the models. Requests come in through a queue, events go back to their event loops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import TypeAlias

from draftproof.engine.emit import Emitted
from draftproof.engine.slot import Run
from draftproof.engine.slots import Slots
from draftproof.server.errors import Refusal, busy, refusal, stopping
from draftproof.server.jobs import Choice, Event, Ticket
from draftproof.server.metrics import Totals
from draftproof.server.served import Served

_WORTH_WAITING = 64
"""Tokens of a prompt that is read once for all choices of a request."""
log = logging.getLogger(__name__)

Mail: TypeAlias = list[tuple[Ticket, Event]]


class Worker:
    """`start`, then `submit` tickets from any thread; `stop` ends what is running.

    slots: answers made at once. waiting: the most that may wait for a slot. Tickets take turns, one choice at a time, so a
    request for many choices does not block the next one.
    """

    def __init__(self, served: Served, *, slots: int = 1, waiting: int = 256) -> None:
        self.served = served
        self.slots = Slots(served.models, slots)
        self.totals = Totals()
        self.waiting = 0
        self.shown: dict[int, tuple[Ticket, Choice]] = {}
        """What runs in each slot, or ran last."""
        self._most_waiting = waiting
        self._inbox: SimpleQueue[Ticket | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._stopping = False
        self._parties: deque[tuple[Ticket, deque[Choice]]] = deque()
        self._running: dict[Run, tuple[Ticket, Choice]] = {}
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, ticket: Ticket) -> None:
        """Events of the ticket will come. Raises Refusal when too many wait already, or the server stops."""
        slot, count = ticket.settings.slot, len(self.slots.slots)
        if slot is not None and slot >= count:
            raise Refusal(f"There is no slot {slot}; there are {count}, from 0 on.")
        with self._lock:
            if self._stopping:
                raise stopping()
            if self.waiting and self.waiting + len(ticket.choices) > self._most_waiting + count:
                raise busy(self.waiting)
            self.waiting += len(ticket.choices)
        self._inbox.put(ticket)

    def cancel(self, ticket: Ticket) -> None:
        """Nobody wants the answer any more: its slots are free after the running step. From any thread, at any time."""
        ticket.cancelled = True
        self._inbox.put(None)

    def stop(self) -> None:
        """What runs or waits ends with an error; the thread is gone and the memories are given back on return."""
        with self._lock:
            self._stopping = True
        self._inbox.put(None)
        if self.served.models.abandon is not None:
            self.served.models.abandon()  # a part of a prompt may take seconds
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether the thread still works."""
        return self._thread.is_alive()

    def _work(self) -> None:
        try:
            while self._receive():
                mail: Mail = []
                self._drop_cancelled()
                self._admit(mail)
                moved = self.slots.step()
                self.totals.busy += len(moved)
                for run, emitted in moved:
                    self._report(run, emitted, mail)
                _send(mail)
        except BaseException:
            log.exception("The engine thread died.")
            raise
        finally:
            self._end(stopping() if self._stopping else Refusal("The engine died.", 500, "server_error"))

    def _receive(self) -> bool:
        """Takes what came in, waiting while there is nothing to do. False when the thread is to end."""
        idle = not self._running and not self._parties
        while not self._stopping:
            try:
                ticket = self._inbox.get(block=idle)
            except Empty:
                break
            if ticket is not None:
                self._parties.append((ticket, deque(ticket.choices)))
            idle = False
        return not self._stopping

    def _drop_cancelled(self) -> None:
        for run, (ticket, _) in list(self._running.items()):
            if ticket.cancelled:
                self.slots.cancel(run)
                self._forget(run)
        for ticket, waiting in list(self._parties):
            if ticket.cancelled:
                self._parties.remove((ticket, waiting))
                self._not_waiting(len(waiting))

    def _forget(self, run: Run) -> None:
        self.totals.add(run)
        del self._running[run]

    def _not_waiting(self, count: int) -> None:
        with self._lock:
            self.waiting -= count

    def _admit(self, mail: Mail) -> None:
        """Gives free slots to waiting choices, one of each ticket in turn."""
        stuck = 0
        while stuck < len(self._parties):
            ticket, waiting = self._parties.popleft()
            if not self.slots.can_start(waiting[0].order) or _copies(ticket, waiting[0]):
                self._parties.append((ticket, waiting))
                stuck += 1
                continue
            stuck = 0
            self._begin(ticket, waiting.popleft(), mail)
            if waiting:
                self._parties.append((ticket, waiting))

    def _begin(self, ticket: Ticket, choice: Choice, mail: Mail) -> None:
        self._not_waiting(1)
        try:
            run = choice.run = self.slots.start(choice.order)
        except Exception as error:  # a request that cannot be served must not end the thread
            mail.append((ticket, Event(choice, done=True, error=refusal(error))))
            return
        self._running[run] = self.shown[run.slot] = (ticket, choice)
        if ticket.settings.return_progress:
            mail.append((ticket, Event(choice, read=run.reused)))
        if run.done:
            self._report(run, [], mail)

    def _report(self, run: Run, emitted: Sequence[Emitted], mail: Mail) -> None:
        ticket, choice = self._running[run]
        choice.take(emitted)
        if run.error is not None and self._stopping:
            mail.append((ticket, Event(choice, done=True, error=stopping())))
            self._forget(run)
            return
        if run.error is not None:
            if not isinstance(run.error, ValueError):
                log.error("An answer failed.", exc_info=run.error)
            mail.append((ticket, Event(choice, done=True, error=refusal(run.error))))
            self._forget(run)
            return
        if run.done:
            choice.text.finish()
            self._forget(run)
        if ticket.settings.stream and emitted:
            if ticket.settings.return_progress and not choice.told:
                mail.append((ticket, Event(choice, read=len(choice.prompt))))
            pieces = choice.text.pieces[choice.told :]
            choice.told = len(choice.tokens)
            mail.append((ticket, Event(choice, emitted, pieces, done=run.done)))
        elif run.done:
            mail.append((ticket, Event(choice, done=True)))
        elif ticket.settings.return_progress and not choice.tokens:
            mail.append((ticket, Event(choice, read=run.read_tokens)))

    def _end(self, error: Refusal) -> None:
        """Tells everyone who still waits, and gives the memories back."""
        mail: Mail = [(ticket, Event(choice, done=True, error=error)) for ticket, choice in self._running.values()]
        with self._lock:
            self._stopping = True
        self._receive_all()
        for ticket, waiting in self._parties:
            mail += [(ticket, Event(choice, done=True, error=error)) for choice in waiting]
        _send(mail)  # first, for whatever is broken may break what follows too
        for run in list(self._running):
            self.slots.cancel(run)
            self._forget(run)
        self._parties.clear()
        self.waiting = 0
        self.slots.close()

    def _receive_all(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                ticket = self._inbox.get_nowait()
                if ticket is not None:
                    self._parties.append((ticket, deque(ticket.choices)))


def _copies(ticket: Ticket, choice: Choice) -> bool:
    """Whether a choice should wait, for a long prompt that it shares is being read and can be copied then."""
    first = ticket.choices[choice.index - choice.index % ticket.settings.choices]
    run = first.run
    reading = run is not None and run.read_s is None and not run.done
    return reading and ticket.settings.reuse and len(choice.prompt) >= _WORTH_WAITING


def _send(mail: Mail) -> None:
    """One wake-up for each event loop, however many events there are."""
    loops: dict[asyncio.AbstractEventLoop, Mail] = {}
    for ticket, event in mail:
        loops.setdefault(ticket.loop, []).append((ticket, event))
    for loop, events in loops.items():
        with contextlib.suppress(RuntimeError):  # a loop that is closed has nobody who waits
            loop.call_soon_threadsafe(_deliver, events)


def _deliver(mail: Mail) -> None:
    for ticket, event in mail:
        ticket.events.put_nowait(event)
