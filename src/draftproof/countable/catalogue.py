"""Known models by name."""

from __future__ import annotations

from functools import lru_cache

from draftproof.countable import story
from draftproof.countable.oracle import CountablePair


@lru_cache(maxsize=1)
def builtin() -> CountablePair:
    """The built-in pair, in memory: what `draftproof countable write` writes. Its name is "countable-8"."""
    return story.build()
