"""What a liar is: our own server, and the one thing that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from draftproof.core.speculation import DraftModel, Speculation
from draftproof.engine.generate import Generation
from draftproof.engine.slot import Order
from draftproof.engine.slots import Slots
from draftproof.liars.fronts import Front, ours
from draftproof.liars.numbers import Tell
from draftproof.liars.retelling import Reask, Retell
from draftproof.server.served import Served

DRAFTING = Speculation(types=("draft-simple",), draft=DraftModel(n_max=3))
"""What liars do unless their defect is of another mode."""


def _as_it_is(served: Served) -> Served:
    return served


def _as_asked(order: Order, slots: Slots) -> Order:  # noqa: ARG001 - changes nothing
    return order


@dataclass(frozen=True, slots=True)
class Liar:
    """A server with one defect.

    `story` completes "the server ..."; `report` is the address of a public report of the kind. `fails`: the checks that must
    fail on it; `may_fail`: those that fail by chance or besides, with the reason. All others must not fail. `uncaught`: why no
    check fails on it, if none does; even so it must not be called sound.

    The defect is one of six substitutions. `served`: another model or other defaults. `reask`: the body of a request is read
    otherwise. `order`: the engine is asked for something else than the client asked for. `generation`: answers are made another
    way. `numbers`: a token's numbers are told otherwise. `retell`: the JSON of answers, streamed or not, is changed.

    `model` is a name of the catalogue. `front`: in whose words it is served; the defect is the same in all.
    """

    name: str
    story: str
    report: str
    fails: tuple[str, ...]
    may_fail: Mapping[str, str] = field(default_factory=dict)
    uncaught: str = ""
    model: str = "story"
    speculation: Speculation = DRAFTING
    slots: int = 4
    front: Front = ours
    served: Callable[[Served], Served] = _as_it_is
    order: Callable[[Order, Slots], Order] = _as_asked
    generation: type[Generation] = Generation
    numbers: Tell | None = None
    reask: Reask | None = None
    retell: Retell | None = None

    @property
    def honest(self) -> bool:
        """Whether nothing is wrong with it: a control that must pass."""
        return not self.report
