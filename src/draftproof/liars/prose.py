"""A model that takes ordinary text letter by letter, for servers that are asked in text: the letters of the countable ones are too
few for the prompts that are sent to strangers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from draftproof.countable.table import Table, random_table
from draftproof.engine.backends.law import LawBackend
from draftproof.engine.draft.ngram_pool import NgramPool
from draftproof.engine.slot import Models
from draftproof.server.served import Served
from draftproof.server.vocabulary import Letters

PIECES = tuple(bytes([byte]) for byte in (*b"\n", *range(32, 127)))
_SEED, _SPREAD, _NOISE, _NOISE_SEED = 8, 1.0, 0.7, 3
_SPACE, _LETTER = 60.0, 4.0
"""How much likelier spaces and small letters are than the rest, so that those of prompts are listed among the likeliest."""


def in_prose(served: Served) -> Served:
    """What is served, by another model: each character has its law after the one before; the draft's is a noisy copy."""
    weights = np.array([_SPACE if p == b" " else _LETTER if p.islower() else 1.0 for p in PIECES])
    law = random_table(len(PIECES), 1, seed=_SEED, spread=_SPREAD).law * weights
    target = Table(law / law.sum(axis=1, keepdims=True))
    draft = target.noisy(_NOISE, seed=_NOISE_SEED)
    target_backend, draft_backend = (
        LawBackend(table.logprobs, len(PIECES), "prose", context=served.context) for table in (target, draft)
    )
    models = Models(target_backend, draft_backend, NgramPool())
    return replace(served, models=models, vocabulary=Letters(PIECES))
