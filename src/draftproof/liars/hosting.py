"""A liar as a running server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from starlette.types import ASGIApp

from draftproof.engine.slot import Order, Run
from draftproof.engine.slots import Slots
from draftproof.liars.fronts import Words
from draftproof.liars.liar import Liar
from draftproof.liars.numbers import untrue
from draftproof.liars.retelling import Retelling
from draftproof.server.load import load_table
from draftproof.server.run import Background, Options, Server
from draftproof.server.served import Defaults, Served

CONTEXT = 4096
_PLAIN = Words()


def served_by(liar: Liar) -> Served:
    """The model that the liar serves, with what is wrong about it."""
    return liar.served(load_table(liar.model, Defaults(speculation=liar.speculation), context=CONTEXT))


@contextmanager
def hosted(liar: Liar) -> Iterator[str]:
    """The liar on a free port of this machine, in a thread; its URL."""

    def kind(served: Served, options: Options, ready: Callable[[str], None]) -> Server:
        return LyingServer(liar, served, options, ready)

    with Background(served_by(liar), Options(slots=liar.slots), kind) as server:
        yield server.url


class LyingServer(Server):
    """Our server with the liar's substitutions; `served` is the liar's own already."""

    def __init__(self, liar: Liar, served: Served, options: Options, ready: Callable[[str], None]) -> None:
        super().__init__(served, options, ready)
        self.worker.slots = _LyingSlots(liar, served, options.slots)
        lie = Words(liar.reask or _PLAIN.reask, liar.retell or _PLAIN.retell)
        for words in (lie, liar.front(served)):
            self._speak(words)

    def _speak(self, words: Words) -> None:
        """The lie first, then what the client is used to: so a lie is one in every server's words."""
        if words != _PLAIN:
            app = cast("ASGIApp", self.config.app)
            self.config.app = Retelling(app, words.retell, words.reask, words.join, words.paths)


class _LyingSlots(Slots):
    """Every order is changed on its way in, and answers are made the liar's way."""

    def __init__(self, liar: Liar, served: Served, count: int) -> None:
        super().__init__(served.models, count)
        self.generation = liar.generation
        self._liar = liar

    def start(self, order: Order) -> Run:
        order = self._liar.order(order, self)
        if self._liar.numbers is not None:
            order = untrue(order, self.models, self._liar.numbers)
        return super().start(order)
