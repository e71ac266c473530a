"""A request on its way through the engine: a ticket, its choices, and the events that come back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from draftproof.engine.emit import NOTHING_ASKED, Emitted, Report
from draftproof.engine.generate import Job
from draftproof.engine.slot import Order, Run
from draftproof.engine.stop import Finish
from draftproof.server.errors import Refusal
from draftproof.server.prompts import Tokens
from draftproof.server.served import Served
from draftproof.server.settings import Settings, seed_of_choice
from draftproof.server.text import TextStream

MOST_ANSWERS = 1024
_ENDLESS = 2**31 - 1
_numbers = itertools.count()


class Choice:
    """One answer of a request. The engine thread writes `run`, `tokens` and `text`; others read them once it is done.

    `settings.seed` is this choice's own.
    """

    def __init__(self, index: int, prompt: Tokens, settings: Settings, served: Served) -> None:
        self.index = index
        self.prompt = prompt
        self.settings = settings
        calling = settings.calling
        shown = calling.shown if calling is not None else frozenset()
        self._bytes_of = lambda token: served.vocabulary.piece(token, special=token in shown)
        self.text = TextStream(self._bytes_of, settings.stops)
        self.tokens: list[Emitted] = []
        self.run: Run | None = None
        self.seen = 0
        """How many tokens went into an answer that is streamed; written where the answer is."""
        self.told = 0
        """How many tokens went out in events."""
        self.order = Order(
            _job(prompt, settings),
            settings.speculation,
            reuse=settings.reuse,
            slot=settings.slot,
            stop=self.text,
            constraint=calling.constraint(served) if calling is not None else served.constraint(settings.grammar),
        )

    def take(self, emitted: Sequence[Emitted]) -> None:
        """Tokens came. The one that ends an answer by its nature was not shown to the text yet."""
        self.tokens += emitted
        for token in self.tokens[len(self.text.pieces) :]:
            self.text.ends(token.token)

    @cached_property
    def prompt_text(self) -> TextStream:
        """The texts of the prompt's tokens, those of control tokens left out."""
        text = TextStream(self._bytes_of)
        for token in self.prompt:
            text.ends(token)
        text.finish()
        return text

    @property
    def prompt_starts(self) -> list[int]:
        """Where each token of the prompt begins in its text, and last the length of the text."""
        return [*self.prompt_text.starts, len(self.prompt_text.text)]

    @property
    def finished(self) -> Run:
        """The run of a choice that is done, or at least has a slot."""
        assert self.run is not None
        return self.run

    @property
    def finish(self) -> Finish:
        """Why it ended."""
        finish = self.finished.generation.finish
        assert finish is not None
        return finish


def _job(prompt: Tokens, settings: Settings) -> Job:
    report = Report(settings.alternatives, settings.post_sampling) if settings.alternatives >= 0 else NOTHING_ASKED
    return Job(
        prompt,
        settings.max_tokens if settings.max_tokens >= 0 else _ENDLESS,
        settings.sampling,
        settings.seed,
        ignore_eog=settings.ignore_eos,
        report=report,
        score_prompt=settings.echo and settings.alternatives >= 0,
    )


@dataclass(frozen=True, slots=True)
class Event:
    """What became known of a choice: tokens with the texts that they set free, how far the prompt is read, the end, an error."""

    choice: Choice
    tokens: Sequence[Emitted] = ()
    pieces: Sequence[str] = ()
    read: int | None = None
    done: bool = False
    error: Refusal | None = None


class Ticket:
    """A request. `events` belongs to the event loop in which the ticket was made; without streaming only ends and errors come."""

    def __init__(self, prompts: Sequence[Tokens], settings: Settings, served: Served) -> None:
        """Raises Refusal for too many answers: while they wait, nobody else gets in."""
        if len(prompts) * settings.choices > MOST_ANSWERS:
            raise Refusal(f"{len(prompts) * settings.choices} answers in one request: at most {MOST_ANSWERS}.")
        self.number = next(_numbers)
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.cancelled = False
        self.choices = [
            Choice(i * settings.choices + j, prompt, replace(settings, seed=seed_of_choice(settings.seed, j)), served)
            for i, prompt in enumerate(prompts)
            for j in range(settings.choices)
        ]
