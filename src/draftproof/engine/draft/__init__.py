"""Drafters: who guesses the next tokens. One file and one line here add one."""

from __future__ import annotations

from draftproof.core.errors import UsageError
from draftproof.engine.draft import (
    eagle3,
    model,
    mtp,
    ngram_cache,
    ngram_map_k,
    ngram_map_k4v,
    ngram_mod,
    ngram_simple,
    none,
)
from draftproof.engine.draft.kind import Kind

DRAFTERS: tuple[Kind, ...] = (
    none.DRAFTER,
    model.DRAFTER,
    mtp.DRAFTER,
    eagle3.DRAFTER,
    ngram_simple.DRAFTER,
    ngram_map_k.DRAFTER,
    ngram_map_k4v.DRAFTER,
    ngram_mod.DRAFTER,
    ngram_cache.DRAFTER,
)


def kind(name: str) -> Kind:
    """The drafter of that name. Raises UsageError that lists the known ones."""
    for known in DRAFTERS:
        if known.name == name:
            return known
    raise UsageError(f'There is no drafter "{name}".', f"Known drafters: {', '.join(k.name for k in DRAFTERS)}.")
