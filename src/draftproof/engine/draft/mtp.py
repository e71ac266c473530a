"""`draft-mtp`: the model's own prediction head drafts, from the hidden rows that the model puts out anyway."""

from __future__ import annotations

from draftproof.engine.draft.kind import Kind, Setup
from draftproof.engine.draft.model import ModelDrafter

_NAME = "draft-mtp"


def _open(setup: Setup) -> ModelDrafter:
    """With the limits that draft models have, as in llama-server."""
    assert setup.head is not None
    settings = setup.speculation.draft
    return ModelDrafter(setup.head, setup.head_sequence, setup.sampling, settings, drawn=setup.drawn, name=_NAME)


DRAFTER = Kind(
    _NAME,
    "the model's own prediction head",
    _open,
    lambda setup: "" if setup.head else "no prediction head is loaded",
    lambda costs: costs.head,
)
