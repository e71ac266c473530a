"""libllama from Python: a thin layer over the C functions of a pinned build. Knows nothing of sampling, text or HTTP."""

from __future__ import annotations

from functools import cache

from draftproof.engine.libllama import carrier, selftest
from draftproof.engine.libllama.batch import Row
from draftproof.engine.libllama.context import CacheType, Context, ContextOptions
from draftproof.engine.libllama.eagle import Eagle
from draftproof.engine.libllama.follower import HeadRow, HeadRows
from draftproof.engine.libllama.grammar import Grammar
from draftproof.engine.libllama.head import Head
from draftproof.engine.libllama.library import Library, open_carrier
from draftproof.engine.libllama.model import Model, ModelOptions
from draftproof.engine.libllama.vocab import Vocab

__all__ = [
    "CacheType",
    "Context",
    "ContextOptions",
    "Eagle",
    "Grammar",
    "Head",
    "HeadRow",
    "HeadRows",
    "Library",
    "Model",
    "ModelOptions",
    "Row",
    "Vocab",
    "load_library",
]


@cache
def load_library() -> Library:
    """The libllama of this machine, opened and tested once for each process.

    Raises LibraryMissing, UnsupportedBuild, SelfTestFailed.
    """
    library = open_carrier(carrier.find())
    selftest.run(library)
    return library
