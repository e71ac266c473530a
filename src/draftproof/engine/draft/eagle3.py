"""`draft-eagle3`: a small draft guesses on from what the target's own layers read."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.core.coin import Coin
from draftproof.core.sampling import Sampling
from draftproof.engine.draft.drafter import NOTHING, Proposal
from draftproof.engine.draft.kind import Kind, Setup
from draftproof.engine.draft.model import ModelDrafter

_NAME = "draft-eagle3"
_SAMPLING = Sampling(top_k=10)
"""What `p_min` is compared with, as in llama-server: the law among the ten likeliest tokens, whatever the request samples by."""


class EagleDrafter(ModelDrafter):
    """Drafts the likeliest tokens, as llama-server does: q is one-hot."""

    def propose(self, context: Sequence[int], k: int, coin: Coin) -> Proposal:
        # the draft reads a token together with what the target made of the one before
        return (yield from super().propose(context, k, coin)) if len(context) > 1 else NOTHING


def _open(setup: Setup) -> EagleDrafter:
    assert setup.eagle is not None
    settings = setup.speculation.draft
    return EagleDrafter(setup.eagle, setup.eagle_sequence, _SAMPLING, settings, drawn=False, name=_NAME)


DRAFTER = Kind(
    _NAME,
    "an EAGLE-3 draft of the target",
    _open,
    lambda setup: "" if setup.eagle else "no EAGLE-3 draft is loaded",
    lambda costs: costs.head,
)
